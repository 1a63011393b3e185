//! `Thread` and `ThreadId`: references to threads, green or not.

#![allow(unsafe_code)]

use std::fmt;
use std::num::NonZeroU64;
use std::panic::{RefUnwindSafe, UnwindSafe};

use sched::GHandle;

/// A reference to a thread, green or not: its id, its name, and waking it. It may be kept after the thread's
/// end.
///
/// ```
/// let main = runtime::thread::current();
/// runtime::spawn(move || main.unpark());
/// runtime::thread::park();
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Thread(pub(crate) GHandle);

impl Thread {
    pub(crate) fn from_handle(handle: &GHandle) -> &Thread {
        // SAFETY: `Thread` is `repr(transparent)` over `GHandle`, so both references have the same layout and
        // lifetime.
        unsafe { &*std::ptr::from_ref(handle).cast::<Thread>() }
    }

    /// Returns the thread's id, which no other thread of this process ever has, green or not.
    ///
    /// ```
    /// let (a, b) = (runtime::spawn(|| ()), runtime::spawn(|| ()));
    /// assert_ne!(a.thread().id(), b.thread().id());
    /// ```
    pub fn id(&self) -> ThreadId {
        ThreadId(NonZeroU64::new(id_of(&self.0)).expect("ids begin at 1"))
    }

    /// Returns the thread's name, or `None` if it has none. The name of a plain OS thread is that of `std`.
    ///
    /// ```
    /// assert_eq!(runtime::spawn(|| ()).thread().name(), None);
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Makes the thread's current [`park`](crate::thread::park) return, or its next one. Does nothing if the
    /// thread has ended.
    ///
    /// It may be called anywhere and at any time. It never waits.
    ///
    /// ```
    /// let thread = runtime::spawn(runtime::thread::park);
    /// thread.thread().unpark();
    /// thread.join().unwrap();
    /// ```
    pub fn unpark(&self) {
        crate::point_in_drop();
        self.0.unpark();
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Formats the thread for lines of a log, as dumps do: `'parser'` if it has a name, else its id, such as
/// `green thread 7`. A plain OS thread without a name is `thread 7`.
///
/// ```
/// use runtime::thread::{Builder, current};
/// let parser = Builder::new().name("parser".into()).spawn(|| current().to_string())?;
/// assert_eq!(parser.join().unwrap(), "'parser'");
/// assert!(runtime::block_on(|| current().to_string()).starts_with("green thread "));
/// # std::io::Result::Ok(())
/// ```
impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "'{}'", name.escape_debug()),
            None => write!(f, "{}thread {}", if self.0.is_green() { "green " } else { "" }, id_of(&self.0)),
        }
    }
}

/// Returns the id of a thread as users see it: that of a green thread of a simulation is its number there.
pub(crate) fn id_of(thread: &GHandle) -> u64 {
    sched::simulation::shown(thread.id())
}

/// The id of a thread, green or not. Ids are never used again while the process lives, but each
/// simulation (feature `sim`) numbers its green threads from 1 on.
///
/// ```
/// let id = runtime::thread::current().id();
/// assert_eq!(id, runtime::thread::current().id());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(NonZeroU64);

impl ThreadId {
    /// Returns the id as a number, as [dumps](mod@crate::dump) show it.
    ///
    /// ```
    /// let one = runtime::thread::current().id();
    /// let other = runtime::block_on(|| runtime::thread::current().id());
    /// assert_ne!(one.as_u64(), other.as_u64());
    /// ```
    pub fn as_u64(self) -> NonZeroU64 {
        self.0
    }
}

impl UnwindSafe for Thread {}
impl RefUnwindSafe for Thread {}
