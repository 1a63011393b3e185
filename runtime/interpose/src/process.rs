//! Children of `vfork`: another process in the memory of its parent, on the stack and with the thread-locals
//! of the caller, which sleeps meanwhile. Such a child looks like the green thread that has made it, but has
//! descriptors of its own.
//!
//! ```text
//!   the green thread                its child, in the same memory
//!   vfork, and sleep ─────────────> close, dup2: no wait ends, because the parent's descriptor stays open
//!                                   a call that would wait: the system call. A park would run the parent's green threads
//!   go on <──────────────────────── exec, _exit
//! ```
//!
//! The id of the process tells a child. It is asked for only where a call would wait, and where a descriptor
//! that is closed has waiters: that is a system call. `pthread_atfork` tells nothing here: its functions run
//! for `fork` alone. So no one asks before the first call by which such a child, or one with a copy of the
//! memory, can have been made: the hooks here, and some numbers of `syscall`. Each is a jump without a frame,
//! because `vfork` returns twice to one frame. The calls of glibc's own functions, such as `posix_spawn`, are
//! not hooked, and their children call no hooks.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::pid_t;
use sched::{Real, fork};

use super::raw::call;

/// The process that runs green threads.
static OWN: AtomicI32 = AtomicI32::new(0);

/// Returns the number of this process.
pub(super) fn id() -> c_int {
    // SAFETY: the call has no argument.
    unsafe { call!(libc::SYS_getpid) as c_int }
}

/// Records that this process runs green threads. *Runs on: the maker of a runtime.*
pub(super) fn note() {
    // Relaxed, here and below: the number leads to no other data, and is there before the first green thread.
    OWN.store(id(), Ordering::Relaxed);
    // `_Fork` may be called by a signal handler, where it must be known.
    FORK.find();
}

/// Returns `true` in the process that runs green threads; `false` in a child that has its memory, or a copy
/// of it.
pub(super) fn is_own() -> bool {
    // Relaxed: the thread that makes a child has written it before, and the child goes on as that thread.
    let may_be_another = fork::UNSEEN.load(Ordering::Relaxed) || fork::is_forked();
    !may_be_another || is_own_by_id()
}

#[cold]
fn is_own_by_id() -> bool {
    id() == OWN.load(Ordering::Relaxed)
}

/// Makes the call `block`, which may block its OS thread, as `sched::park::blocking` does. A child only makes
/// the call: it has no P to give up.
pub(super) fn blocking<T>(block: impl FnOnce() -> T) -> T {
    if is_own() { sched::park::blocking(block) } else { block() }
}

unsafe extern "C" {
    // glibc's other names of these functions, which nothing hooks.
    fn __vfork() -> pid_t;
    fn __clone() -> c_int;
}

/// Defines hooks that note that there may be a child, and go on as functions of glibc.
macro_rules! forms {
    ($($(#[$about:meta])* $name:ident() -> $result:ty = $real:ident;)*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> $result {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(
                "mov byte ptr [rip + {children}], 1",
                "jmp {real}",
                children = sym fork::UNSEEN,
                real = sym $real,
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(
                "adrp x9, {children}",
                "mov w10, 1",
                "strb w10, [x9, :lo12:{children}]",
                "b {real}",
                children = sym fork::UNSEEN,
                real = sym $real,
            );
        }
    )*};
}

forms! {
    /// libc's `vfork`.
    vfork() -> pid_t = __vfork;
    /// libc's `clone`. The arguments are where the caller has put them.
    clone() -> c_int = __clone;
}

static FORK: Real = Real::new(c"_Fork");

/// libc's `_Fork`, which calls no function of `pthread_atfork`.
///
/// # Safety
/// As libc's.
#[allow(non_snake_case)]
pub unsafe extern "C" fn _Fork() -> pid_t {
    fork::UNSEEN.store(true, Ordering::Relaxed);
    // A program that calls it has a libc that has it.
    // SAFETY: libc's function of this name.
    unsafe { std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn() -> pid_t>(FORK.get())() }
}
