//! `UnwindSafe` and `RefUnwindSafe`: each type implements them exactly if the type that it replaces does.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// Reports whether `T` has the two traits: the constants of inherent implementations take precedence over
/// those of `No`.
struct Has<T: ?Sized>(PhantomData<T>);

trait No {
    const BY_VALUE: bool = false;
    const BY_REFERENCE: bool = false;
}

impl<T: ?Sized> No for Has<T> {}

impl<T: ?Sized + UnwindSafe> Has<T> {
    const BY_VALUE: bool = true;
}

impl<T: ?Sized + RefUnwindSafe> Has<T> {
    const BY_REFERENCE: bool = true;
}

macro_rules! same {
    ($($ours:ty = $theirs:ty;)*) => { $(
        assert_eq!(
            (Has::<$ours>::BY_VALUE, Has::<$ours>::BY_REFERENCE),
            (Has::<$theirs>::BY_VALUE, Has::<$theirs>::BY_REFERENCE),
            "{} as {}", stringify!($ours), stringify!($theirs)
        );
    )* };
}

macro_rules! safe {
    ($($ours:ty)*) => { $(
        const { assert!(Has::<$ours>::BY_VALUE && Has::<$ours>::BY_REFERENCE) };
    )* };
}

#[test]
fn types_are_unwind_safe_if_the_replaced_types_are() {
    use runtime::sync;

    same! {
        sync::Mutex<u32> = parking_lot::Mutex<u32>;
        sync::FairMutex<u32> = parking_lot::FairMutex<u32>;
        sync::ReentrantMutex<u32> = parking_lot::ReentrantMutex<u32>;
        sync::RwLock<u32> = parking_lot::RwLock<u32>;
        sync::RecursiveRwLock<u32> = parking_lot::RwLock<u32>;
        sync::Mutex<&'static Cell<u32>> = parking_lot::Mutex<&'static Cell<u32>>;
        sync::RwLock<&'static Cell<u32>> = parking_lot::RwLock<&'static Cell<u32>>;
        sync::Condvar = parking_lot::Condvar;
        sync::Once = parking_lot::Once;
        sync::Barrier = std::sync::Barrier;
        sync::OnceLock<u32> = std::sync::OnceLock<u32>;
        sync::OnceLock<Cell<u32>> = std::sync::OnceLock<Cell<u32>>;
        sync::OnceLock<&'static Cell<u32>> = std::sync::OnceLock<&'static Cell<u32>>;
        sync::LazyLock<u32> = std::sync::LazyLock<u32>;
        sync::LazyLock<Cell<u32>> = std::sync::LazyLock<Cell<u32>>;
        sync::mpsc::Sender<u32> = std::sync::mpsc::Sender<u32>;
        sync::mpsc::SyncSender<u32> = std::sync::mpsc::SyncSender<u32>;
        sync::mpsc::Receiver<u32> = std::sync::mpsc::Receiver<u32>;
        sync::WaitGroup = crossbeam_utils::sync::WaitGroup;
    }
}

#[test]
fn types_without_contents_are_unwind_safe() {
    use runtime::sync;

    safe! {
        sync::RawMutex sync::RawFairMutex sync::RawRwLock sync::RawRwLockRecursive sync::RawCondvar
        sync::Condvar sync::Once sync::Barrier sync::WaitGroup sync::Notify sync::Semaphore
    }
    const { assert!(Has::<sync::Mutex<u32>>::BY_VALUE && Has::<sync::RwLock<u32>>::BY_VALUE) };
}
