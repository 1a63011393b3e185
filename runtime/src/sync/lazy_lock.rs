//! `LazyLock`, with std's API.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::once_lock::OnceLock;

/// A value that is made when it is first used, once; all others wait until it is there.
///
/// It is std's `LazyLock`. If the closure unwinds, by a panic or a cancellation of its green thread, the value is poisoned:
/// every later use panics.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits for another's closure unwinds; the closure goes on.
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
    /// For the one who makes the value.
    init: Cell<Option<F>>,
}

// SAFETY: the closure is taken by the one who makes the value, of whom there is one at a time; it may be another thread than
// the one that wrote it, so it is Send.
unsafe impl<T: Sync + Send, F: Send> Sync for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `f` makes.
    ///
    /// ```
    /// assert_eq!(*runtime::sync::LazyLock::new(|| 1 + 1), 2);
    /// ```
    #[inline]
    pub const fn new(f: F) -> LazyLock<T, F> {
        LazyLock { value: OnceLock::new(), init: Cell::new(Some(f)) }
    }

    /// The value, made now if need be.
    ///
    /// # Panics
    ///
    /// If the closure does, or did.
    ///
    /// ```
    /// use runtime::sync::LazyLock;
    /// assert_eq!(LazyLock::force(&LazyLock::new(|| 7)), &7);
    /// ```
    #[inline]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.value.get_or_init(|| match this.init.take() {
            Some(f) => f(),
            None => panic!("LazyLock instance has previously been poisoned"),
        })
    }

    /// Likewise, to be changed.
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
        this.value.get_mut().expect("it was made")
    }
}

impl<T, F> LazyLock<T, F> {
    /// The value, if it has been made.
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

    /// Likewise, to be changed.
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
