//! Threads that are always OS threads: by the function that only libc has.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use libc::{pthread_attr_t, pthread_t};

/// The function of a thread.
pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;

type Create = unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;

/// Starts an OS thread that runs `work`.
pub fn spawn(work: fn()) -> pthread_t {
    extern "C" fn calls(work: *mut c_void) -> *mut c_void {
        // SAFETY: the argument below is such a function.
        unsafe { std::mem::transmute::<*mut c_void, fn()>(work)() };
        ptr::null_mut()
    }
    create(calls, work as *mut c_void)
}

/// Starts an OS thread that runs `start` with the argument.
pub fn create(start: Start, argument: *mut c_void) -> pthread_t {
    static CREATE: OnceLock<Create> = OnceLock::new();
    // SAFETY: the library is loaded, and its function has this type.
    let create = CREATE.get_or_init(|| unsafe {
        let libc = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW);
        std::mem::transmute::<*mut c_void, Create>(libc::dlsym(libc, c"pthread_create".as_ptr()))
    });
    let mut thread = 0;
    // SAFETY: the place is this function's. The callers have an argument that `start` takes.
    assert_eq!(unsafe { create(&mut thread, ptr::null(), start, argument) }, 0);
    thread
}

/// Joins a thread, which is joined once.
pub fn join(thread: pthread_t) {
    // SAFETY: the callers join a thread once.
    assert_eq!(unsafe { libc::pthread_join(thread, ptr::null_mut()) }, 0);
}

/// Starts `threads` threads of std and `os_threads` OS threads, and joins all.
pub fn run_all(threads: usize, os_threads: usize, work: fn()) {
    let all: Vec<_> = (0..threads).map(|_| std::thread::spawn(work)).collect();
    let of_os: Vec<_> = (0..os_threads).map(|_| spawn(work)).collect();
    all.into_iter().for_each(|thread| thread.join().unwrap());
    of_os.into_iter().for_each(join);
}
