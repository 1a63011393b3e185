//! `main` of C ends its thread by `pthread_exit`: the process ends with its last thread.
#![no_main]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::thread;
use std::time::Duration;

runtime::interpose!(threads);

unsafe extern "C-unwind" {
    fn pthread_exit(value: *mut c_void) -> !;
}

#[unsafe(no_mangle)]
extern "C-unwind" fn main() -> c_int {
    for ms in [20, 40] {
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(ms));
            println!("a thread of {ms} ms");
        });
    }
    println!("main ends");
    // SAFETY: no frame between here and the first function of the thread has a destructor.
    unsafe { pthread_exit(ptr::null_mut()) }
}
