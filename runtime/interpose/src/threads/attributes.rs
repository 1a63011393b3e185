//! What an OS thread can do, and a green thread cannot: signals of its own, cancellation by pthread, a place
//! in the kernel's scheduler. A call for an OS thread goes to libc. For a green thread it does what is
//! possible, and returns an error otherwise.

use std::ffi::{c_int, c_void};
use std::ptr;

use libc::{clockid_t, cpu_set_t, pid_t, pthread_t, sched_param};
use netpoll::raw::fail;
use sched::simulation;

use super::masks::kernel::send_here;
use super::record::{self, Kept, Record};
use super::{masks, os_thread, real};
use crate::raw::call;
use crate::{error, finish, process};

real! {
    pthread_kill: unsafe extern "C" fn(pthread_t, c_int) -> c_int;
    pthread_sigqueue: unsafe extern "C" fn(pthread_t, c_int, *mut c_void) -> c_int;
    pthread_setschedparam: unsafe extern "C" fn(pthread_t, c_int, *const sched_param) -> c_int;
    pthread_getschedparam: unsafe extern "C" fn(pthread_t, *mut c_int, *mut sched_param) -> c_int;
    pthread_setschedprio: unsafe extern "C" fn(pthread_t, c_int) -> c_int;
    pthread_setaffinity_np: unsafe extern "C" fn(pthread_t, usize, *const cpu_set_t) -> c_int;
    pthread_getaffinity_np: unsafe extern "C" fn(pthread_t, usize, *mut cpu_set_t) -> c_int;
    pthread_getcpuclockid: unsafe extern "C" fn(pthread_t, *mut clockid_t) -> c_int;
}

/// libc's `pthread_kill`. A green thread may send a signal to itself, and may ask with the signal 0 whether
/// another one lives. Another green thread gets a signal for which it has waited by `sigwait` or its kin. Any
/// other signal to another green thread is `ENOTSUP`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn kill(thread: pthread_t, signal: c_int) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { Record::of(thread) } {
        Some(record) if !record.is_over() && is_kept(record, signal) => 0,
        Some(record) => signal_green(record, signal, || masks::as_own(record, || send_here(signal))),
        // SAFETY: the caller's arguments.
        None => unsafe { pthread_kill()(thread, signal) },
    }
}

/// Keeps a signal for a thread that blocks it, or that waits for it by `sigwait` or its kin. Returns `false`
/// if the thread does neither.
fn is_kept(record: &Record, signal: c_int) -> bool {
    record.with_signals(|signals| signals.send(signal, record.mask()))
}

/// libc's `raise`: `pthread_kill` of the caller.
///
/// # Safety
/// As libc's, which has no requirements.
pub unsafe extern "C" fn raise_signal(signal: c_int) -> c_int {
    if simulation::refuses(|| "a signal of the system".into()) {
        return fail(-(libc::EPERM as isize)) as c_int;
    }
    match masks::own_here() {
        // SAFETY: the thread is the caller.
        Some(own) => match unsafe { kill(own.thread(), signal) } {
            0 => 0,
            errno => fail(error(errno)) as c_int,
        },
        None => finish(send_here(signal)) as c_int,
    }
}

/// libc's `pthread_sigqueue`: as `pthread_kill`, but the signal of a green thread to itself is `ENOTSUP`,
/// too.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn sigqueue(thread: pthread_t, signal: c_int, value: *mut c_void) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { Record::of(thread) } {
        Some(record) => signal_green(record, signal, || -(libc::ENOTSUP as isize)),
        // SAFETY: the caller's arguments.
        None => unsafe { pthread_sigqueue()(thread, signal, value) },
    }
}

fn signal_green(record: &Record, signal: c_int, to_itself: impl FnOnce() -> isize) -> c_int {
    let is_own = record::own().is_some_and(|own| ptr::eq(own, record));
    match signal {
        _ if record.is_over() => libc::ESRCH,
        0 => 0,
        // A signal to this OS thread arrives before the call returns, so it is the green thread's.
        _ if is_own => -to_itself() as c_int,
        _ => libc::ENOTSUP,
    }
}

/// libc's `pthread_setschedparam`. A green thread has `SCHED_OTHER`. One that asks for itself for another
/// policy keeps its OS thread (`os_thread.rs`); for another thread that does not, all else is `ENOTSUP`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn set_policy(
    thread: pthread_t,
    policy: c_int,
    parameters: *const sched_param,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        match Record::of(thread) {
            Some(record) => {
                let is_usual = (policy, (*parameters).sched_priority) == (libc::SCHED_OTHER, 0);
                if is_usual && record.kept().is_none() {
                    return 0;
                }
                os_thread::set_policy(record, policy, *parameters)
            }
            None => pthread_setschedparam()(thread, policy, parameters),
        }
    }
}

/// libc's `pthread_getschedparam`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn policy(
    thread: pthread_t,
    policy: *mut c_int,
    parameters: *mut sched_param,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let Some(record) = Record::of(thread) else {
            return pthread_getschedparam()(thread, policy, parameters);
        };
        policy.write(libc::SCHED_OTHER);
        parameters.write(sched_param { sched_priority: 0 });
        record.with_kept(|kept| {
            policy.write(os_thread::policy_of(kept.id));
            call!(libc::SYS_sched_getparam, kept.id, parameters);
        });
    }
    0
}

/// libc's `pthread_setschedprio`. A green thread that does not keep its OS thread has the priority 0, and all
/// else is `ENOTSUP`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn set_priority(thread: pthread_t, priority: c_int) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { Record::of(thread) } {
        Some(record) if record.kept().is_some() => {
            let parameters = sched_param { sched_priority: priority };
            // SAFETY: the kernel reads the parameters.
            os_thread::ask(record, |id| unsafe { call!(libc::SYS_sched_setparam, id, &raw const parameters) })
        }
        Some(_) => only(priority == 0),
        // SAFETY: as above.
        None => unsafe { pthread_setschedprio()(thread, priority) },
    }
}

/// libc's `pthread_setaffinity_np`. A green thread may run on all processors of the process. One that leaves
/// one of these out for itself keeps its OS thread (`os_thread.rs`). For another thread that does not keep
/// one, such a set is `ENOTSUP`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn set_affinity(thread: pthread_t, bytes: usize, set: *const cpu_set_t) -> c_int {
    // SAFETY: the caller's arguments.
    let Some(record) = (unsafe { Record::of(thread) }) else {
        // SAFETY: as above.
        return unsafe { pthread_setaffinity_np()(thread, bytes, set) };
    };
    // SAFETY: the caller's set has this size.
    let asked = unsafe { std::slice::from_raw_parts(set.cast(), bytes) };
    if record.kept().is_none() && os_thread::are_all_processors(asked) {
        return 0;
    }
    // SAFETY: the caller's arguments.
    unsafe { os_thread::set_processors(record, bytes, set) }
}

/// libc's `pthread_getaffinity_np`: all processors of the process, for a green thread that does not keep its
/// OS thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn affinity(thread: pthread_t, bytes: usize, set: *mut cpu_set_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        match Record::of(thread) {
            Some(record) => record
                .with_kept(|kept| os_thread::processors(kept.id, bytes, set))
                .unwrap_or_else(|| os_thread::processors(process::id(), bytes, set)),
            None => pthread_getaffinity_np()(thread, bytes, set),
        }
    }
}

/// libc's `sched_setaffinity`. A green thread that asks for itself keeps its OS thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn sched_setaffinity(pid: pid_t, bytes: usize, set: *const cpu_set_t) -> c_int {
    if pid == 0
        && let Some(own) = record::own()
    {
        // SAFETY: the caller's arguments.
        let result = unsafe { set_affinity(own.thread(), bytes, set) };
        return finish(error(result)) as c_int;
    }
    // SAFETY: the caller's arguments.
    finish(unsafe { call!(libc::SYS_sched_setaffinity, pid, bytes, set) }) as c_int
}

/// libc's `sched_setscheduler`. A green thread that asks for itself keeps its OS thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn sched_setscheduler(
    pid: pid_t,
    policy: c_int,
    parameters: *const sched_param,
) -> c_int {
    if pid == 0
        && let Some(own) = record::own()
        && !parameters.is_null()
    {
        // SAFETY: the caller's arguments.
        let result = unsafe { set_policy(own.thread(), policy, parameters) };
        return finish(error(result)) as c_int;
    }
    // SAFETY: the caller's arguments.
    finish(unsafe { call!(libc::SYS_sched_setscheduler, pid, policy, parameters) }) as c_int
}

/// libc's `sched_getscheduler`.
///
/// # Safety
/// As libc's, which has no requirements.
pub unsafe extern "C" fn sched_getscheduler(pid: pid_t) -> c_int {
    if pid == 0 && record::own().is_some() {
        return os_thread::policy_of(0);
    }
    // SAFETY: the call has no pointers.
    finish(unsafe { call!(libc::SYS_sched_getscheduler, pid) }) as c_int
}

/// libc's `pthread_getcpuclockid`: `ENOENT` for a green thread that does not keep its OS thread. It has no
/// clock of its processor time.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn cpu_clock(thread: pthread_t, clock: *mut clockid_t) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { Record::of(thread) } {
        Some(record) => {
            // As the kernel has it: the number of the OS thread, a clock of one thread, of the scheduler.
            let of = |id: pid_t| !id << 3 | 4 | 2;
            // SAFETY: the caller's place.
            let write = |kept: &Kept| unsafe { clock.write(of(kept.id)) };
            record.with_kept(write).map_or(libc::ENOENT, |()| 0)
        }
        // SAFETY: as above.
        None => unsafe { pthread_getcpuclockid()(thread, clock) },
    }
}

/// Returns success if what is asked for holds for green threads.
fn only(holds: bool) -> c_int {
    if holds { 0 } else { libc::ENOTSUP }
}
