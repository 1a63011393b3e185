//! `LazyLock`: a value that is made at its first use. The API is that of std.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::once_lock::OnceLock;
use crate::thread::uncancellable;

/// A value that is made at its first use. Threads that use it meanwhile wait.
///
/// It has the API of `std::sync::LazyLock`. If the closure panics, every later use panics.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits for another thread's closure unwinds. That closure goes
/// on.
///
/// The closure itself is [`uncancellable`]: neither a cancellation nor a time-out around the first use ends a
/// wait in the closure. After such an end every later use would panic. A [`timeout`](crate::time::timeout) in
/// the closure bounds its waits.
///
/// ```
/// use runtime::sync::LazyLock;
///
/// static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| "a b c".split(' ').collect());
///
/// let other = runtime::spawn(|| WORDS.len());
/// assert_eq!(WORDS.len(), other.join().unwrap());
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    /// Taken by the thread that makes the value.
    init: Cell<Option<F>>,
}

// SAFETY: the closure is taken by the thread that makes the value, of which there is one at a time. It may be
// another thread than the creator, so the closure is `Send`.
unsafe impl<T: Sync + Send, F: Send> Sync for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// Returns a cell whose value `f` makes.
    ///
    /// ```
    /// assert_eq!(*runtime::sync::LazyLock::new(|| 1 + 1), 2);
    /// ```
    #[inline]
    pub const fn new(f: F) -> LazyLock<T, F> {
        LazyLock { value: OnceLock::new(), init: Cell::new(Some(f)) }
    }

    /// Returns the value. Makes it if this is the first use.
    ///
    /// # Panics
    ///
    /// Panics if the closure panics, or has panicked before.
    ///
    /// ```
    /// use runtime::sync::LazyLock;
    /// assert_eq!(LazyLock::force(&LazyLock::new(|| 7)), &7);
    /// ```
    #[inline]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.value.get_or_init(|| match this.init.take() {
            Some(f) => uncancellable(f),
            None => panic!("LazyLock instance has previously been poisoned"),
        })
    }

    /// Returns the value for changing it. Makes it if this is the first use.
    ///
    /// # Panics
    ///
    /// Panics if the closure panics, or has panicked before.
    ///
    /// ```
    /// use runtime::sync::LazyLock;
    /// let mut lazy = LazyLock::new(|| 7);
    /// *LazyLock::force_mut(&mut lazy) += 1;
    /// assert_eq!(*lazy, 8);
    /// ```
    #[inline]
    pub fn force_mut(this: &mut LazyLock<T, F>) -> &mut T {
        LazyLock::force(this);
        this.value.get_mut().expect("the value was made")
    }
}

impl<T, F> LazyLock<T, F> {
    /// Returns the value, or `None` if it has not been made. Never waits.
    ///
    /// ```
    /// use runtime::sync::LazyLock;
    /// let lazy = LazyLock::new(|| 7);
    /// assert_eq!(LazyLock::get(&lazy), None);
    /// assert_eq!((*lazy, LazyLock::get(&lazy)), (7, Some(&7)));
    /// ```
    #[inline]
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        this.value.get()
    }

    /// Returns the value for changing it, or `None` if it has not been made.
    ///
    /// ```
    /// use runtime::sync::LazyLock;
    /// assert_eq!(LazyLock::get_mut(&mut LazyLock::new(|| 7)), None);
    /// ```
    #[inline]
    pub fn get_mut(this: &mut LazyLock<T, F>) -> Option<&mut T> {
        this.value.get_mut()
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        LazyLock::force_mut(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> LazyLock<T> {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("LazyLock");
        match self.value.get() {
            Some(value) => tuple.field(value),
            None => tuple.field(&format_args!("<uninit>")),
        };
        tuple.finish()
    }
}
