//! Interrupting an OS thread of this process while it computes: a signal, and the sleep in its handler. Linux
//! only.
//!
//! The signal is SIGURG, as in Go: its default is to be ignored, so a signal that comes late does no harm.
//! The handler is installed when the first crowd of hogs needs it. A program that handles or ignores SIGURG
//! itself keeps its own action, and its hogs are not interrupted.

#![allow(unsafe_code)]

/// Called in the handler of the signal: uses nothing but atomics and system calls. The first argument is
/// `true` if the signal has interrupted the C library or the library that `malloc` is in. The thread may then
/// have a lock of that library.
pub(crate) type OnSignal = fn(bool, &Registers);

/// The registers of the interrupted code from which an unwinder begins; 0 if they are not known for this
/// processor.
#[derive(Clone, Copy, Debug, Default)]
#[allow(dead_code, reason = "read where stacks of running green threads can be had: stack/saved.rs")]
pub(crate) struct Registers {
    pub(crate) pc: usize,
    pub(crate) sp: usize,
    pub(crate) fp: usize,
    /// On Arm the link register, elsewhere `pc`.
    pub(crate) link: usize,
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
mod linux {
    use std::ffi::{c_int, c_void};
    use std::mem::{self, MaybeUninit};
    use std::ops::Range;
    use std::ptr::{null, null_mut};
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use netpoll::raw::call;

    use super::{OnSignal, Registers};
    use crate::sys;
    use crate::sys::segment::segment_around;

    const SIGNAL: c_int = libc::SIGURG;

    /// What the handler needs. `OnceLock::get` is a load, so the handler may call it.
    struct Installed {
        on_signal: OnSignal,
        /// The code of the C library and of the library that `malloc` is in, which a program may replace.
        /// Empty if that is also the library of the runtime, as in a static program: the handler then cannot
        /// know where locks are held.
        libraries: [Range<usize>; 2],
    }

    static INSTALLED: OnceLock<Installed> = OnceLock::new();

    type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

    /// Installs the handler, unless the program has an action of its own for the signal. Returns `true` if
    /// the handler is installed now. *Runs on: sysmon.*
    pub(crate) fn is_installed(on_signal: OnSignal) -> bool {
        let ours = on_interrupt as Handler as libc::sighandler_t;
        match action().sa_sigaction {
            action if action == ours => true,
            libc::SIG_DFL => {
                INSTALLED.get_or_init(|| Installed { on_signal, libraries: libraries_with_locks() });
                install(ours)
            }
            _ => false,
        }
    }

    /// Returns `true` if the handler is installed and knows the code of the C library and of `malloc`. *Runs
    /// on: sysmon.*
    pub(crate) fn knows_locks(on_signal: OnSignal) -> bool {
        let all_known = |installed: &Installed| installed.libraries.iter().all(|code| !code.is_empty());
        is_installed(on_signal) && INSTALLED.get().is_some_and(all_known)
    }

    /// Returns the signal; `None` if the program has an action of its own for it.
    #[cfg(feature = "interpose")]
    pub(crate) fn free_signal() -> Option<c_int> {
        let ours = on_interrupt as Handler as libc::sighandler_t;
        [ours, libc::SIG_DFL].contains(&action().sa_sigaction).then_some(SIGNAL)
    }

    #[inline(never)]
    fn action() -> libc::sigaction {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the call only reads the action into a place of the right size; all zeroes is valid if the
        // call fails.
        unsafe {
            libc::sigaction(SIGNAL, null(), action.as_mut_ptr());
            action.assume_init()
        }
    }

    #[inline(never)]
    fn install(handler: libc::sighandler_t) -> bool {
        // SAFETY: all zeroes is a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = handler;
        // On the alternate stack, because a green thread's own stack may be nearly full.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // No other handler runs above this one: the alternate stack is small.
        // SAFETY: the mask belongs to `action`; the handler is `on_interrupt`.
        unsafe {
            libc::sigfillset(&mut action.sa_mask);
            libc::sigaction(SIGNAL, &action, null_mut()) == 0
        }
    }

    extern "C" fn on_interrupt(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
        let errno = sys::errno();
        if let Some(installed) = INSTALLED.get() {
            // SAFETY: the kernel passes a valid `ucontext_t` to a handler with SA_SIGINFO.
            let registers = unsafe { interrupted_at(context) };
            let locked = installed.libraries.iter().any(|code| code.contains(&registers.pc));
            (installed.on_signal)(locked, &registers);
        }
        sys::set_errno(errno);
    }

    /// Returns the registers of the interrupted code.
    ///
    /// # Safety
    /// `context` is what the kernel has passed to the handler of a signal with SA_SIGINFO, which has not
    /// returned.
    pub(crate) unsafe fn interrupted_at(context: *mut c_void) -> Registers {
        // SAFETY: this contract.
        let context = unsafe { &*context.cast::<libc::ucontext_t>() };
        #[cfg(target_arch = "x86_64")]
        {
            let of = |register: c_int| context.uc_mcontext.gregs[register as usize] as usize;
            let pc = of(libc::REG_RIP);
            Registers { pc, sp: of(libc::REG_RSP), fp: of(libc::REG_RBP), link: pc }
        }
        #[cfg(target_arch = "x86")]
        return Registers {
            pc: context.uc_mcontext.gregs[libc::REG_EIP as usize] as usize,
            ..Registers::default()
        };
        #[cfg(target_arch = "aarch64")]
        {
            let context = &context.uc_mcontext;
            Registers {
                pc: context.pc as usize,
                sp: context.sp as usize,
                fp: context.regs[29] as usize,
                link: context.regs[30] as usize,
            }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
        {
            let _ = context;
            Registers::default()
        }
    }

    /// Returns the addresses of the code of the C library and of the library that `malloc` is in. A range is
    /// empty if that is also the library of this function, or if it is not found.
    fn libraries_with_locks() -> [Range<usize>; 2] {
        [libc::getpid as *const () as usize, libc::malloc as *const () as usize].map(|function| {
            let code = segment_around(function);
            let here = libraries_with_locks as *const () as usize;
            if code.contains(&here) { 0..0 } else { code }
        })
    }

    /// Sends the signal to thread `tid` of this process. A thread that has ended by then gets none.
    #[inline(never)]
    pub(crate) fn interrupt(tid: i32) {
        // SAFETY: the call accesses no memory of this process. The handler is installed, or the signal is
        // ignored.
        unsafe { call!(libc::SYS_tgkill, libc::getpid(), tid, SIGNAL) };
    }

    /// Sleeps while `word` is `value`, for `time` at most. May return early. Signal handlers may call it.
    #[inline(never)]
    pub(crate) fn sleep_while(word: &AtomicU32, value: u32, time: Duration) {
        // SAFETY: all zeroes is a valid `timespec`.
        let mut limit: libc::timespec = unsafe { mem::zeroed() };
        limit.tv_sec = time.as_secs() as _;
        limit.tv_nsec = time.subsec_nanos() as _;
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel reads the word and the time, which outlive the call.
        unsafe { call!(libc::SYS_futex, word.as_ptr(), operation, value, &raw const limit) };
    }

    /// Wakes the thread that sleeps in `sleep_while` on `word`.
    #[inline(never)]
    pub(crate) fn wake(word: &AtomicU32) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel uses the address of the word as a key only.
        unsafe { call!(libc::SYS_futex, word.as_ptr(), operation, 1) };
    }
}

#[cfg(all(feature = "interpose", all(any(target_os = "linux", target_os = "android"), not(portable))))]
pub(crate) use linux::free_signal;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
pub(crate) use linux::interrupted_at;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
pub(crate) use linux::{interrupt, is_installed, knows_locks, sleep_while, wake};

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(portable))))]
mod other {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use super::OnSignal;

    /// Returns `false`: hogs are not interrupted on this system.
    pub(crate) fn is_installed(_on_signal: OnSignal) -> bool {
        false
    }

    pub(crate) fn knows_locks(_on_signal: OnSignal) -> bool {
        false
    }

    pub(crate) fn interrupt(_tid: i32) {}

    pub(crate) fn sleep_while(_word: &AtomicU32, _value: u32, _time: Duration) {}

    pub(crate) fn wake(_word: &AtomicU32) {}
}

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(portable))))]
pub(crate) use other::{interrupt, is_installed, knows_locks, sleep_while, wake};
