//! Opens the libraries that the arguments name, and runs the basics of each, one after the other and side by
//! side.
//! `loader.c` is the same in C; this program has a runtime of its own besides.

#[path = "../basics.rs"]
mod basics;

use std::ffi::{CStr, CString};
use std::time::Duration;

type Runs = extern "C" fn() -> i32;

fn opened(path: &str) -> Runs {
    let path = CString::new(path).unwrap();
    // SAFETY: the strings end with zero, and the library's initialisers are those of Rust.
    let symbol = unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null(), "{:?}", CStr::from_ptr(libc::dlerror()));
        libc::dlsym(library, c"runs_basics".as_ptr())
    };
    assert!(!symbol.is_null());
    // SAFETY: `library.rs` has this function. The library stays open.
    unsafe { std::mem::transmute::<*mut libc::c_void, Runs>(symbol) }
}

fn main() {
    let libraries: Vec<Runs> = std::env::args().skip(1).map(|path| opened(&path)).collect();
    assert!(libraries.len() >= 2);
    for runs in &libraries {
        assert_eq!(runs(), 1);
    }
    std::thread::scope(|s| {
        for runs in &libraries {
            s.spawn(|| assert_eq!(runs(), 1));
        }
        basics::all(Duration::from_millis(50));
    });
    println!("ok");
}
