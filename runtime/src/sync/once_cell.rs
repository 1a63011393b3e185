//! `OnceCell`: a value that is made once, by a closure or a future. The API is that of tokio.

use std::error::Error;
use std::fmt;

use sched::budget;

use super::{OnceLock, Semaphore, SemaphorePermit, TryAcquireError};

/// A value that is made once, when it is first needed, by a closure that may park or by a future.
///
/// It has the API of `tokio::sync::OnceCell`. [`get_or_init`](Self::get_or_init) and
/// [`get_or_try_init`](Self::get_or_try_init) take a closure and park their caller while another thread makes
/// the value. [`get_or_init_async`](Self::get_or_init_async) and
/// [`get_or_try_init_async`](Self::get_or_try_init_async) take a closure that returns a future, and are
/// awaited. All of them may be used for the same cell.
///
/// [`OnceLock`] is the same without futures and without errors.
///
/// # Cancellation
///
/// The closure or future that makes the value may end without a value: it fails, panics, is cancelled or
/// dropped. Then the next waiter makes the value. A green thread that is cancelled while it waits, or whose
/// [`timeout`](crate::time::timeout) is over, unwinds.
///
/// ```
/// use runtime::sync::OnceCell;
///
/// static CONFIG: OnceCell<String> = OnceCell::const_new();
///
/// async fn load() -> String {
///     String::from("loaded")
/// }
///
/// let future = runtime::spawn(async { CONFIG.get_or_init_async(load).await.len() });
/// assert_eq!(CONFIG.get_or_init(|| String::from("loaded")).len(), future.join().unwrap());
/// ```
pub struct OnceCell<T> {
    value: OnceLock<T>,
    /// The permit to make the value. Closed once the value is there.
    turn: Semaphore,
}

impl<T> OnceCell<T> {
    /// Returns a cell without a value.
    ///
    /// ```
    /// assert!(!runtime::sync::OnceCell::<u32>::new().initialized());
    /// ```
    pub fn new() -> Self {
        OnceCell::const_new()
    }

    /// Returns a cell without a value, for statics.
    ///
    /// ```
    /// static CELL: runtime::sync::OnceCell<u32> = runtime::sync::OnceCell::const_new();
    /// assert_eq!(CELL.get(), None);
    /// ```
    pub const fn const_new() -> Self {
        OnceCell { value: OnceLock::new(), turn: Semaphore::const_new(1) }
    }

    /// Returns a cell with the value, or without one for `None`.
    ///
    /// ```
    /// assert_eq!(runtime::sync::OnceCell::new_with(Some(1)).get(), Some(&1));
    /// ```
    pub fn new_with(value: Option<T>) -> Self {
        match value {
            Some(value) => OnceCell::const_new_with(value),
            None => OnceCell::const_new(),
        }
    }

    /// Returns a cell with the value, for statics.
    ///
    /// ```
    /// static CELL: runtime::sync::OnceCell<u32> = runtime::sync::OnceCell::const_new_with(1);
    /// assert_eq!(CELL.get(), Some(&1));
    /// ```
    pub const fn const_new_with(value: T) -> Self {
        OnceCell { value: OnceLock::with(value), turn: Semaphore::const_new(1) }
    }

    /// Returns `true` if there is a value.
    ///
    /// ```
    /// assert!(runtime::sync::OnceCell::from(1).initialized());
    /// ```
    pub fn initialized(&self) -> bool {
        self.get().is_some()
    }

    /// Returns the value, or `None` if there is none. Never waits.
    ///
    /// ```
    /// assert_eq!(runtime::sync::OnceCell::from(1).get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        crate::point();
        self.value.get()
    }

    /// Returns the value for changing it, or `None` if there is none.
    ///
    /// ```
    /// let mut cell = runtime::sync::OnceCell::from(1);
    /// *cell.get_mut().unwrap() += 1;
    /// assert_eq!(cell.get(), Some(&2));
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Writes the value. Never waits.
    ///
    /// # Errors
    ///
    /// Returns `value` if there is a value already, or if another thread is making one.
    ///
    /// ```
    /// let cell = runtime::sync::OnceCell::new();
    /// assert_eq!(cell.set(1), Ok(()));
    /// assert!(cell.set(2).unwrap_err().is_already_init_err());
    /// ```
    pub fn set(&self, value: T) -> Result<(), SetError<T>> {
        crate::point();
        if self.initialized() {
            return Err(SetError::AlreadyInitializedError(value));
        }
        match self.turn.try_acquire() {
            Ok(turn) if self.initialized() => {
                drop(turn);
                Err(SetError::AlreadyInitializedError(value))
            }
            Ok(turn) => {
                self.write(turn, value);
                Ok(())
            }
            Err(TryAcquireError::NoPermits) => Err(SetError::InitializingError(value)),
            Err(TryAcquireError::Closed) => Err(SetError::AlreadyInitializedError(value)),
        }
    }

    /// Returns the value. If there is none, writes what `init` returns. If another thread is making one,
    /// waits for that.
    ///
    /// # Panics
    ///
    /// Panics if `init` panics. If `init` uses this cell, it waits for ever.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// let cell = runtime::sync::OnceCell::new();
    /// assert_eq!(cell.get_or_init(|| 1), cell.get_or_init(|| 2));
    /// ```
    #[inline]
    pub fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        crate::point();
        if let Some(value) = self.get() {
            return value;
        }
        let Ok(turn) = self.turn.acquire() else { return self.made() };
        match self.get() {
            Some(value) => value,
            None => self.write(turn, init()),
        }
    }

    /// Returns the value. If there is none, writes what `init` returns. If another thread is making one,
    /// waits for that.
    ///
    /// # Errors
    ///
    /// Returns the error of `init`. There is no value then, and the next caller runs its own closure.
    ///
    /// # Panics
    ///
    /// Panics if `init` panics. If `init` uses this cell, it waits for ever.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// let cell = runtime::sync::OnceCell::new();
    /// assert_eq!(cell.get_or_try_init(|| "x".parse::<i32>()).ok(), None);
    /// assert_eq!(cell.get_or_try_init(|| "1".parse::<i32>()).ok(), Some(&1));
    /// ```
    #[inline]
    pub fn get_or_try_init<E>(&self, init: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        crate::point();
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let Ok(turn) = self.turn.acquire() else { return Ok(self.made()) };
        if let Some(value) = self.get() {
            return Ok(value);
        }
        Ok(self.write(turn, init()?))
    }

    /// Returns the value, in a future. If there is none, writes the output of the future that `init` returns.
    /// If another thread is making one, waits for that.
    ///
    /// # Panics
    ///
    /// Panics if `init` or its future panics. If they use this cell, they wait for ever.
    ///
    /// ```
    /// let cell = runtime::sync::OnceCell::new();
    /// assert_eq!(runtime::block_on(cell.get_or_init_async(|| async { 1 })), &1);
    /// ```
    pub async fn get_or_init_async<F, Fut>(&self, init: F) -> &T
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        if let Some(value) = self.get() {
            budget::consume().await;
            return value;
        }
        let Ok(turn) = self.turn.acquire_async().await else { return self.made() };
        if let Some(value) = self.get() {
            return value;
        }
        let value = init().await;
        self.write(turn, value)
    }

    /// Returns the value, in a future. If there is none, writes the output of the future that `init` returns.
    /// If another thread is making one, waits for that.
    ///
    /// # Errors
    ///
    /// Returns the error of the future. There is no value then, and the next caller runs its own closure.
    ///
    /// # Panics
    ///
    /// Panics if `init` or its future panics. If they use this cell, they wait for ever.
    ///
    /// ```
    /// let cell = runtime::sync::OnceCell::new();
    /// runtime::block_on(async {
    ///     assert_eq!(cell.get_or_try_init_async(|| async { Err("no") }).await, Err("no"));
    ///     assert_eq!(cell.get_or_try_init_async(|| async { Ok::<_, &str>(1) }).await, Ok(&1));
    /// });
    /// ```
    pub async fn get_or_try_init_async<E, F, Fut>(&self, init: F) -> Result<&T, E>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        if let Some(value) = self.get() {
            budget::consume().await;
            return Ok(value);
        }
        let Ok(turn) = self.turn.acquire_async().await else { return Ok(self.made()) };
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let value = init().await?;
        Ok(self.write(turn, value))
    }

    /// Returns the value and drops the cell.
    ///
    /// ```
    /// assert_eq!(runtime::sync::OnceCell::from(1).into_inner(), Some(1));
    /// ```
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Takes the value out. The cell has none afterwards.
    ///
    /// ```
    /// let mut cell = runtime::sync::OnceCell::from(1);
    /// assert_eq!((cell.take(), cell.initialized()), (Some(1), false));
    /// ```
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }

    /// Writes the value, and ends all waits for the turn. *Runs on: the thread that has the turn.*
    fn write(&self, turn: SemaphorePermit<'_>, value: T) -> &T {
        let written = self.value.set(value);
        debug_assert!(written.is_ok(), "the turn is given to one thread, and not after the value is there");
        self.turn.close();
        drop(turn);
        self.made()
    }

    fn made(&self) -> &T {
        self.get().expect("the turn is closed after the value is written")
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        OnceCell::new()
    }
}

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> Self {
        OnceCell::const_new_with(value)
    }
}

impl<T: Clone> Clone for OnceCell<T> {
    fn clone(&self) -> Self {
        OnceCell::new_with(self.get().cloned())
    }
}

impl<T: PartialEq> PartialEq for OnceCell<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceCell<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceCell").field("value", &self.get()).finish()
    }
}

/// The error of [`OnceCell::set`]. It has the value that was not written.
///
/// ```
/// let cell = runtime::sync::OnceCell::from(1);
/// assert_eq!(cell.set(2).unwrap_err().to_string(), "AlreadyInitializedError");
/// ```
#[derive(Debug, PartialEq, Eq)]
pub enum SetError<T> {
    /// There is a value already.
    AlreadyInitializedError(T),
    /// Another thread is making the value.
    InitializingError(T),
}

impl<T> SetError<T> {
    /// Returns `true` if there was a value already.
    ///
    /// ```
    /// assert!(runtime::sync::OnceCell::from(1).set(2).unwrap_err().is_already_init_err());
    /// ```
    pub fn is_already_init_err(&self) -> bool {
        matches!(self, SetError::AlreadyInitializedError(_))
    }

    /// Returns `true` if another thread was making the value.
    ///
    /// ```
    /// let cell = runtime::sync::OnceCell::new();
    /// cell.get_or_init(|| {
    ///     assert!(cell.set(2).unwrap_err().is_initializing_err());
    ///     1
    /// });
    /// ```
    pub fn is_initializing_err(&self) -> bool {
        matches!(self, SetError::InitializingError(_))
    }
}

impl<T> fmt::Display for SetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SetError::AlreadyInitializedError(_) => "AlreadyInitializedError",
            SetError::InitializingError(_) => "InitializingError",
        })
    }
}

impl<T: fmt::Debug> Error for SetError<T> {}
