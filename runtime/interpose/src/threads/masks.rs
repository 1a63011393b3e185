//! `pthread_sigmask` and its kin: the mask of signals belongs to the green thread.
//!
//! A signal to the process goes to any OS thread that does not block it. So the kernel's masks cannot follow
//! each green thread at no cost. They are these:
//!
//! ```text
//!                                     the signals of `ROUTED`                 the others
//!   an OS thread of the runtime       blocked                                 not blocked
//!   with a green thread on it         blocked                                 as the green thread has it
//!   the process's first OS thread     blocked if all green threads do         blocked if all green threads do
//! ```
//!
//! - *A signal to the process* reaches the first OS thread, and its handler runs there. If all green threads
//!   block the signal, it stays pending, for `sigwait`, a `signalfd`, or the thread that unblocks it. The
//!   kernel has preferred this OS thread before, too. `masks/common.rs` keeps its mask.
//! - *A signal that a thread sends to itself* runs its handler there: `as_own` lets the OS thread have the mask
//!   of the green thread for one call.
//! - *A signal outside of `ROUTED`* comes from what the thread itself does, such as `SIGPIPE`. A green thread
//!   that blocks one has a slot (`sched::contexts`): its OS thread gets and loses the mask at each switch. All
//!   other green threads pay nothing.
//!
//! Handlers and children of `vfork` change the mask of their OS thread, as ever. They are recognised by a mask
//! that is not the one above, and by the number of the process.
//!
//! Rejected: *to set the kernel's mask at each switch where it differs*. While a thread is parked, signals of
//! the process come to OS threads that do not have its mask.

pub(super) mod common;

use std::ffi::c_int;
use std::ptr;

use libc::{pthread_attr_t, sigset_t, timespec};
use netpoll::raw::fail;
use sched::contexts::{self, Carrier, Slot};
use sched::foreign;

use super::record::Record;
use super::{attributes, create, start};
use crate::raw::call;
use crate::{error, finish, process};

/// The size of the kernel's sets: one bit for each of 64 signals.
pub(super) const SET_BYTES: usize = 8;

/// Returns the bit of a signal.
pub(super) const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Signals that cannot be blocked, and those by which glibc stops its threads.
const UNBLOCKABLE: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP) | bit(32) | bit(33);
/// Signals that no OS thread blocks, whatever the program says. A fault ends the process if its signal is
/// blocked, and no overflow would be reported. CPU profiles need `SIGPROF`.
const NEVER: u64 = UNBLOCKABLE
    | bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS)
    | bit(libc::SIGPROF);
/// Signals that the kernel sends to the thread that has caused them, and those of terminals: a call fails
/// there if the signal is blocked. `SIGURG` is the runtime's own, or the program's.
const OF_THREAD: u64 = bit(libc::SIGPIPE)
    | bit(libc::SIGXFSZ)
    | bit(libc::SIGABRT)
    | bit(libc::SIGVTALRM)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU)
    | bit(libc::SIGURG);
/// Of these, the signals that are caused by what a thread writes, and stay with it if it blocks them.
const CAUSED: u64 = bit(libc::SIGPIPE) | bit(libc::SIGXFSZ);
/// Signals that go to the first OS thread.
const ROUTED: u64 = !(NEVER | OF_THREAD);

/// The mask of the runtime's OS threads, which they inherit from the first one.
pub(super) const OF_RUNTIME: u64 = ROUTED;

/// Returns the mask of an OS thread that runs a green thread without signals of its own; 0 if the threads of
/// this process are OS threads.
pub(super) fn base() -> u64 {
    if start::are_green() { ROUTED } else { 0 }
}

/// Returns what the OS thread of a green thread with `mask` blocks besides `base`.
fn of_thread(mask: u64) -> u64 {
    let kept = mask & OF_THREAD;
    let of_runtime = if kept & bit(libc::SIGURG) == 0 { None } else { foreign::signal_of_runtime() };
    kept & !of_runtime.map_or(0, bit)
}

/// Changes the mask of this OS thread, or only returns it. `how` is that of `sigprocmask`.
fn change_kernel(how: c_int, set: Option<&u64>) -> Result<u64, isize> {
    let mut before = 0_u64;
    let set = set.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the places are this function's, or null, and have the size of a set.
    let result = unsafe { call!(libc::SYS_rt_sigprocmask, how, set, &raw mut before, SET_BYTES) };
    if result < 0 { Err(result) } else { Ok(before) }
}

/// Sets the mask of this OS thread, and returns the one before.
pub(super) fn set_kernel(mask: u64) -> u64 {
    // The arguments are right, so the call does not fail.
    change_kernel(libc::SIG_SETMASK, Some(&mask)).unwrap_or_default()
}

/// Blocks signals for this OS thread, and returns the mask of before.
pub(super) fn block_kernel(set: u64) -> u64 {
    change_kernel(libc::SIG_BLOCK, Some(&set)).unwrap_or_default()
}

/// Runs `start`, which starts OS threads of the runtime's own: these inherit their mask.
pub(super) fn for_own_threads<T>(start: impl FnOnce() -> T) -> T {
    let before = set_kernel(ROUTED);
    let result = start();
    set_kernel(before);
    result
}

/// Runs `call` while this OS thread has the mask of `own`, the caller, for signals that `own` sends to itself
/// and for programs that it starts. `call` does not park.
pub(super) fn as_own<T>(own: &Record, call: impl FnOnce() -> T) -> T {
    let before = set_kernel(of_program(own.mask()));
    let result = call();
    set_kernel(before);
    result
}

/// Returns what of a mask the kernel may have.
pub(super) fn of_program(mask: u64) -> u64 {
    mask & !NEVER & (!OF_THREAD | of_thread(mask))
}

/// Returns the calling thread if that is a green thread of pthread, outside of signal handlers and of children
/// that have its memory.
pub(super) fn own_here<'r>() -> Option<&'r Record> {
    let own = create::own()?;
    let expected = base() | of_thread(own.mask());
    (change_kernel(libc::SIG_BLOCK, None) == Ok(expected) && process::is_own()).then_some(own)
}

/// Makes a call by which a program starts, which inherits the mask of this OS thread: here that of `own`, the
/// caller, or of the parent that shares its memory with this child. A child that has set its mask keeps that.
pub(super) fn as_inherited<T>(own: &Record, call: impl FnOnce() -> T) -> T {
    if change_kernel(libc::SIG_BLOCK, None) == Ok(base() | of_thread(own.mask())) {
        as_own(own, call)
    } else {
        call()
    }
}

/// Gives this OS thread the mask of its green thread. *Runs on: the only thread of a child of `fork`.*
pub(super) fn become_child() {
    if let Some(own) = create::own() {
        set_kernel(of_program(own.mask()));
    }
}

/// Lets the OS thread have what `own` has inherited. *Runs on: `own`, at its begin.*
pub(super) fn begin(own: &Record) {
    let kept = of_thread(own.mask());
    if kept != 0 {
        contexts::attach(&FOLLOWS);
        set_kernel(base() | kept);
    }
}

/// Gives `own`, the caller, a mask. When this returns, no signal that it blocks comes to it.
fn change(own: &Record, mask: u64) {
    let before = own.set_mask(mask);
    match (of_thread(before), of_thread(mask)) {
        (0, 0) => {}
        (_, kept) => {
            if kept == 0 {
                contexts::detach(&FOLLOWS);
            } else {
                contexts::attach(&FOLLOWS);
            }
            set_kernel(base() | kept);
        }
    }
    let unblocked = before & !mask;
    if unblocked != 0 {
        // Signals that are pending come here, before the first OS thread can have them.
        let sent = own.with_signals(|signals| signals.take(unblocked));
        as_own(own, || (1..=64).filter(|&signal| sent & bit(signal) != 0).for_each(attributes::send_here));
    }
    common::changed(before, mask);
}

/// Takes the signals of `set` that are pending for this OS thread: otherwise their handlers would run when it
/// lets them in.
fn take_pending(set: u64) -> u64 {
    let (mut taken, none) = (0, timespec { tv_sec: 0, tv_nsec: 0 });
    loop {
        let left = set & !taken;
        let (left, none) = (&raw const left, &raw const none);
        // SAFETY: the set and the time are this function's.
        match unsafe { call!(libc::SYS_rt_sigtimedwait, left, ptr::null::<()>(), none, SET_BYTES) } {
            signal @ 1..=64 => taken |= bit(signal as c_int),
            _ => return taken,
        }
    }
}

/// Keeps the mask of a green thread that blocks signals of `OF_THREAD`.
struct Kept(Option<u64>);

impl Carrier for Kept {
    fn save(&mut self) {
        if let Some(own) = create::own().filter(|own| own.mask() & CAUSED != 0) {
            own.with_signals(|signals| signals.keep(take_pending(own.mask() & CAUSED)));
        }
        self.0 = Some(set_kernel(base()));
    }

    fn restore(&mut self) {
        if let Some(mask) = self.0.take() {
            set_kernel(mask);
        }
    }

    fn inherit(&self) -> Option<Box<dyn Carrier>> {
        // `begin` does.
        None
    }
}

/// The slot. Not of size zero, so that its address is its own.
struct Follows {
    _not_empty: u8,
}

impl Slot for Follows {
    fn carrier(&'static self) -> Box<dyn Carrier> {
        Box::new(Kept(None))
    }
}

static FOLLOWS: Follows = Follows { _not_empty: 0 };

/// Returns the kernel's set.
///
/// # Safety
/// `set` is a set of the caller's.
pub(super) unsafe fn of_kernel(set: *const sigset_t) -> u64 {
    // SAFETY: this contract; the set of libc begins with that of the kernel.
    unsafe { set.cast::<u64>().read() }
}

/// libc's `pthread_sigmask`: the mask of a green thread is its own.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn thread_mask(how: c_int, set: *const sigset_t, before: *mut sigset_t) -> c_int {
    // SAFETY: the caller's arguments.
    let set = (!set.is_null()).then(|| unsafe { of_kernel(set) } & !UNBLOCKABLE);
    let changed = match own_here() {
        Some(own) => change_own(own, how, set),
        None => change_kernel(how, set.as_ref()),
    };
    match changed {
        Ok(mask) => {
            if !before.is_null() {
                // SAFETY: the caller's place. The set of libc begins with that of the kernel.
                unsafe { before.cast::<u64>().write(mask) };
            }
            0
        }
        Err(error) => -error as c_int,
    }
}

fn change_own(own: &Record, how: c_int, set: Option<u64>) -> Result<u64, isize> {
    let before = own.mask();
    let Some(set) = set else { return Ok(before) };
    let mask = match how {
        libc::SIG_BLOCK => before | set,
        libc::SIG_UNBLOCK => before & !set,
        libc::SIG_SETMASK => set,
        _ => return Err(error(libc::EINVAL)),
    };
    if mask != before {
        change(own, mask);
    }
    Ok(before)
}

/// libc's `sigprocmask`, as `thread_mask`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn process_mask(how: c_int, set: *const sigset_t, before: *mut sigset_t) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { thread_mask(how, set, before) } {
        0 => 0,
        errno => fail(error(errno)) as c_int,
    }
}

/// libc's `sigpending`: what is pending for the process, and what `pthread_kill` has sent to a green thread
/// that blocks it.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn pending(set: *mut sigset_t) -> c_int {
    // SAFETY: the caller's place.
    let result = unsafe { call!(libc::SYS_rt_sigpending, set, SET_BYTES) };
    if let Some(own) = create::own().filter(|_| result >= 0) {
        let set = set.cast::<u64>();
        // SAFETY: as above; the call has filled it. What the kernel has pending for a mask that is not the
        // green thread's is not pending for the green thread.
        unsafe { *set = (*set & own.mask()) | own.with_signals(|signals| signals.pending()) };
    }
    finish(result) as c_int
}

/// libc's `sigsuspend`. Holds the OS thread, which has the mask meanwhile.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn suspend(set: *const sigset_t) -> c_int {
    // SAFETY: the caller's set.
    let mask = unsafe { of_kernel(set) };
    suspend_with(mask)
}

/// libc's `pause`: as `suspend`, with the mask of the thread.
///
/// # Safety
/// As libc's, which has no requirements.
pub unsafe extern "C" fn pause() -> c_int {
    match own_here() {
        Some(own) => suspend_with(own.mask()),
        None => suspend_with(change_kernel(libc::SIG_BLOCK, None).unwrap_or_default()),
    }
}

/// Waits for a signal that is not in `mask`. Its handler runs here. Returns -1 and `EINTR`.
fn suspend_with(mask: u64) -> c_int {
    let Some(own) = own_here() else { return finish(wait_for_any(mask)) as c_int };
    let sent = own.with_signals(|signals| signals.take(!mask));
    if sent != 0 {
        as_own(own, || (1..=64).filter(|&signal| sent & bit(signal) != 0).for_each(attributes::send_here));
        return fail(error(libc::EINTR)) as c_int;
    }
    let ours = foreign::signal_of_runtime().map_or(0, bit);
    let _first = common::Suspended::begin(!mask & ROUTED);
    finish(process::blocking(|| wait_for_any(of_program(mask) | ours))) as c_int
}

fn wait_for_any(mask: u64) -> isize {
    // SAFETY: the set is this function's.
    unsafe { call!(libc::SYS_rt_sigsuspend, &raw const mask, SET_BYTES) }
}

/// The type of `pthread_attr_getsigmask_np`, which older glibcs do not have.
type GetMask = unsafe extern "C" fn(*const pthread_attr_t, *mut sigset_t) -> c_int;

/// Returns the mask with which a thread begins: that of its attributes, or else of the caller.
///
/// # Safety
/// `attr` is null or leads to attributes.
pub(super) unsafe fn of_new_thread(attr: *const pthread_attr_t) -> u64 {
    let inherited = create::own().map_or(0, Record::mask);
    if attr.is_null() {
        return inherited;
    }
    // SAFETY: the name is a C string, libc's function of it has this type, and the place is this function's.
    unsafe {
        let get = libc::dlsym(libc::RTLD_DEFAULT, c"pthread_attr_getsigmask_np".as_ptr());
        if get.is_null() {
            return inherited;
        }
        let mut set = std::mem::zeroed();
        let get = std::mem::transmute::<*mut std::ffi::c_void, GetMask>(get);
        // Another result says that the attributes have none.
        if get(attr, &raw mut set) == 0 { of_kernel(&set) & !UNBLOCKABLE } else { inherited }
    }
}
