//! `clock`: libc's functions of clocks and random bytes, and `pthread_create`, in a program with the line
//! `runtime::sim!()` (`hooks.rs` of `monochrome`). On an M of a simulation they answer from the
//! simulation; elsewhere they call libc's.
//!
//! So `std::time::Instant`, `SystemTime`, the keys of `HashMap`s and the crate `getrandom` are simulated, in
//! code of others too.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::OnceLock;

use sched::{Real, simulation};

use super::network::{self, Network};

/// What `SystemTime::now` returns when a simulation begins: the first of January 2030, in seconds after 1970.
const EPOCH_S: u64 = 1_893_456_000;

pub(super) const NS_PER_S: u64 = 1_000_000_000;

static CLOCK_GETTIME: Real = Real::new(c"clock_gettime");
static GETRANDOM: Real = Real::new(c"getrandom");
static PTHREAD_CREATE: Real = Real::new(c"pthread_create");
static GETTIMEOFDAY: Real = Real::new(c"gettimeofday");
static TIME: Real = Real::new(c"time");
static GETENTROPY: Real = Real::new(c"getentropy");

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;
type GetRandom = unsafe extern "C" fn(*mut c_void, usize, u32) -> isize;
type GetTimeOfDay = unsafe extern "C" fn(*mut libc::timeval, *mut c_void) -> c_int;
type Time = unsafe extern "C" fn(*mut libc::time_t) -> libc::time_t;
type GetEntropy = unsafe extern "C" fn(*mut c_void, usize) -> c_int;
type Start = extern "C" fn(*mut c_void) -> *mut c_void;
type PthreadCreate =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, *mut c_void) -> c_int;

fn real_time(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: libc's function of this name has this type; the caller's pointer is passed on.
    unsafe { mem::transmute::<*mut c_void, ClockGettime>(CLOCK_GETTIME.get())(clock, time) }
}

/// Returns the real time of the clock that `Instant` reads, in ns.
pub(super) fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    real_time(libc::CLOCK_MONOTONIC, &mut time);
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

/// How long the simulated clock is ahead of the moment when the process first simulated: it must not be
/// behind any real time.
const AHEAD_NS: u64 = 1_000_000_000;

/// Returns the time at which every simulation of this process begins.
pub(super) fn beginning() -> u64 {
    static BEGINNING: OnceLock<u64> = OnceLock::new();
    *BEGINNING.get_or_init(|| {
        // The clock of the timers counts from its first use, which must not be later than any simulated time.
        timers::clock::now();
        monotonic() + AHEAD_NS
    })
}

/// See `clock_gettime(2)`.
///
/// # Safety
/// `time` points to a place for the time.
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let ns = match clock {
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME => simulation::now(),
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => date_here(),
        // Processor time stays real.
        _ => None,
    };
    // No simulation is here, or its clock is not asked for.
    let Some(ns) = ns else { return real_time(clock, time) };
    let simulated =
        libc::timespec { tv_sec: (ns / NS_PER_S) as libc::time_t, tv_nsec: (ns % NS_PER_S) as libc::c_long };
    // SAFETY: the caller's pointer is valid, by the contract of this function.
    unsafe { time.write(simulated) };
    0
}

/// Returns `true` if the process's clock is that of the caller's simulation: the program has the line
/// `runtime::sim!()`.
pub(super) fn is_simulated() -> bool {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is the caller's own.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    let ns = time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64;
    done == 0 && simulation::now() == Some(ns)
}

/// Returns the date on the node of the caller, in ns after 1970; `None` outside of a simulation.
pub(super) fn date_here() -> Option<u64> {
    network::here().map(|network| date_on(&network, simulation::node()))
}

/// Returns the date on a node, in ns after 1970.
pub(super) fn date_on(network: &Network, node: u32) -> u64 {
    (network.now_on(node) - beginning() + EPOCH_S * NS_PER_S).saturating_add_signed(network.skew(node))
}

/// See `getrandom(2)`.
///
/// # Safety
/// `bytes` points to a place for `len` bytes.
pub unsafe extern "C" fn getrandom(bytes: *mut c_void, len: usize, flags: u32) -> isize {
    if !simulation::is_here() {
        // SAFETY: libc's function of this name has this type; the caller's arguments are passed on.
        return unsafe { mem::transmute::<*mut c_void, GetRandom>(GETRANDOM.get())(bytes, len, flags) };
    }
    for at in 0..len {
        let byte = simulation::with(|by| by.random()).unwrap_or_default() as u8;
        // SAFETY: `at` is below `len`, and the caller's place has `len` bytes.
        unsafe { bytes.cast::<u8>().add(at).write(byte) };
    }
    len as isize
}

/// See `pthread_create(3)`. The code of a simulation gets `EAGAIN`, and the simulation fails: no thread of
/// the system is simulated.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if simulation::refuses(|| "a thread of the system".into()) {
        return libc::EAGAIN;
    }
    // SAFETY: libc's function of this name has this type; the caller's arguments are passed on.
    unsafe {
        mem::transmute::<*mut c_void, PthreadCreate>(PTHREAD_CREATE.get())(
            thread, attributes, start, argument,
        )
    }
}

/// See `gettimeofday(2)`.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int {
    let Some(ns) = date_here() else {
        // SAFETY: libc's function of this name has this type; the caller's arguments are passed on.
        return unsafe { mem::transmute::<*mut c_void, GetTimeOfDay>(GETTIMEOFDAY.get())(time, zone) };
    };
    let simulated = libc::timeval {
        tv_sec: (ns / NS_PER_S) as libc::time_t,
        tv_usec: (ns % NS_PER_S / 1000) as libc::suseconds_t,
    };
    if !time.is_null() {
        // SAFETY: the caller's pointer is valid, by the contract of this function.
        unsafe { time.write(simulated) };
    }
    0
}

/// See `time(2)`.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn time(to: *mut libc::time_t) -> libc::time_t {
    let Some(ns) = date_here() else {
        // SAFETY: libc's function of this name has this type; the caller's argument is passed on.
        return unsafe { mem::transmute::<*mut c_void, Time>(TIME.get())(to) };
    };
    let seconds = (ns / NS_PER_S) as libc::time_t;
    if !to.is_null() {
        // SAFETY: the caller's pointer is valid, by the contract of this function.
        unsafe { to.write(seconds) };
    }
    seconds
}

/// See `getentropy(3)`.
///
/// # Safety
/// `bytes` points to a place for `len` bytes.
pub unsafe extern "C" fn getentropy(bytes: *mut c_void, len: usize) -> c_int {
    if !simulation::is_here() {
        // SAFETY: libc's function of this name has this type; the caller's arguments are passed on.
        return unsafe { mem::transmute::<*mut c_void, GetEntropy>(GETENTROPY.get())(bytes, len) };
    }
    // SAFETY: by the contract of this function.
    unsafe { getrandom(bytes, len, 0) };
    0
}
