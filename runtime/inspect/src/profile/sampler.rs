//! Samples of what OS threads compute, by SIGPROF: what `sched` knows of the interrupted thread.
//!
//! The process's timer of CPU time (`ITIMER_PROF`) sends the signal to a thread that runs. The handler copies
//! and returns; it allocates nothing, takes no lock, and unwinds nothing. The profiler unwinds the copies.
//!
//! The handler stays installed, because a signal may come late, and its default is to end the process.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netpoll::raw::call;
use sched::StackCopy;
use sched::interrupted::{Interrupted, Samples, Thread};

/// At 100 samples a second and CPU this lasts for half a second of two CPUs; the profiler drains more often.
const SLOTS: usize = 128;
static SAMPLES: OnceLock<Samples<Interrupted>> = OnceLock::new();
/// True while a profile is taken. Relaxed throughout: it decides only whether a signal makes a sample.
static ON: AtomicBool = AtomicBool::new(false);
/// True while a profiler exists.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes samples until it is dropped. There is one at a time.
#[derive(Debug)]
pub(super) struct Sampler {
    copy: StackCopy,
    /// The timer and the signal are this sampler's.
    started: bool,
}

impl Sampler {
    /// Starts to take samples, one for each `interval` of CPU time that the process uses.
    ///
    /// # Errors
    /// Fails with `ResourceBusy` if another sampler exists, or the program has an action of its own for
    /// SIGPROF. Fails with the system's error if there is no timer.
    pub(super) fn start(interval: Duration) -> io::Result<Sampler> {
        // Acquire: pairs with the Release of the drop, which the earlier sampler's drain comes before.
        if TAKEN.swap(true, Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another profile is being taken"));
        }
        let mut sampler = Sampler { copy: StackCopy::default(), started: false };
        let samples = SAMPLES.get_or_init(|| Samples::new((0..SLOTS).map(|_| Interrupted::empty())));
        install()?;
        // What a signal wrote that came after the last sampler.
        samples.drain(|sample| drop(sample.take_thread()));
        samples.take_lost();
        sampler.started = true;
        ON.store(true, Ordering::Relaxed);
        set_timer(interval.max(Duration::from_micros(1)))?;
        Ok(sampler)
    }

    /// Calls `tell` with each sample that was taken since the last call: the thread, and its registers and
    /// stack.
    pub(super) fn drain(&mut self, mut tell: impl FnMut(Thread, &StackCopy)) {
        let Some(samples) = SAMPLES.get() else { return };
        samples.drain(|sample| {
            sample.copy_to(&mut self.copy);
            tell(sample.take_thread(), &self.copy);
        });
    }

    /// Returns how many samples were lost since the last call, because no slot was free.
    pub(super) fn take_lost(&mut self) -> u64 {
        SAMPLES.get().map_or(0, Samples::take_lost)
    }

    /// Takes no more samples. A last `drain` gives what is left.
    pub(super) fn stop(&mut self) {
        if !mem::take(&mut self.started) {
            return;
        }
        ON.store(false, Ordering::Relaxed);
        // The timer exists, so it can be stopped.
        let _ = set_timer(Duration::ZERO);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
        // Release: pairs with the Acquire of `start`.
        TAKEN.store(false, Ordering::Release);
    }
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

extern "C" fn on_signal(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    if !ON.load(Ordering::Relaxed) {
        return;
    }
    if let Some(samples) = SAMPLES.get() {
        // SAFETY: the kernel passes a valid context to a handler with SA_SIGINFO, for the thread that it has
        // interrupted.
        samples.add(|sample| unsafe { sample.fill(context) });
    }
}

/// Installs the handler, once.
#[inline(never)]
fn install() -> io::Result<()> {
    let ours = on_signal as Handler as libc::sighandler_t;
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call only reads the action into a place of the right size; all zeroes is valid if the call
    // fails.
    let before = unsafe {
        libc::sigaction(libc::SIGPROF, null(), before.as_mut_ptr());
        before.assume_init()
    };
    match before.sa_sigaction {
        action if action == ours => return Ok(()),
        libc::SIG_DFL | libc::SIG_IGN => {}
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "the program has an action of its own for SIGPROF",
            ));
        }
    }
    // SAFETY: all zeroes is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = ours;
    // On the alternate stack, because a green thread's own stack may be nearly full.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the mask belongs to `action`; the handler is `on_signal`.
    let done = unsafe {
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(libc::SIGPROF, &action, null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[inline(never)]
fn set_timer(interval: Duration) -> io::Result<()> {
    let time =
        libc::timeval { tv_sec: interval.as_secs() as i64, tv_usec: i64::from(interval.subsec_micros()) };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the call only reads `timer`.
    let done = unsafe {
        call!(libc::SYS_setitimer, libc::ITIMER_PROF, &raw const timer, null_mut::<libc::itimerval>())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-done as i32)) }
}
