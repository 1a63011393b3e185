//! `pthread_create`, `pthread_exit`, and the life of a green thread of pthread.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::{io, process};

use libc::{pthread_attr_t, pthread_t};
use sched::spawn::{Spec, Where};
use sched::{After, Cancelled, GHandle, Sched, foreign, fork, simulation, starting};

use super::os_thread::{self, Place};
use super::record::{self, Exit, Record, Reference, set_own};
use super::{cancel, masks, names, real, start};
use crate::host::host;

/// The function of a thread. `pthread_exit` unwinds through it.
type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

real! {
    pthread_create: unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;
    pthread_exit: unsafe extern "C-unwind" fn(*mut c_void) -> !;
}

unsafe extern "C" {
    fn pthread_attr_getdetachstate(attr: *const pthread_attr_t, state: *mut c_int) -> c_int;
}

/// libc's `pthread_create`: starts a green thread in user code.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn create(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if !is_green() {
        if simulation::refuses(|| "a thread of the system".into()) {
            return libc::EAGAIN;
        }
        // SAFETY: the caller's arguments.
        let create = || unsafe { pthread_create()(thread, attr, start, argument) };
        let is_own = start::are_green() && starting::starts_own();
        return if is_own { masks::for_own_threads(create) } else { create() };
    }
    // SAFETY: the caller's arguments.
    unsafe { start_thread(thread, attr, argument, start as *const c_void, move |argument| start(argument)) }
}

/// Returns `true` if what the caller starts becomes a green thread.
pub(super) fn is_green() -> bool {
    let in_process = start::are_green() && foreign::is_user_code() && !starting::starts_own();
    in_process || is_in_simulation()
}

/// Returns `true` if the caller belongs to a simulation with thread-locals of green threads.
pub(super) fn is_in_simulation() -> bool {
    simulation::is_user_code() && foreign::is_thread_of_its_own()
}

/// Starts a green thread that runs `run`, which calls the program's function `first` with the argument.
/// Returns an error number.
///
/// # Safety
/// `thread` is a place for a thread, `attr` is null or leads to attributes, and `run` may have the argument.
pub(super) unsafe fn start_thread(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    argument: *mut c_void,
    first: *const c_void,
    run: impl FnOnce(*mut c_void) -> *mut c_void + Send + 'static,
) -> c_int {
    // SAFETY: this contract.
    let (stack_bytes, detached) = unsafe { asked(attr) };
    // SAFETY: this contract.
    let mask = unsafe { masks::of_new_thread(attr) };
    let (record, argument) = (Reference::new(detached, names::inherited(), mask), Argument(argument));
    // The new thread may end before the next line, and free the record of a detached thread.
    // SAFETY: this contract.
    unsafe { thread.write(record.thread()) };
    // SAFETY: this contract.
    let result = match unsafe { Place::asked(attr, first) } {
        None => begin(&record, false, stack_bytes, move || run(argument.get())),
        Some(place) => {
            let start = |take| begin_in_place(&record, stack_bytes, take, move || run(argument.get()));
            match place.start(start) {
                Ok(0) => Ok(()),
                // The thread has ended without its function.
                Ok(error) => return error,
                Err(error) => Err(error),
            }
        }
    };
    match result {
        Ok(()) if detached => 0,
        Ok(()) => {
            record.into_handle();
            0
        }
        Err(_) => libc::EAGAIN,
    }
}

/// Starts a green thread that runs `take`, and then `run` if that has returned `true`.
fn begin_in_place(
    record: &Reference,
    stack_bytes: usize,
    take: Box<dyn FnOnce() -> bool + Send>,
    run: impl FnOnce() -> *mut c_void + Send + 'static,
) -> io::Result<()> {
    begin(record, false, stack_bytes, move || if take() { run() } else { ptr::null_mut() })
}

/// An argument, which goes to the thread that is started.
struct Argument(*mut c_void);

// SAFETY: the pointer means nothing here. The caller of `pthread_create` lets the thread have it.
unsafe impl Send for Argument {}

impl Argument {
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// The record of the thread that is started, to which its `Ends` has a reference.
struct Own(*const Record);

// SAFETY: a record is made of atomics and locks.
unsafe impl Send for Own {}

impl Own {
    /// *Runs on: the thread, before its end.*
    fn get<'r>(self) -> &'r Record {
        // SAFETY: `Ends` is dropped after the thread has ended.
        unsafe { &*self.0 }
    }
}

/// Returns the size of the stack, and whether the thread is to be detached. Without attributes they are the
/// process's.
///
/// # Safety
/// `attr` is null or leads to attributes.
unsafe fn asked(attr: *const pthread_attr_t) -> (usize, bool) {
    let (mut bytes, mut state) = (0, 0);
    let mut default = MaybeUninit::uninit();
    // SAFETY: this contract; the first call makes the attributes.
    unsafe {
        let attr = if attr.is_null() {
            libc::pthread_attr_init(default.as_mut_ptr());
            default.as_ptr()
        } else {
            attr
        };
        libc::pthread_attr_getstacksize(attr, &raw mut bytes);
        pthread_attr_getdetachstate(attr, &raw mut state);
    }
    (bytes, state == libc::PTHREAD_CREATE_DETACHED)
}

/// Starts a green thread with this record, which runs `run`: in the caller's simulation, or else in the
/// default runtime. The first OS thread waits for the end of the first one.
pub(super) fn begin(
    record: &Reference,
    is_first: bool,
    stack_bytes: usize,
    run: impl FnOnce() -> *mut c_void + Send + 'static,
) -> io::Result<()> {
    let simulated = is_in_simulation();
    let sched = if simulated { None } else { Some((host().default_sched)()?) };
    let at = sched.map_or(Where::Here(in_no_runtime), Where::In);
    let usual = sched.map_or(0, |sched| sched.config().stack_bytes);
    let stack_bytes = (stack_bytes > usual).then_some(stack_bytes);
    let spec = Spec { name: None, stack_bytes, place: Location::caller() };
    let (own, ends) = (Own(ptr::from_ref(&**record)), Ends { record: record.clone(), is_first });
    // The new thread is counted before it can end.
    masks::common::begins(record.mask());
    // SAFETY: the closure borrows the record alone, to which `ends` has a reference until after it.
    let started = unsafe { sched::spawn::closure(at, spec, move || live(own.get(), run), ends) };
    match started {
        Ok(_) => Ok(()),
        Err(error) => {
            masks::common::ends(record.mask());
            Err(error)
        }
    }
}

fn in_no_runtime() -> io::Result<Arc<Sched>> {
    Err(io::Error::other("a green thread of a simulation has left it"))
}

/// Runs the thread. *Runs on: the green thread.*
fn live(record: &Record, run: impl FnOnce() -> *mut c_void) {
    set_own(record);
    masks::begin(record);
    record.begin(GHandle::current());
    if let Some(stack) = foreign::own_stack() {
        record.set_stack(stack);
    }
    record.set_result(match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(payload) => match payload.downcast::<Exit>() {
            Ok(exit) => exit.0,
            // The code has called `cancel` of this crate.
            Err(payload) if payload.is::<Cancelled>() => ptr::null_mut(),
            Err(_) => {
                eprintln!("runtime: a panic leaves the first function of a thread");
                process::abort();
            }
        },
    });
    end_if_forked(0);
}

/// Ends the process if it is a forked child: it has no other thread, so the end of this one is its end.
pub(super) fn end_if_forked(code: c_int) {
    if fork::is_forked() {
        // SAFETY: the process has only this thread.
        unsafe { libc::exit(code) }
    }
}

/// The end of a thread, after the destructors of its thread-locals and keys.
struct Ends {
    record: Reference,
    is_first: bool,
}

impl After for Ends {
    fn ended(self, _panicked: bool) {
        let mask = self.record.mask();
        os_thread::give_back(&self.record);
        // A joiner may free the record from here on.
        set_own(ptr::null());
        self.record.end();
        if masks::common::ends(mask) || self.is_first {
            masks::common::look();
        }
    }
}

/// libc's `pthread_exit`: unwinds a green thread to its first function.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn exit(result: *mut c_void) -> ! {
    match record::own() {
        Some(record) => cancel::unwind(record, result),
        // SAFETY: the caller's argument.
        None => unsafe { pthread_exit()(result) },
    }
}
