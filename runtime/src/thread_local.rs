//! `thread_local!` and `LocalKey`: variables of which each green thread has its own value.

mod task_local;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr;
use std::rc::Rc;

pub use task_local::{TaskLocal, TaskLocalError, TaskLocalFuture};

/// Declares variables of which each thread, green or not, has its own value. The syntax is that of
/// `std::thread_local!`.
///
/// A value is made when its thread first uses it, and dropped when that thread ends. A value belongs to the
/// green thread on whatever OS thread that runs, so it may be used across calls that park. (A variable of
/// std's belongs to the OS thread: see [moving](crate::docs::moving).)
///
/// A destructor of a value may call anything, and may wait. It may use further keys. Their values are then
/// dropped after it.
///
/// ```
/// use std::cell::Cell;
/// use std::time::Duration;
///
/// runtime::thread_local! {
///     static HITS: Cell<u32> = const { Cell::new(0) };
///     static NAME: String = format!("{:?}", runtime::thread::current().id());
/// }
///
/// runtime::block_on(|| {
///     HITS.set(1);
///     runtime::spawn(|| assert_eq!(HITS.get(), 0)).join().unwrap();
///     runtime::sleep(Duration::from_millis(1));
///     assert_eq!(HITS.get(), 1);
///     NAME.with(|name| assert!(!name.is_empty()));
/// });
/// ```
///
/// # Inherited values
///
/// With `#[inherit]` as its first attribute, a green thread begins with a clone of its spawner's value. The
/// type must be `Clone` and `Send`. The clone is made during the spawn, if the spawner, green or plain, has a
/// value by then. Later changes of one value do not change the other. A spawn panics if the `clone` panics,
/// as that of a `RefCell` does while it is borrowed mutably. Functions of timers inherit nothing.
///
/// ```
/// use std::cell::{Cell, RefCell};
///
/// runtime::thread_local! {
///     #[inherit]
///     static TENANT: RefCell<String> = RefCell::default();
///     static ANOTHER: Cell<u32> = const { Cell::new(0) };
/// }
///
/// TENANT.set("blue".into());
/// ANOTHER.set(7);
/// runtime::block_on(|| {
///     assert_eq!((TENANT.take().as_str(), ANOTHER.get()), ("blue", 0));
/// });
/// assert_eq!(TENANT.take(), "blue");
/// ```
#[macro_export]
macro_rules! thread_local {
    () => {};
    (#[inherit] $(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = const $init:block $(; $($rest:tt)*)?) => {
        $(#[$attr])* $vis static $name: $crate::thread::LocalKey<$t> =
            $crate::thread::LocalKey::new(|| const $init).inherited();
        $crate::thread_local!($($($rest)*)?);
    };
    (#[inherit] $(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$attr])* $vis static $name: $crate::thread::LocalKey<$t> = $crate::thread::LocalKey::new(|| $init).inherited();
        $crate::thread_local!($($($rest)*)?);
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = const $init:block; $($rest:tt)*) => {
        $crate::thread_local!($(#[$attr])* $vis static $name: $t = const $init);
        $crate::thread_local!($($rest)*);
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = const $init:block) => {
        $(#[$attr])* $vis static $name: $crate::thread::LocalKey<$t> = $crate::thread::LocalKey::new(|| const $init);
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = $init:expr; $($rest:tt)*) => {
        $crate::thread_local!($(#[$attr])* $vis static $name: $t = $init);
        $crate::thread_local!($($rest)*);
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = $init:expr) => {
        $(#[$attr])* $vis static $name: $crate::thread::LocalKey<$t> = $crate::thread::LocalKey::new(|| $init);
    };
}

/// The key of a variable that [`thread_local!`](macro@crate::thread_local) declares. It has the methods of
/// `std::thread::LocalKey`.
///
/// ```
/// runtime::thread_local!(static WORDS: std::cell::RefCell<Vec<u32>> = Default::default());
/// WORDS.with_borrow_mut(|words| words.push(7));
/// assert_eq!(WORDS.take(), [7]);
/// ```
pub struct LocalKey<T: 'static> {
    // Not a zero-sized type, so that no two keys have the same address.
    init: fn() -> T,
    /// Makes the value of a child, if children inherit this key's value.
    copy: Option<sched::locals::Copy>,
}

impl<T: Clone + Send + 'static> LocalKey<T> {
    /// For the macro only.
    #[doc(hidden)]
    pub const fn inherited(self) -> Self {
        LocalKey { init: self.init, copy: Some(copy::<T>) }
    }
}

/// Returns a copy of a value of type `T` for a child.
fn copy<T: Clone + Send + 'static>(value: &dyn Any) -> Rc<dyn Any> {
    let value: &T = value.downcast_ref().expect("a key has one type");
    Rc::new(value.clone())
}

impl<T: 'static> LocalKey<T> {
    /// For the macro only.
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> Self {
        LocalKey { init, copy: None }
    }

    /// Calls `f` with the calling thread's value and returns what `f` returns. The value is made if this is
    /// the first use.
    ///
    /// # Panics
    ///
    /// Panics if the value has been dropped, because its thread is ending.
    ///
    /// ```
    /// runtime::thread_local!(static ID: u32 = 7);
    /// assert_eq!(ID.with(|id| *id), 7);
    /// ```
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.try_with(f).expect("cannot access a thread-local value during or after its destruction")
    }

    /// Calls `f` with the calling thread's value and returns what `f` returns. The value is made if this is
    /// the first use.
    ///
    /// # Errors
    ///
    /// Returns [`AccessError`] if the value has been dropped, because its thread is ending.
    ///
    /// ```
    /// runtime::thread_local!(static ID: u32 = 7);
    /// assert_eq!(ID.try_with(|id| *id), Ok(7));
    /// ```
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        // `get` returns a counted reference: `f` may park, and may end its thread's use of the key.
        let key = ptr::from_ref(self).addr();
        let value = sched::locals::get(key, self.init, self.copy).map_err(|_| AccessError(()))?;
        Ok(f(&value))
    }
}

impl<T: 'static> LocalKey<Cell<T>> {
    /// Sets the value.
    ///
    /// ```
    /// runtime::thread_local!(static N: std::cell::Cell<u32> = const { std::cell::Cell::new(1) });
    /// N.set(2);
    /// assert_eq!(N.replace(3), 2);
    /// assert_eq!((N.get(), N.take(), N.get()), (3, 3, 0));
    /// ```
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    /// Returns a copy of the value; example at [`set`](Self::set).
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Takes the value and leaves the default value; example at [`set`](Self::set).
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// Sets the value and returns the old one; example at [`set`](Self::set).
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> LocalKey<RefCell<T>> {
    /// Calls `f` with a shared borrow of the value and returns what `f` returns.
    ///
    /// # Panics
    ///
    /// Panics if the value is borrowed mutably.
    ///
    /// ```
    /// use std::cell::RefCell;
    /// runtime::thread_local!(static WORDS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });
    /// WORDS.set(vec![1]);
    /// WORDS.with_borrow_mut(|words| words.push(2));
    /// assert_eq!(WORDS.with_borrow(|words| words.len()), 2);
    /// assert_eq!(WORDS.replace(vec![]), [1, 2]);
    /// assert!(WORDS.take().is_empty());
    /// ```
    pub fn with_borrow<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| f(&cell.borrow()))
    }

    /// Calls `f` with a mutable borrow of the value and returns what `f` returns; example at
    /// [`with_borrow`](Self::with_borrow).
    ///
    /// # Panics
    ///
    /// Panics if the value is borrowed.
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }

    /// Sets the value; example at [`with_borrow`](Self::with_borrow).
    ///
    /// # Panics
    ///
    /// Panics if the value is borrowed.
    pub fn set(&'static self, value: T) {
        self.with(|cell| *cell.borrow_mut() = value);
    }

    /// Takes the value and leaves the default value; example at [`with_borrow`](Self::with_borrow).
    ///
    /// # Panics
    ///
    /// Panics if the value is borrowed.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(RefCell::take)
    }

    /// Sets the value and returns the old one; example at [`with_borrow`](Self::with_borrow).
    ///
    /// # Panics
    ///
    /// Panics if the value is borrowed.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

/// The error of [`LocalKey::try_with`]: the value has been dropped, because its thread is ending.
///
/// ```
/// runtime::thread_local!(static ID: u32 = 7);
/// let answer: Result<u32, runtime::thread::AccessError> = ID.try_with(|id| *id);
/// assert!(answer.is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError(());

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread-local value has been destroyed")
    }
}

impl std::error::Error for AccessError {}
