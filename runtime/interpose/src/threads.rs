//! Threads of pthread that are green threads, in a program with the line `runtime::interpose!(threads)`. The
//! page `docs::threads` says what users see.
//!
//! ```text
//!   __libc_start_main ──RUNTIME_THREADS=os, or no blocks──> libc's: all are OS threads
//!        └─> main is a green thread ──pthread_create──> green threads
//! ```
//!
//! - `start.rs`: `__libc_start_main`, and the decision for the process.
//! - `record.rs`: the record that a `pthread_t` of a green thread leads to.
//! - `create.rs`: `pthread_create`, `pthread_exit`, and what a green thread does at its begin and end.
//! - `join.rs`: `pthread_join` and its kin, `pthread_detach`.
//! - `names.rs`: `pthread_self`, `pthread_setname_np`, `pthread_getname_np`.
//! - `os_thread.rs`: threads that keep an OS thread, each of its own.
//! - `attributes.rs`: what an OS thread can do and a green thread cannot: signals, scheduling.
//! - `masks.rs`: `pthread_sigmask` and its kin, `sigsuspend`; `masks/common.rs`: signals of the process;
//!   `masks/kernel.rs`: the masks of OS threads.
//! - `cancel.rs`: `pthread_cancel` and its kin, handlers of `pthread_cleanup_push`.
//! - `children.rs`: `execve`, `posix_spawn`, `system`: the mask of the programs that start.
//! - `locks.rs`: mutexes, condition variables, semaphores and other locks of C.
//! - `c11.rs`: threads and locks of C11.
//! - `signals.rs`: `sigwait` and its kin, and signals to a thread that waits so.
//! - `yields.rs`: `sched_yield`.
//!
//! What starts in user code becomes a green thread. The runtime's own threads stay OS threads. So do the
//! threads that an OS thread starts. A `pthread_t` of an OS thread goes to libc's function, one of a green
//! thread never does. Closures of `spawn` are no threads of pthread: to themselves they
//! have the name of their block of thread-locals, which no other function here knows.

pub mod attributes;
pub mod c11;
pub mod cancel;
pub mod children;
pub mod create;
pub mod join;
pub mod locks;
pub mod masks;
pub mod names;
pub mod os_thread;
mod record;
pub mod signals;
pub mod start;
pub mod yields;

/// Declares libc's function of a name: a function that returns it.
macro_rules! real {
    ($($name:ident: $type:ty;)*) => {$(
        fn $name() -> $type {
            static REAL: sched::Real = sched::Real::new(
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                },
            );
            // SAFETY: libc's function of this name has this type.
            unsafe { std::mem::transmute::<*mut std::ffi::c_void, $type>(REAL.get()) }
        }
    )*};
}
use real;
