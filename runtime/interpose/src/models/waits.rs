//! Waits for a word: those of green threads in a table, and those of OS threads in the kernel. Both have one
//! list here, and one lock. That the table does so is shown by the models of `waits` (`futex.rs`).

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_long};
use std::ptr;
use std::sync::Arc;

use loom::sync::{Condvar, Mutex};

use super::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::clock;

/// What a thread of a model stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A green thread of pthread.
    Green,
    /// A plain OS thread.
    Os,
    /// A signal handler, on a plain OS thread.
    Handler,
}

loom::thread_local! {
    static KIND: Cell<Kind> = Cell::new(Kind::Green);
}

/// Says what the calling thread stands for: a green thread if nothing says otherwise.
pub(crate) fn be(kind: Kind) {
    KIND.with(|it| it.set(kind));
}

loom::thread_local! {
    static NUMBER: u32 = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
}

/// Only whether two numbers are equal matters.
static NEXT_NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);

/// Returns a number of the calling thread.
pub(crate) fn own_number() -> u32 {
    NUMBER.with(|number| *number)
}

fn kind() -> Kind {
    KIND.with(Cell::get)
}

pub(crate) fn is_thread_of_its_own() -> bool {
    kind() == Kind::Green
}

/// A green thread, as the scheduler knows it: whether it was cancelled, and whether it masks that. Only the
/// thread uses the mask.
#[derive(Clone, Debug)]
pub(crate) struct GHandle(Arc<AtomicBool>, Arc<AtomicBool>);

loom::thread_local! {
    static CURRENT: RefCell<GHandle> = RefCell::new(GHandle::new());
}

impl GHandle {
    /// Returns the handle of the calling thread.
    pub(crate) fn current() -> GHandle {
        CURRENT.with(|current| current.borrow().clone())
    }

    pub(crate) fn new() -> GHandle {
        let [cancelled, masked] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        GHandle(cancelled, masked)
    }

    /// Makes this the handle of the calling thread.
    pub(crate) fn is_current(&self) {
        CURRENT.with(|current| *current.borrow_mut() = self.clone());
    }

    /// Cancels the thread: ends its wait, if a cancellation may, and each such wait after it.
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
        let mut list = WAITS.0.lock().unwrap();
        let is_its = |it: &Arc<Waiter>| it.cancelled.as_ref().is_some_and(|of| Arc::ptr_eq(of, &self.0));
        if let Some(at) = list.iter().position(is_its) {
            list.remove(at).woken.notify_one();
        }
    }

    pub(crate) fn rename(&self, _name: &str) {}
}

pub(crate) fn is_interrupted() -> bool {
    let GHandle(cancelled, masked) = GHandle::current();
    // Relaxed: the caller has a fence.
    !masked.load(Ordering::Relaxed) && cancelled.load(Ordering::Relaxed)
}

/// Says whether cancellations end no wait of the calling thread.
pub(crate) fn set_uncancellable(on: bool) {
    // Relaxed: only the thread uses it.
    GHandle::current().1.store(on, Ordering::Relaxed);
}

struct Waiter {
    address: usize,
    is_green: bool,
    /// Set where a cancellation ends the wait.
    cancelled: Option<Arc<AtomicBool>>,
    woken: Condvar,
}

struct Waits(Mutex<Vec<Arc<Waiter>>>);

loom::lazy_static! {
    static ref WAITS: Waits = Waits(Mutex::new(Vec::new()));
}

/// How a wait for a word ended, or who waits instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordWait {
    Woken,
    TimedOut,
    Changed,
    System,
}

/// Waits as the caller asks, as a green thread or in the kernel.
fn wait_as(
    is_green: bool,
    cancelled: Option<Arc<AtomicBool>>,
    word: &AtomicU32,
    expected: u32,
    until: u64,
) -> WordWait {
    let mut list = WAITS.0.lock().unwrap();
    // Relaxed: the lock orders this load and the waker's earlier store.
    if word.load(Ordering::Relaxed) != expected {
        return WordWait::Changed;
    }
    // Relaxed: the lock orders this load and the canceller's store before it takes waiters out.
    if cancelled.as_ref().is_some_and(|of| of.load(Ordering::Relaxed)) {
        return WordWait::Woken;
    }
    let address = word.as_ptr().expose_provenance();
    let own = Arc::new(Waiter { address, is_green, cancelled, woken: Condvar::new() });
    let is_own = |other: &Arc<Waiter>| Arc::ptr_eq(other, &own);
    list.push(own.clone());
    if until <= clock::NOW {
        drop(list);
        list = WAITS.0.lock().unwrap();
        let at = list.iter().position(is_own);
        return at.map_or(WordWait::Woken, |at| {
            list.remove(at);
            WordWait::TimedOut
        });
    }
    while list.iter().any(is_own) {
        list = own.woken.wait(list).unwrap();
    }
    WordWait::Woken
}

/// Wakes up to `most` waiters of a kind. Returns how many.
fn wake_those(is_green: bool, address: usize, most: usize) -> usize {
    let mut list = WAITS.0.lock().unwrap();
    let mut woken = 0;
    while woken < most
        && let Some(at) = list.iter().position(|it| it.address == address && it.is_green == is_green)
    {
        list.remove(at).woken.notify_one();
        woken += 1;
    }
    woken
}

pub(crate) fn wait(word: &AtomicU32, expected: u32, until: u64) -> WordWait {
    if kind() == Kind::Green { wait_as(true, None, word, expected, until) } else { WordWait::System }
}

pub(crate) fn wait_or_cancel(word: &AtomicU32, expected: u32, until: u64) -> WordWait {
    let cancelled = || {
        let GHandle(cancelled, masked) = GHandle::current();
        (!masked.load(Ordering::Relaxed)).then_some(cancelled)
    };
    if kind() == Kind::Green { wait_as(true, cancelled(), word, expected, until) } else { WordWait::System }
}

pub(crate) fn wake(address: usize, most: usize, system: impl FnOnce(usize) -> isize) -> isize {
    // In the runtime a handler may have interrupted a thread that has the lock.
    assert_ne!(kind(), Kind::Handler, "a signal handler uses the table");
    match wake_those(true, address, most) {
        woken if woken == most => woken as isize,
        woken => woken as isize + system(most - woken).max(0),
    }
}

/// The mask of signals of an OS thread that runs green threads.
pub(crate) fn base() -> u64 {
    0
}

/// The signals that no OS thread blocks.
pub(crate) const NEVER: u64 = 1 << 63;

loom::lazy_static! {
    static ref MASK: AtomicU64 = AtomicU64::new(0);
}

/// Sets the mask of the first OS thread. Relaxed, as below: the protocol must order it.
pub(crate) fn set_kernel(mask: u64) {
    MASK.store(mask, Ordering::Relaxed);
}

/// Returns the mask of the first OS thread.
pub(crate) fn mask_of_kernel() -> u64 {
    MASK.load(Ordering::Relaxed)
}

/// An argument of a system call.
pub(crate) trait Argument {
    fn word(self) -> usize;
}

macro_rules! arguments {
    ($($type:ty),*) => {$(
        impl Argument for $type {
            fn word(self) -> usize {
                self as usize
            }
        }
    )*};
}
arguments!(i32, u32, usize);

impl<T> Argument for *const T {
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

impl<T> Argument for *mut T {
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

macro_rules! call {
    ($number:expr $(, $argument:expr)*) => {
        $crate::models::waits::system($number, &[$($crate::models::waits::Argument::word($argument)),*])
    };
}
pub(crate) use call;

/// A system call: a wait in the kernel, a wake-up there, or a look at the mask of signals.
///
/// # Safety
/// The arguments are those of the call, with pointers to atomics of `atomic.rs`.
pub(crate) unsafe fn system(number: c_long, arguments: &[usize]) -> isize {
    const WAIT: c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    const WAKE: c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    match (number, arguments) {
        (libc::SYS_futex, &[word, operation, expected, time]) if operation as c_int == WAIT => {
            // SAFETY: this contract.
            let time = unsafe { ptr::with_exposed_provenance::<libc::timespec>(time).as_ref() };
            let is_up = time.is_some_and(|time| (time.tv_sec, time.tv_nsec) == (0, 0));
            let until = if is_up { clock::NOW } else { clock::NEVER };
            // SAFETY: this contract.
            let word = unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(word)) };
            match wait_as(false, None, word, expected as u32, until) {
                WordWait::TimedOut => crate::error(libc::ETIMEDOUT),
                WordWait::Changed => crate::error(libc::EAGAIN),
                _ => 0,
            }
        }
        (libc::SYS_futex, &[address, operation, most]) if operation as c_int == WAKE => {
            wake_those(false, address, most) as isize
        }
        (libc::SYS_rt_sigprocmask, &[_, _, mask, _]) => {
            // SAFETY: this contract.
            unsafe { *ptr::with_exposed_provenance_mut(mask) = u64::from(kind() == Kind::Handler) };
            0
        }
        _ => panic!("no model makes the call {number} {arguments:?}"),
    }
}

pub(crate) unsafe fn syscall6(_number: c_long, _arguments: [usize; 6]) -> isize {
    unreachable!("no model makes this call")
}

pub(crate) fn fail(_error: isize) -> isize {
    -1
}
