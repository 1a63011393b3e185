//! `OnceLock`: a value that is written once. The API is that of std.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use waits::locks::{Once, Stage};

use super::once::run;
use super::wait::wait_or_unwind;

/// A value that is written once. Threads that need it wait until it is written.
///
/// It has the API of `std::sync::OnceLock`. If the closure of `get_or_init` unwinds, by a panic, a
/// cancellation or a time-out, there is no value yet. The next call runs its own closure.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits for another thread's closure unwinds. That closure goes
/// on. A green thread that is cancelled in its own closure unwinds, too: nothing is lost for others, unlike
/// in a [`LazyLock`](super::LazyLock).
///
/// ```
/// use runtime::sync::OnceLock;
///
/// static CONFIG: OnceLock<String> = OnceLock::new();
///
/// let other = runtime::spawn(|| CONFIG.get_or_init(|| "one".to_string()).len());
/// assert_eq!(CONFIG.get_or_init(|| "two".to_string()).len(), other.join().unwrap());
/// ```
pub struct OnceLock<T> {
    once: Once,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: `Once` lets one thread write the value while no thread reads it, and threads read it only when it
// is done. A thread may take or drop a value that another wrote (`T: Send`), and several may read it (`T:
// Sync`).
unsafe impl<T: Sync + Send> Sync for OnceLock<T> {}
// SAFETY: only the value matters: nothing else in it belongs to a thread.
unsafe impl<T: Send> Send for OnceLock<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// Returns a cell without a value.
    ///
    /// ```
    /// assert!(runtime::sync::OnceLock::<u32>::new().get().is_none());
    /// ```
    #[inline]
    pub const fn new() -> OnceLock<T> {
        OnceLock { once: Once::new(Stage::New), value: UnsafeCell::new(None) }
    }

    /// Returns a cell with the value.
    pub(super) const fn with(value: T) -> OnceLock<T> {
        OnceLock { once: Once::new(Stage::Done), value: UnsafeCell::new(Some(value)) }
    }

    /// Returns the value, or `None` if there is none. Never waits.
    ///
    /// ```
    /// assert_eq!(runtime::sync::OnceLock::from(1).get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        crate::point();
        self.written()
    }

    #[inline]
    fn written(&self) -> Option<&T> {
        if self.once.stage() != Stage::Done {
            return None;
        }
        // SAFETY: the `Once` is completed, so no thread writes while this reference exists.
        unsafe { (*self.value.get()).as_ref() }
    }

    /// Returns the value for changing it, or `None` if there is none.
    ///
    /// ```
    /// let mut lock = runtime::sync::OnceLock::from(1);
    /// *lock.get_mut().unwrap() += 1;
    /// assert_eq!(lock.get(), Some(&2));
    /// ```
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    /// Waits until there is a value, and returns it.
    ///
    /// ```
    /// static VALUE: runtime::sync::OnceLock<u32> = runtime::sync::OnceLock::new();
    /// let waits = runtime::spawn(|| *VALUE.wait());
    /// VALUE.set(7).unwrap();
    /// assert_eq!(waits.join().unwrap(), 7);
    /// ```
    pub fn wait(&self) -> &T {
        crate::point();
        if self.once.stage() != Stage::Done {
            wait_or_unwind(|patience| self.once.wait(false, patience));
        }
        self.written().expect("the value is written")
    }

    /// Writes the value. If another thread is making one, waits for that.
    ///
    /// # Errors
    ///
    /// Returns `value` if there is a value already.
    ///
    /// ```
    /// let lock = runtime::sync::OnceLock::new();
    /// assert_eq!(lock.set(1), Ok(()));
    /// assert_eq!(lock.set(2), Err(2));
    /// ```
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("the closure runs once"));
        match value {
            None => Ok(()),
            Some(value) => Err(value),
        }
    }

    /// Returns the value. If there is none, writes what `f` returns. If another thread is making one, waits
    /// for that.
    ///
    /// # Panics
    ///
    /// Panics if `f` panics. If `f` uses this cell, it waits for ever.
    ///
    /// ```
    /// let lock = runtime::sync::OnceLock::new();
    /// assert_eq!(lock.get_or_init(|| 1), lock.get_or_init(|| 2));
    /// ```
    #[inline]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        crate::point();
        if self.once.stage() != Stage::Done {
            self.init(f);
        }
        self.written().expect("the value is written")
    }

    #[cold]
    fn init(&self, f: impl FnOnce() -> T) {
        match wait_or_unwind(|patience| self.once.begin(true, patience)) {
            Stage::New | Stage::Failed => run(&self.once, || {
                let value = f();
                // SAFETY: `Once` has let this thread begin, so no other thread writes, and none reads before
                // the end.
                unsafe { *self.value.get() = Some(value) };
            }),
            Stage::Running | Stage::Done => {}
        }
    }

    /// Returns the value and drops the cell.
    ///
    /// ```
    /// assert_eq!(runtime::sync::OnceLock::from(1).into_inner(), Some(1));
    /// ```
    #[inline]
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Takes the value out. The cell has none afterwards.
    ///
    /// ```
    /// let mut lock = runtime::sync::OnceLock::from(1);
    /// assert_eq!((lock.take(), lock.take()), (Some(1), None));
    /// ```
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("OnceLock");
        match self.written() {
            Some(value) => tuple.field(value),
            None => tuple.field(&format_args!("<uninit>")),
        };
        tuple.finish()
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        self.get().cloned().map_or_else(OnceLock::new, OnceLock::from)
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        OnceLock::with(value)
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &OnceLock<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}
