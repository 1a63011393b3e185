//! The report of a stack overflow: a signal handler that names the green thread and aborts the process.
//!
//! ```text
//!   a green thread touches its guard       the kernel sends SIGSEGV (or SIGBUS) to its OS thread
//!     -> the handler, on the alternate stack of that OS thread
//!          -> the scheduler's lookup       which green thread runs here, and is the address in its guard?
//!               in the guard: one line to stderr, abort
//!               else: the handler that was installed before (std's reports OS threads), or the default action
//! ```
//!
//! The handler may interrupt any code, even `malloc` with its lock held. So the handler allocates nothing,
//! takes no lock, formats by hand and leaves `errno` unchanged. It calls no function of libc that the program
//! may replace by a function that parks (`netpoll::raw`). On Windows an exception stands for the signal.

#![allow(unsafe_code)]

use std::sync::OnceLock;

mod line;

#[cfg(unix)]
pub(crate) use unix::{ensure_alternate_stack, install};
#[cfg(windows)]
pub(crate) use windows::{ensure_alternate_stack, install};

/// The green thread that overflowed its stack.
pub(crate) struct Overflowed {
    /// The name; empty if there is none. `'static` although the green thread owns the name: that thread runs
    /// on the OS thread that faulted, so it cannot end before the process does.
    pub(crate) name: &'static str,
    pub(crate) id: u64,
    /// Where it was spawned.
    pub(crate) file: &'static str,
    pub(crate) line: u32,
    /// The size of its stack without the guard.
    pub(crate) stack_bytes: usize,
}

/// Returns the green thread that runs on this OS thread if the address lies in the guard of its stack; else
/// `None`.
pub(crate) type Lookup = fn(fault_address: usize) -> Option<Overflowed>;

/// The function that the signal handler calls. `OnceLock::get` is a load, so a signal handler may call it.
static LOOKUP: OnceLock<Lookup> = OnceLock::new();

/// Sets the function that the handler calls; only the first call has an effect. The function runs inside a
/// signal handler: it must neither allocate nor lock.
pub(crate) fn set_lookup(lookup: Lookup) {
    let _ = LOOKUP.set(lookup);
}

#[cfg(unix)]
mod unix {
    use std::ffi::{c_int, c_void};
    use std::io;
    use std::marker::PhantomData;
    use std::mem::{self, MaybeUninit};
    use std::process;
    use std::ptr::{null, null_mut, with_exposed_provenance_mut};
    use std::sync::{Once, OnceLock};

    use super::LOOKUP;
    use super::line::report;
    use crate::stack::last_dump;
    use crate::sync::Mutex;
    use crate::sys;

    /// The signals that an access to a guard may raise; systems differ in which one it is.
    const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

    /// The action of each of `SIGNALS` before `install`. `OnceLock::get` is a load, so the handler may call
    /// it.
    static PREVIOUS: [OnceLock<libc::sigaction>; 2] = [const { OnceLock::new() }; 2];

    type SimpleHandler = extern "C" fn(c_int);
    type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

    /// Installs the handler once per process. It runs before the handler that was there (std's, from before
    /// `main`).
    pub(crate) fn install() {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            for (signal, previous) in SIGNALS.into_iter().zip(&PREVIOUS) {
                // Stored first, because the handler may run as soon as it is installed.
                let before = previous.get_or_init(|| action_of(signal));
                let mut ours = *before;
                ours.sa_sigaction = on_fault as Handler as libc::sighandler_t;
                // The mask stays as it was, because the previous handler may rely on it.
                ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | (before.sa_flags & libc::SA_NODEFER);
                set_action(signal, &ours);
            }
        });
    }

    extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        let errno = sys::errno();
        // SAFETY: the kernel passes a valid `siginfo_t` to a handler with SA_SIGINFO.
        let fault = Fault::new(unsafe { &*info });
        if let Some(overflowed) = fault.address.and_then(|address| LOOKUP.get()?(address)) {
            report(&overflowed);
            last_dump::ask_and_wait();
            process::abort();
        }
        default_action(signal, fault, info, context);
        sys::set_errno(errno);
    }

    /// What a signal reports.
    struct Fault {
        /// The address of the access; `None` if a process sent the signal, because the field then holds other
        /// data.
        address: Option<usize>,
    }

    impl Fault {
        fn new(info: &libc::siginfo_t) -> Fault {
            // BSD and macOS number the signals of kill(2) and similar calls from 0x10001 up, Linux from 0
            // down.
            let by_kernel = (1..0x10000).contains(&info.si_code);
            // SAFETY: the kernel fills in the address for the faults that it raises.
            Fault { address: by_kernel.then(|| unsafe { info.si_addr() }.addr()) }
        }
    }

    /// Does what the process would have done without this handler.
    fn default_action(signal: c_int, fault: Fault, info: *mut libc::siginfo_t, context: *mut c_void) {
        let previous = SIGNALS.iter().position(|&ours| ours == signal).and_then(|at| PREVIOUS[at].get());
        let Some(previous) = previous else { return restore_default(signal) };
        if previous.sa_flags & libc::SA_RESETHAND != 0 {
            // The previous handler asked to be called once.
            restore_default(signal);
        }
        match previous.sa_sigaction {
            // A fault cannot be ignored: it would repeat for ever. The kernel therefore kills the process.
            libc::SIG_IGN if fault.address.is_none() => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                restore_default(signal);
                if fault.address.is_none() {
                    send_again(signal);
                }
            }
            handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                // SAFETY: a handler that was installed with SA_SIGINFO takes three arguments.
                let handler = unsafe { mem::transmute::<libc::sighandler_t, Handler>(handler) };
                handler(signal, info, context);
            }
            handler => {
                // SAFETY: a handler that was installed without SA_SIGINFO takes one argument.
                let handler = unsafe { mem::transmute::<libc::sighandler_t, SimpleHandler>(handler) };
                handler(signal);
            }
        }
    }

    /// Restores the default action. A fault repeats when the handler returns, and then gets this action.
    fn restore_default(signal: c_int) {
        // SAFETY: all zeroes is a valid `sigaction`: no flags, nothing masked.
        let mut default: libc::sigaction = unsafe { mem::zeroed() };
        default.sa_sigaction = libc::SIG_DFL;
        set_action(signal, &default);
    }

    /// Sends the signal again, because a sent signal does not repeat like a fault. It stays pending until the
    /// handler returns.
    fn send_again(signal: c_int) {
        // SAFETY: `raise` accesses no memory of this process.
        unsafe { libc::raise(signal) };
    }

    #[inline(never)]
    fn action_of(signal: c_int) -> libc::sigaction {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the call only reads the action into a place of the right size; all zeroes is valid if the
        // call fails.
        unsafe {
            libc::sigaction(signal, null(), action.as_mut_ptr());
            action.assume_init()
        }
    }

    #[inline(never)]
    fn set_action(signal: c_int, action: &libc::sigaction) {
        // SAFETY: the handler of `action` is `on_fault` or an earlier one. The call cannot fail for these two
        // signals.
        unsafe { libc::sigaction(signal, action, null_mut()) };
    }

    // The alternate stack -------------------------------------------------------------------------------

    /// The alternate stack that `ensure_alternate_stack` made for an OS thread; empty if the thread had a
    /// large one. The same OS thread must drop it, outside of signal handlers; the drop restores the
    /// alternate stack from before.
    pub(crate) struct AlternateStack {
        /// Start and length of the mapping, guard included.
        mapping: Option<(usize, usize)>,
        before: libc::stack_t,
        not_send: PhantomData<*mut ()>,
    }

    /// How many alternate stacks of ended threads are kept.
    pub(super) const MOST_SPARE: usize = 8;

    /// Where such stacks begin; all have one size. A simulation starts an OS thread for each run, and changes
    /// of the address space hold up the other OS threads: on two processors a third more runs a second
    /// (benches/README.md).
    static SPARE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

    /// Gives this OS thread an alternate stack for two signal handlers, of which one interrupts the other,
    /// unless it has one. Signal handlers then have a stack when the stack of the OS thread or of a green
    /// thread is exhausted. The alternate stack of a thread of std has room for one handler. The kernel kills
    /// a process that has no room for a second one.
    pub(crate) fn ensure_alternate_stack() -> io::Result<AlternateStack> {
        let guard = sys::page_size();
        let bytes = (2 * sys::least_signal_stack()).next_multiple_of(guard);
        let before = alternate_stack()?;
        let mut stack = AlternateStack { mapping: None, before, not_send: PhantomData };
        if stack.before.ss_flags & libc::SS_DISABLE == 0 && stack.before.ss_size >= bytes {
            return Ok(stack);
        }
        let start = match SPARE.lock().pop() {
            Some(start) => start,
            None => map_stack(guard, bytes)?,
        };
        stack.mapping = Some((start, guard + bytes));
        // SAFETY: no other thread has the mapping until `stack` is dropped. The drop makes this thread stop
        // using it first.
        unsafe { set_alternate_stack(start + guard, bytes, 0) }?;
        Ok(stack)
    }

    #[cfg(test)]
    pub(super) fn spare_stacks() -> usize {
        SPARE.lock().len()
    }

    /// Maps an alternate stack of `bytes` above its guard.
    fn map_stack(guard: usize, bytes: usize) -> io::Result<usize> {
        let start = sys::map(guard + bytes)?;
        // SAFETY: the first page of the mapping made above, which no code uses yet.
        if let Err(error) = unsafe { sys::forbid(start, guard) } {
            // SAFETY: as above.
            unsafe { sys::unmap(start, guard + bytes) };
            return Err(error);
        }
        Ok(start)
    }

    impl Drop for AlternateStack {
        fn drop(&mut self) {
            let Some((start, bytes)) = self.mapping else { return };
            let (before, flags) = (&self.before, self.before.ss_flags & libc::SS_DISABLE);
            // SAFETY: disabling is always valid, and std keeps the alternate stack of its thread until the
            // thread ends. `AlternateStack` is `!Send`, so this is the thread that made it.
            let end = unsafe { set_alternate_stack(before.ss_sp.expose_provenance(), before.ss_size, flags) };
            if end.is_err() {
                // The kernel may still use it: it stays as it is.
                return;
            }
            let mut spare = SPARE.lock();
            if spare.len() < MOST_SPARE {
                return spare.push(start);
            }
            drop(spare);
            // SAFETY: `map_stack` mapped it, and the call above made the thread stop using it.
            unsafe { sys::unmap(start, bytes) };
        }
    }

    #[inline(never)]
    fn alternate_stack() -> io::Result<libc::stack_t> {
        let mut current = libc::stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: the call only reads the current stack into a place of the right size.
        match unsafe { libc::sigaltstack(null(), &mut current) } {
            0 => Ok(current),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// # Safety
    /// Unless `flags` disable the alternate stack, the memory belongs to it until the thread gets another
    /// one.
    #[inline(never)]
    unsafe fn set_alternate_stack(start: usize, bytes: usize, flags: c_int) -> io::Result<()> {
        let stack =
            libc::stack_t { ss_sp: with_exposed_provenance_mut(start), ss_flags: flags, ss_size: bytes };
        // SAFETY: the caller answers for the memory.
        match unsafe { libc::sigaltstack(&stack, null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Windows reports an overflow by an exception, on a reserve that it keeps of the stack that overflowed.
#[cfg(windows)]
mod windows {
    use std::ffi::c_void;
    use std::io;
    use std::sync::Once;

    use super::LOOKUP;
    use super::line::report;
    use crate::sys;

    const STACK_OVERFLOW: u32 = 0xC000_00FD;
    /// What a handler returns that leaves the exception to the next one.
    const CONTINUE_SEARCH: i32 = 0;

    /// The beginnings of the system's `EXCEPTION_POINTERS` and `EXCEPTION_RECORD`.
    #[repr(C)]
    struct Exception {
        record: *const Record,
    }
    #[repr(C)]
    struct Record {
        code: u32,
    }

    type Handler = unsafe extern "system" fn(*const Exception) -> i32;

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn AddVectoredExceptionHandler(first: u32, handler: Handler) -> *mut c_void;
    }

    /// Installs the handler once per process, before that of std.
    pub(crate) fn install() {
        static INSTALLED: Once = Once::new();
        // SAFETY: `on_exception` is a function of the type that the system asks for, and is never removed.
        INSTALLED.call_once(|| _ = unsafe { AddVectoredExceptionHandler(1, on_exception) });
    }

    /// Reports the overflow of a green thread. Then the handlers that were there have their turn: std's adds
    /// a line with the name of the OS thread, and the system ends the process by this exception.
    ///
    /// # Safety
    /// The system calls it, with an exception of this OS thread.
    unsafe extern "system" fn on_exception(exception: *const Exception) -> i32 {
        // SAFETY: both pointers are the system's, and valid while it waits for the handler.
        let code = unsafe { (*(*exception).record).code };
        if code == STACK_OVERFLOW
            && let Some(overflowed) = LOOKUP.get().and_then(|look_up| look_up(sys::end_of_stack()))
        {
            report(&overflowed);
        }
        CONTINUE_SEARCH
    }

    /// Empty: the exception runs on the reserve of the stack that overflowed.
    pub(crate) struct AlternateStack;

    /// Returns an empty value.
    pub(crate) fn ensure_alternate_stack() -> io::Result<AlternateStack> {
        Ok(AlternateStack)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::{c_int, c_void};
    use std::hint::black_box;
    use std::mem;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{self, Output};
    use std::ptr::{null, null_mut, with_exposed_provenance_mut};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use corosensei::Coroutine;

    use super::super::testing::{alone, succeeds_alone};
    use super::super::{Slabs, Stack};
    use super::*;
    use crate::sys;

    const STACK_BYTES: usize = 64 * 1024;

    /// The guard of the only green thread in the process of a test.
    static GUARD: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

    fn lookup(address: usize) -> Option<Overflowed> {
        let [start, end] = [0, 1].map(|at| GUARD[at].load(Ordering::Relaxed));
        let overflowed =
            Overflowed { name: "deep one", id: 70_901, file: "src/a.rs", line: 42, stack_bytes: STACK_BYTES };
        (start..end).contains(&address).then_some(overflowed)
    }

    const REPORT: &str =
        "green thread 'deep one' (id 70901, spawned at src/a.rs:42) has overflowed its stack (64 KiB)\n";

    /// Runs `body` on a stack of `STACK_BYTES`, with handler and lookup in place.
    fn on_green_thread(body: impl FnOnce() + 'static) {
        install();
        set_lookup(lookup);
        let slabs = Slabs::new(STACK_BYTES).unwrap();
        let stack = slabs.carve().unwrap();
        GUARD[0].store(stack.guard_range().start, Ordering::Relaxed);
        GUARD[1].store(stack.guard_range().end, Ordering::Relaxed);
        Coroutine::<(), (), (), Stack>::with_stack(stack, |_, ()| body()).resume(());
    }

    fn recurse(depth: u64) -> u64 {
        black_box(depth) + if black_box(true) { recurse(depth + 1) } else { 0 }
    }

    fn overflow() {
        black_box(recurse(0));
    }

    fn touch(address: usize) {
        // SAFETY: no memory is mapped at these addresses; the access kills the process, as the test expects.
        unsafe { with_exposed_provenance_mut::<u8>(address).write_volatile(1) }
    }

    #[track_caller]
    fn assert_killed(output: Output, signal: c_int, expected: &str) {
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.signal(), Some(signal), "{told}");
        assert!(told.contains(expected), "{told}");
        let is_ours = signal == libc::SIGABRT && expected != STD_TEXT;
        assert_eq!(told.contains("green thread '"), is_ours, "{told}");
    }

    /// Defines a test. Its body runs in a process of its own and kills that process.
    macro_rules! killed {
        ($name:ident, $signal:expr, $told:expr, $body:expr) => {
            #[test]
            fn $name() {
                let output = alone(module_path!(), stringify!($name), $body);
                assert_killed(output.expect("the child process survived"), $signal, $told);
            }
        };
    }

    killed!(recursion_is_reported, libc::SIGABRT, REPORT, || on_green_thread(overflow));

    killed!(a_frame_beyond_the_stack_is_reported, libc::SIGABRT, REPORT, || on_green_thread(|| {
        black_box([1u8; 160 * 1024]);
    }));

    killed!(a_stray_pointer_is_not_reported, libc::SIGSEGV, "", || on_green_thread(|| touch(64)));

    const STD_TEXT: &str = "has overflowed its stack\nfatal runtime error: stack overflow";

    killed!(std_reports_its_threads, libc::SIGABRT, STD_TEXT, || {
        on_green_thread(|| {});
        thread::spawn(overflow).join().unwrap();
    });

    killed!(the_default_action_comes_back_for_a_fault, libc::SIGSEGV, "", || {
        set_previous(libc::SIG_DFL, 0);
        on_green_thread(|| touch(64));
    });

    killed!(the_default_action_comes_back_for_a_sent_signal, libc::SIGSEGV, "", || {
        set_previous(libc::SIG_DFL, 0);
        on_green_thread(send_segv);
    });

    killed!(a_fault_is_not_ignored, libc::SIGSEGV, "", || {
        set_previous(libc::SIG_IGN, 0);
        on_green_thread(|| touch(64));
    });

    killed!(an_overflow_is_reported_before_other_handlers, libc::SIGABRT, REPORT, || {
        set_previous(exit_with_three as extern "C" fn(c_int) as libc::sighandler_t, 0);
        on_green_thread(overflow);
    });

    killed!(a_long_name_is_written_whole, libc::SIGABRT, LONG_NAME, || {
        set_lookup(|_| Some(Overflowed { name: LONG_NAME, id: 0, file: "", line: 0, stack_bytes: 0 }));
        on_green_thread(overflow);
    });

    killed!(
        a_name_has_no_control_characters,
        libc::SIGABRT,
        "green thread 'a\\n\\u{1b}[2J\u{e4}' (id 1,",
        || {
            set_lookup(|_| {
                Some(Overflowed { name: "a\n\u{1b}[2J\u{e4}", id: 1, file: "", line: 0, stack_bytes: 0 })
            });
            on_green_thread(overflow);
        }
    );

    const LONG_NAME: &str = {
        const A: [u8; 2000] = [b'a'; 2000];
        match str::from_utf8(&A) {
            Ok(name) => name,
            Err(_) => unreachable!(),
        }
    };

    killed!(
        a_green_thread_without_a_name_is_called_unnamed,
        libc::SIGABRT,
        "green thread '<unnamed>' (id 18446744073709551615,",
        || {
            set_lookup(|_| Some(Overflowed { name: "", id: u64::MAX, file: "", line: 0, stack_bytes: 0 }));
            on_green_thread(overflow);
        }
    );

    killed!(a_thread_of_c_reports_with_our_alternate_stack, libc::SIGABRT, REPORT, || on_c_thread(|| {
        let _alternate = ensure_alternate_stack().unwrap();
        on_green_thread(overflow);
    }));

    #[test]
    fn a_previous_handler_is_called() {
        let output = alone(module_path!(), "a_previous_handler_is_called", || {
            set_previous(exit_with_three as extern "C" fn(c_int) as libc::sighandler_t, 0);
            on_green_thread(|| touch(64));
        });
        let Some(output) = output else { return };
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }

    #[test]
    fn a_sent_signal_that_was_ignored_is_still_ignored() {
        succeeds_alone(module_path!(), "a_sent_signal_that_was_ignored_is_still_ignored", || {
            set_previous(libc::SIG_IGN, 0);
            on_green_thread(send_segv);
        });
    }

    #[test]
    fn errno_survives_the_handler() {
        succeeds_alone(module_path!(), "errno_survives_the_handler", || {
            type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            set_previous(fail_a_call as Handler as libc::sighandler_t, libc::SA_SIGINFO);
            on_green_thread(|| {
                sys::set_errno(77);
                send_segv();
                assert_eq!(sys::errno(), 77);
            });
        });
    }

    /// Stacks of ended threads serve later ones, each one thread at a time, and few are kept.
    #[test]
    fn alternate_stacks_are_used_again() {
        succeeds_alone(module_path!(), "alternate_stacks_are_used_again", || {
            let start = || alternate_stack().unwrap();
            let at_once = |n: usize| {
                let all_have_one = std::sync::Barrier::new(n);
                let mut starts = thread::scope(|s| {
                    let threads: Vec<_> = (0..n)
                        .map(|_| {
                            s.spawn(|| {
                                let _ours = ensure_alternate_stack().unwrap();
                                all_have_one.wait();
                                start()
                            })
                        })
                        .collect();
                    threads.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
                });
                starts.sort_unstable();
                starts.windows(2).for_each(|two| assert_ne!(two[0], two[1]));
                starts
            };
            let first = at_once(1);
            assert_eq!(at_once(1), first);
            assert!(at_once(20).contains(&first[0]));
            assert_eq!(unix::spare_stacks(), unix::MOST_SPARE);
            assert_eq!(at_once(unix::MOST_SPARE), at_once(unix::MOST_SPARE));
        });
    }

    #[test]
    fn an_alternate_stack_goes_when_dropped_and_std_keeps_its_own() {
        succeeds_alone(module_path!(), "an_alternate_stack_goes_when_dropped_and_std_keeps_its_own", || {
            let std_has = alternate_stack();
            drop(ensure_alternate_stack().unwrap());
            assert!(std_has.is_some() && alternate_stack() == std_has);
            on_c_thread(|| {
                assert_eq!(alternate_stack(), None);
                let ours = ensure_alternate_stack().unwrap();
                assert!(alternate_stack().is_some());
                drop(ours);
                assert_eq!(alternate_stack(), None);
            });
        });
    }

    fn alternate_stack() -> Option<usize> {
        let mut current = libc::stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: the call only reads the current stack into a place of the right size.
        assert_eq!(unsafe { libc::sigaltstack(null(), &mut current) }, 0);
        (current.ss_flags & libc::SS_DISABLE == 0).then(|| current.ss_sp.addr())
    }

    /// Installs an action before `install` does, in place of std's handler.
    fn set_previous(handler: libc::sighandler_t, flags: c_int) {
        // SAFETY: all zeroes is a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        (action.sa_sigaction, action.sa_flags) = (handler, flags);
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: the handler belongs to this test, which has the process for itself.
            assert_eq!(unsafe { libc::sigaction(signal, &action, null_mut()) }, 0);
        }
    }

    fn send_segv() {
        // SAFETY: `raise` accesses no memory of this process.
        assert_eq!(unsafe { libc::raise(libc::SIGSEGV) }, 0);
    }

    extern "C" fn exit_with_three(_signal: c_int) {
        // SAFETY: `_exit` ends the process.
        unsafe { libc::_exit(3) }
    }

    extern "C" fn fail_a_call(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
        assert!(!info.is_null());
        // SAFETY: descriptor -1 never exists; the call only sets `errno`.
        assert_eq!(unsafe { libc::close(-1) }, -1);
    }

    /// Runs `body` on an OS thread that std did not start.
    fn on_c_thread(body: fn()) {
        extern "C" fn run(body: *mut c_void) -> *mut c_void {
            // SAFETY: `on_c_thread` passes a `fn()` as this pointer.
            let body = unsafe { mem::transmute::<*mut c_void, fn()>(body) };
            if std::panic::catch_unwind(body).is_err() {
                process::exit(1);
            }
            null_mut()
        }
        // SAFETY: all zeroes is a valid `pthread_t` to be overwritten, on each system.
        let mut id: libc::pthread_t = unsafe { mem::zeroed() };
        // SAFETY: `run` gets the pointer that it expects, and does not unwind.
        assert_eq!(unsafe { libc::pthread_create(&mut id, null(), run, body as *mut c_void) }, 0);
        // SAFETY: the thread is joined once.
        assert_eq!(unsafe { libc::pthread_join(id, null_mut()) }, 0);
    }
}
