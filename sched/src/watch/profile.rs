//! Samples of what OS threads compute, by SIGPROF: the registers, the green thread, and a copy of the
//! innermost part of the stack.
//!
//! The process's timer of CPU time (`ITIMER_PROF`) sends the signal to a thread that runs. The handler copies
//! and returns; it allocates nothing, takes no lock, and unwinds nothing. The profiler unwinds the copies.
//!
//! Of a green thread's stack the handler reads only what lies between the stack pointer and the stack's top.
//! So a walk through the copy ends at the green thread's entry. The bounds of other stacks are not known in a
//! handler. The kernel reads those (`process_vm_readv`), and stops at the end of the mapping instead of
//! faulting.
//!
//! The handler stays installed, because a signal may come late, and its default is to end the process.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{self, MaybeUninit};
use std::panic::Location;
use std::ptr::{self, null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::samples::Samples;
use crate::m::current::current;
use crate::stack::coro::Coro;
use crate::stack::saved::StackCopy;
use crate::sys;
use crate::sys::preempt::{Registers, interrupted_at};

/// The words that are copied of a stack: 32 KiB.
const WORDS: usize = 4096;
const WORD: usize = size_of::<usize>();
/// At 100 samples a second and CPU this lasts for half a second of two CPUs; the profiler drains more often.
const SLOTS: usize = 128;
const NAME_BYTES: usize = 64;

/// What the handler writes.
struct Sample {
    registers: Registers,
    /// How many of `words` were copied.
    len: usize,
    words: Box<[usize]>,
    /// The id of the green thread; 0 for none.
    id: u64,
    place: Option<&'static Location<'static>>,
    name: [u8; NAME_BYTES],
    name_len: usize,
}

/// The thread that a sample was taken of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sampled {
    /// The id of the green thread; 0 if the OS thread ran none.
    pub id: u64,
    /// The first 64 bytes of its name.
    pub name: Option<String>,
    /// Where it was spawned.
    pub place: Option<&'static Location<'static>>,
}

static SAMPLES: OnceLock<Samples<Sample>> = OnceLock::new();
/// True while a profile is taken. Relaxed throughout: it decides only whether a signal makes a sample.
static ON: AtomicBool = AtomicBool::new(false);
/// True while a profiler exists.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes samples until it is dropped. There is one at a time.
#[derive(Debug)]
pub struct Sampler {
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
    pub fn start(interval: Duration) -> io::Result<Sampler> {
        // Acquire: pairs with the Release of the drop, which the earlier sampler's drain comes before.
        if TAKEN.swap(true, Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another profile is being taken"));
        }
        let mut sampler = Sampler { copy: StackCopy::default(), started: false };
        let samples = SAMPLES.get_or_init(|| Samples::new((0..SLOTS).map(|_| Sample::empty())));
        install()?;
        // What a signal wrote that came after the last sampler.
        samples.drain(|_| ());
        samples.take_lost();
        sampler.started = true;
        ON.store(true, Ordering::Relaxed);
        set_timer(interval.max(Duration::from_micros(1)))?;
        Ok(sampler)
    }

    /// Calls `tell` with each sample that was taken since the last call: the thread, and its registers and
    /// stack.
    pub fn drain(&mut self, mut tell: impl FnMut(Sampled, &StackCopy)) {
        let Some(samples) = SAMPLES.get() else { return };
        samples.drain(|sample| {
            self.copy.set(&sample.registers, &sample.words[..sample.len]);
            tell(sample.thread(), &self.copy);
        });
    }

    /// Returns how many samples were lost since the last call, because no slot was free.
    pub fn take_lost(&mut self) -> u64 {
        SAMPLES.get().map_or(0, Samples::take_lost)
    }

    /// Takes no more samples. A last `drain` gives what is left.
    pub fn stop(&mut self) {
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

impl Sample {
    fn empty() -> Sample {
        Sample {
            registers: Registers::default(),
            len: 0,
            words: vec![0; WORDS].into_boxed_slice(),
            id: 0,
            place: None,
            name: [0; NAME_BYTES],
            name_len: 0,
        }
    }

    fn thread(&self) -> Sampled {
        let name = String::from_utf8_lossy(&self.name[..self.name_len]);
        Sampled {
            id: self.id,
            name: Some(name.into_owned()).filter(|name| !name.is_empty()),
            place: self.place,
        }
    }

    /// Writes the sample of the interrupted thread. *Runs on: the handler of the signal.*
    fn fill(&mut self, registers: Registers) {
        let sp = registers.sp;
        self.registers = registers;
        (self.id, self.place, self.name_len, self.len) = (0, None, 0, 0);
        // SAFETY: `current` names the M of this OS thread, which outlives that thread.
        let g = unsafe { current().as_ref() }.and_then(|m| m.running_or_hooked());
        let mut top = None;
        if let Some(g) = g {
            (self.id, self.place) = (g.id(), g.place());
            // A running G keeps its name, and it is this thread's.
            let name = g.name().unwrap_or_default().as_bytes();
            self.name_len = name.len().min(NAME_BYTES);
            self.name[..self.name_len].copy_from_slice(&name[..self.name_len]);
            // SAFETY: the G runs on this thread, so its coroutine is this thread's.
            top = unsafe { Coro::top_if_on(g, sp) };
        }
        match top {
            Some(top) => {
                self.len = if sp.is_multiple_of(WORD) { ((top - sp) / WORD).min(WORDS) } else { 0 };
                for (i, word) in self.words[..self.len].iter_mut().enumerate() {
                    // SAFETY: the word lies between the stack pointer and the top of this thread's own stack.
                    // Volatile: the frames there are no values of this function's.
                    *word = unsafe { ptr::with_exposed_provenance::<usize>(sp + i * WORD).read_volatile() };
                }
            }
            None => self.len = read_by_kernel(sp, &mut self.words),
        }
    }
}

/// Copies the words from `start` on, up to the end of the mapping. Returns how many.
fn read_by_kernel(start: usize, words: &mut [usize]) -> usize {
    let mut done = 0;
    // Page by page: a call that meets an unmapped page may copy nothing of it.
    while done < words.len() {
        let from = start + done * WORD;
        let bytes = ((from | 4095) + 1 - from).min((words.len() - done) * WORD);
        let local = libc::iovec { iov_base: words[done..].as_mut_ptr().cast(), iov_len: bytes };
        let remote = libc::iovec { iov_base: ptr::with_exposed_provenance_mut(from), iov_len: bytes };
        // SAFETY: the local range lies in `words`. The kernel checks the other one.
        let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        done += usize::try_from(copied).unwrap_or(0) / WORD;
        if copied != bytes as isize {
            break;
        }
    }
    done
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

extern "C" fn on_signal(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    if !ON.load(Ordering::Relaxed) {
        return;
    }
    let errno = sys::errno();
    if let Some(samples) = SAMPLES.get() {
        // SAFETY: the kernel passes a valid `ucontext_t` to a handler with SA_SIGINFO.
        let registers = unsafe { interrupted_at(context) };
        samples.add(|sample| sample.fill(registers));
    }
    sys::set_errno(errno);
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
    let done = unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, null_mut()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
