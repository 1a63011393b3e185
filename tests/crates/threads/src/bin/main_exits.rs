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
    println!("main ends");
    let first = thread::spawn(|| {
        thread::sleep(Duration::from_millis(20));
        println!("the first thread");
    });
    thread::spawn(|| {
        first.join().unwrap();
        println!("the last thread");
    });
    // SAFETY: no frame between here and the first function of the thread has a destructor.
    unsafe { pthread_exit(ptr::null_mut()) }
}
