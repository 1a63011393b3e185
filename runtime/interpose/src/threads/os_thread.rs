//! Green threads that keep an OS thread, each of its own, until they end: what they ask of the kernel's
//! scheduler concerns no other thread.
//!
//! A thread keeps its OS thread from its begin on if its attributes ask for processors or for a policy, or if
//! `RUNTIME_OS_THREADS` names the library of its first function. From a later moment on it keeps its OS
//! thread if it gives itself a name that `RUNTIME_OS_THREADS` has, or asks for processors or a policy then.
//!
//! ```text
//!   pthread_create, with such attributes      the new thread
//!   starts it, and waits                      pin, ask the kernel, say the result, wake the creator
//!   returns the result <───────────────────── no error: run
//!                                             at its end: the OS thread is as it was
//! ```
//!
//! The scheduler's pin keeps the thread on its OS thread, and others away from that. What such a thread
//! starts inherits nothing of this.
//!
//! Rejected: *threads of libc's* in their place. What these start would be OS threads, too; `pthread_exit` of
//! `main` would have to wait for them; and each wait of theirs would be one of the kernel's.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;

use libc::{cpu_set_t, pid_t, pthread_attr_t, sched_param};
use sched::simulation;
use timers::clock;

use super::record::{self, Kept, NAME, Record};
use crate::host::host;
use crate::raw::call;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::{futex, process};

unsafe extern "C" {
    fn pthread_attr_getaffinity_np(attr: *const pthread_attr_t, bytes: usize, set: *mut cpu_set_t) -> c_int;
    fn pthread_attr_getinheritsched(attr: *const pthread_attr_t, inherits: *mut c_int) -> c_int;
    fn pthread_attr_getschedpolicy(attr: *const pthread_attr_t, policy: *mut c_int) -> c_int;
    fn pthread_attr_getschedparam(attr: *const pthread_attr_t, parameters: *mut sched_param) -> c_int;
}

/// The value of `pthread_attr_getinheritsched` by which the policy of the attributes counts.
const EXPLICIT: c_int = 1;

/// Lets the caller keep its OS thread. Returns `None` if it cannot, and otherwise whether it has not done so
/// before. *Runs on: `own`.*
fn keep(own: &Record) -> Option<bool> {
    if own.kept().is_some() {
        return Some(false);
    }
    // A simulation has one OS thread. In strict mode others run on this OS thread.
    let is_alone = || (host().default_sched)().is_ok_and(|sched| !sched.config().strict);
    if simulation::is_user_code() || !is_alone() {
        return None;
    }
    // Ends with the thread.
    let pin = sched::park::pin();
    // SAFETY: the calls have no pointers.
    let [id, policy] = unsafe { [call!(libc::SYS_gettid), call!(libc::SYS_sched_getscheduler, 0)] };
    let kept = Kept { id: id as pid_t, pin, os_name: name(), policy: policy as c_int };
    own.set_kept(Some(kept));
    Some(true)
}

/// Gives the OS thread back as it was. *Runs on: `own`, at its end.*
pub(super) fn give_back(own: &Record) {
    let Some(kept) = own.kept() else { return };
    // Others change nothing of it from here on.
    own.set_kept(None);
    let (mut set, parameters) = ([0_u8; LARGE], sched_param { sched_priority: 0 });
    // SAFETY: the kernel reads and writes these places. The first OS thread has the processors with which the
    // process began.
    unsafe {
        let first = process::id();
        let bytes = call!(libc::SYS_sched_getaffinity, first, set.len(), set.as_mut_ptr());
        call!(libc::SYS_sched_setaffinity, 0, usize::try_from(bytes).unwrap_or(0), set.as_ptr());
        call!(libc::SYS_sched_setscheduler, 0, kept.policy, &raw const parameters);
        call!(libc::SYS_prctl, libc::PR_SET_NAME, kept.os_name.as_ptr());
    }
}

/// Makes a system call about the OS thread that a thread keeps: its argument is the number of the OS thread,
/// 0 for the caller's own. The caller begins to keep its OS thread first. Returns an error number: `ENOTSUP`
/// for another thread that does not keep one.
pub(super) fn ask(record: &Record, call: impl FnOnce(pid_t) -> isize) -> c_int {
    let Some(own) = record::own().filter(|own| ptr::eq(*own, record)) else {
        return record.with_kept(|kept| number(call(kept.id))).unwrap_or(libc::ENOTSUP);
    };
    let Some(is_new) = keep(own) else { return libc::ENOTSUP };
    let result = number(call(0));
    if result != 0 && is_new {
        let kept = own.kept();
        own.set_kept(None);
        sched::park::unpin(kept.map_or(0, |kept| kept.pin));
    }
    result
}

/// Converts the result of a system call into that of a function of pthread.
fn number(result: isize) -> c_int {
    if result < 0 { -result as c_int } else { 0 }
}

/// Sets the processors on which the OS thread of a thread runs. Returns an error number.
///
/// # Safety
/// `set` has this many bytes.
pub(super) unsafe fn set_processors(record: &Record, bytes: usize, set: *const cpu_set_t) -> c_int {
    // SAFETY: this contract.
    ask(record, |id| unsafe { call!(libc::SYS_sched_setaffinity, id, bytes, set) })
}

/// What the runtime's OS threads have besides their policy. Only some users could take it away.
const OF_RUNTIME: c_int = libc::SCHED_RESET_ON_FORK;

/// Returns the policy of an OS thread that a green thread keeps, or has.
pub(super) fn policy_of(id: pid_t) -> c_int {
    // SAFETY: the call has no pointers.
    match unsafe { call!(libc::SYS_sched_getscheduler, id) } {
        result if result < 0 => result as c_int,
        policy => policy as c_int & !OF_RUNTIME,
    }
}

/// Sets the policy of the OS thread of a thread. Returns an error number.
pub(super) fn set_policy(record: &Record, policy: c_int, parameters: sched_param) -> c_int {
    let policy = policy | OF_RUNTIME;
    // SAFETY: the kernel reads the parameters.
    let set = |id| unsafe { call!(libc::SYS_sched_setscheduler, id, policy, &raw const parameters) };
    ask(record, set)
}

/// Returns `true` if a set has all processors of the process.
pub(super) fn are_all_processors(set: &[u8]) -> bool {
    let mut all = vec![0_u8; set.len()];
    // SAFETY: the vector has this size, of which the kernel fills a part.
    let error = unsafe { processors(process::id(), set.len(), all.as_mut_ptr().cast()) };
    error == 0 && all.iter().zip(set).all(|(all, set)| all & !set == 0)
}

/// Writes the processors of an OS thread, and zeroes behind them. Returns an error number.
///
/// # Safety
/// `set` is a place for `bytes` bytes.
pub(super) unsafe fn processors(thread: pid_t, bytes: usize, set: *mut cpu_set_t) -> c_int {
    // SAFETY: this contract; the kernel returns how many bytes it has written.
    unsafe {
        let written = call!(libc::SYS_sched_getaffinity, thread, bytes, set);
        let Ok(written) = usize::try_from(written) else { return -written as c_int };
        set.cast::<u8>().add(written).write_bytes(0, bytes - written);
    }
    0
}

/// What a new thread asks of the kernel's scheduler.
pub(super) struct Place {
    /// The processors on which it runs, if not on all.
    processors: Option<Box<[u8]>>,
    /// The policy and the priority.
    policy: Option<(c_int, c_int)>,
}

/// The bytes of most sets of processors, and of the largest one.
const USUAL: usize = size_of::<cpu_set_t>();
const LARGE: usize = 8 * USUAL;

impl Place {
    /// Returns what a thread with these attributes and this first function asks for; `None` if that is
    /// nothing.
    ///
    /// # Safety
    /// `attr` is null or leads to attributes.
    pub(super) unsafe fn asked(attr: *const pthread_attr_t, first: *const c_void) -> Option<Place> {
        // SAFETY: this contract.
        let of_attributes = || unsafe { Place::of_attributes(attr) };
        let place = if attr.is_null() { None } else { of_attributes() };
        place.or_else(|| is_of_named_library(first).then_some(Place { processors: None, policy: None }))
    }

    /// # Safety
    /// `attr` leads to attributes.
    unsafe fn of_attributes(attr: *const pthread_attr_t) -> Option<Place> {
        let (mut inherits, mut policy) = (0, libc::SCHED_OTHER);
        let mut parameters = sched_param { sched_priority: 0 };
        // SAFETY: this contract; the calls write these places.
        unsafe {
            pthread_attr_getinheritsched(attr, &raw mut inherits);
            if inherits == EXPLICIT {
                pthread_attr_getschedpolicy(attr, &raw mut policy);
                pthread_attr_getschedparam(attr, &raw mut parameters);
            }
        }
        let policy = (policy, parameters.sched_priority);
        // SAFETY: this contract.
        let processors = unsafe { processors_of(attr) };
        let policy = (policy != (libc::SCHED_OTHER, 0)).then_some(policy);
        (processors.is_some() || policy.is_some()).then_some(Place { processors, policy })
    }

    /// Takes the place. Returns an error number. *Runs on: `own`, at its begin.*
    fn take(&self, own: &Record) -> c_int {
        if let Some((policy, priority)) = self.policy {
            let result = set_policy(own, policy, sched_param { sched_priority: priority });
            if result != 0 {
                return result;
            }
        }
        if let Some(processors) = &self.processors {
            // SAFETY: the set has these bytes.
            let result = unsafe { set_processors(own, processors.len(), processors.as_ptr().cast()) };
            if result != 0 {
                return result;
            }
        }
        // A thread that could not keep its OS thread for its library's name alone runs as others do.
        let _ = keep(own);
        0
    }

    /// Starts a thread in this place by `start`, which gets what is to run before the thread's function: that
    /// returns `false` if the thread is to end. Waits until the thread has its place. Returns an error
    /// number, or the error of `start`.
    pub(super) fn start(
        self,
        start: impl FnOnce(Box<dyn FnOnce() -> bool + Send>) -> io::Result<()>,
    ) -> io::Result<c_int> {
        // 0, then the error number and 1.
        let said = Arc::new(AtomicU32::new(0));
        let says = said.clone();
        let take = move || {
            let result = record::own().map_or(0, |own| self.take(own));
            // Release: pairs with the Acquire below, as the creator may show the result to others.
            says.store(result as u32 + 1, Ordering::Release);
            futex::wake_at(says.as_ptr().expose_provenance(), c_int::MAX);
            result == 0
        };
        start(Box::new(take))?;
        loop {
            match said.load(Ordering::Acquire) {
                0 => _ = futex::wait_while(&said, 0, clock::NEVER),
                said => return Ok((said - 1) as c_int),
            }
        }
    }
}

/// Returns the processors of attributes, unless they are all that the process has.
///
/// # Safety
/// `attr` leads to attributes.
unsafe fn processors_of(attr: *const pthread_attr_t) -> Option<Box<[u8]>> {
    // SAFETY: this contract; the call fills what it is told to, if the set of the attributes is no larger.
    let get = |set: &mut [u8]| unsafe {
        pthread_attr_getaffinity_np(attr, set.len(), set.as_mut_ptr().cast()) == 0
    };
    let mut usual = [0_u8; USUAL];
    if get(&mut usual) {
        return unless_all(&usual);
    }
    let mut large = vec![0_u8; LARGE];
    if get(&mut large) { unless_all(&large) } else { None }
}

/// Returns a set of processors, unless it has all that the process has.
fn unless_all(set: &[u8]) -> Option<Box<[u8]>> {
    // So it is in attributes without a set.
    let is_without = set.chunks(8).all(|bytes| bytes == [u8::MAX; 8]);
    (!is_without && !are_all_processors(set)).then(|| set.into())
}

/// Returns the name of this OS thread.
pub(super) fn name() -> [u8; NAME] {
    let mut name = [0; NAME];
    // SAFETY: the kernel writes at most these bytes.
    unsafe { call!(libc::SYS_prctl, libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// What `RUNTIME_OS_THREADS` names: patterns. Each thread that comes first reads them: a wait for another one
/// would be a step of a simulation, which its replay does not have.
fn patterns() -> &'static [String] {
    static PATTERNS: AtomicPtr<Vec<String>> = AtomicPtr::new(ptr::null_mut());
    // Acquire: pairs with the Release below.
    let mut patterns = PATTERNS.load(Ordering::Acquire);
    if patterns.is_null() {
        let read = Box::into_raw(Box::new(read_patterns()));
        // Release: pairs with each Acquire, also that of this exchange.
        let first = PATTERNS.compare_exchange(patterns, read, Ordering::AcqRel, Ordering::Acquire);
        patterns = first.map_or_else(
            |first| {
                // SAFETY: no other thread has seen this box.
                drop(unsafe { Box::from_raw(read) });
                first
            },
            |_| read,
        );
    }
    // SAFETY: the first box is never dropped nor changed.
    unsafe { &*patterns }
}

fn read_patterns() -> Vec<String> {
    let variable = std::env::var("RUNTIME_OS_THREADS").ok();
    let variable = variable.filter(|_| !sched::privileges::are_raised()).unwrap_or_default();
    let patterns = variable.split(',').map(str::trim).filter(|pattern| !pattern.is_empty());
    patterns.map(Into::into).collect()
}

/// Keeps the OS thread of the caller if `RUNTIME_OS_THREADS` has its new name. An OS thread that is kept has
/// the name, too. *Runs on: `own`.*
pub(super) fn look_at_name(own: &Record, name: &[u8; NAME]) {
    let bytes = name.split(|&byte| byte == 0).next().unwrap_or_default();
    if patterns().iter().any(|pattern| matches(pattern.as_bytes(), bytes)) {
        let _ = keep(own);
    }
    if own.kept().is_some() {
        // SAFETY: the kernel reads a name that ends with a zero.
        unsafe { call!(libc::SYS_prctl, libc::PR_SET_NAME, name.as_ptr()) };
    }
}

/// Returns `true` if `RUNTIME_OS_THREADS` names the library that has this function.
fn is_of_named_library(function: *const c_void) -> bool {
    let patterns = patterns();
    let mut of = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the call fills the place. The path is that of a library that has the caller's function.
    let mut path = || unsafe {
        let found = libc::dladdr(function, of.as_mut_ptr()) != 0;
        let path = (*of.as_ptr()).dli_fname;
        (found && !path.is_null()).then(|| Path::new(OsStr::from_bytes(CStr::from_ptr(path).to_bytes())))
    };
    !patterns.is_empty()
        && path()
            .and_then(Path::file_name)
            .is_some_and(|file| patterns.iter().any(|pattern| matches(pattern.as_bytes(), file.as_bytes())))
}

/// Returns `true` if a name is as the pattern says, in which `*` stands for any letters.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
        Some((letter, rest)) => {
            name.split_first().is_some_and(|(first, others)| first == letter && matches(rest, others))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_have_stars() {
        let cases = [
            ("gpu", "gpu", true),
            ("gpu", "gpu-1", false),
            ("gpu*", "gpu-1", true),
            ("*gpu", "a gpu", true),
            ("*gpu", "gpus", false),
            ("lib*.so*", "libgpu.so.1", true),
            ("lib*.so*", "libgpu.a", false),
            ("*", "", true),
            ("", "a", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
