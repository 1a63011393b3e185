//! Atomics on loom's, with the interface of std's.
//!
//! - *SeqCst is a total order.* loom takes a SeqCst access for Acquire and Release, so two fences stand
//!   around it. A step that std's atomics order less strictly has no fence, and loom tries its other orders.
//! - *A pointer to the value is the address of the atomic*, and leads back to it. Two types of one size in
//!   memory, as the halves of a word, have one representation.
//! - *A word may go.* An access to a word that is gone fails the model. loom tries both orders of two steps
//!   only where both change one atomic. So in models in which a word goes, each access takes a turn first.

use std::cell::Cell;
use std::marker::PhantomData;

pub use loom::sync::atomic::fence;
use std::sync::atomic::AtomicBool as Flag;
pub use std::sync::atomic::Ordering;

pub type AtomicU8 = Atomic<u8>;
pub type AtomicU32 = Atomic<u32>;
pub type AtomicU64 = Atomic<u64>;
pub type AtomicUsize = Atomic<usize>;
pub type AtomicBool = Atomic<bool>;
pub type AtomicPtr<T> = Atomic<*mut T>;

std::thread_local! {
    /// True while this thread explores a model in which words go.
    static WORDS_GO: Cell<bool> = const { Cell::new(false) };
}

loom::lazy_static! {
    static ref TURNS: loom::sync::atomic::AtomicUsize = loom::sync::atomic::AtomicUsize::new(0);
}

/// Runs `explores` with a turn before each access, if `words_go`.
pub(crate) fn with_turns(words_go: bool, explores: impl FnOnce()) {
    WORDS_GO.set(words_go);
    explores();
    WORDS_GO.set(false);
}

fn take_turn() {
    if WORDS_GO.get() {
        // Relaxed: the turn must order nothing.
        TURNS.fetch_add(1, Ordering::Relaxed);
    }
}

/// An atomic of any type.
#[repr(C)]
#[derive(Debug)]
pub struct Atomic<T> {
    value: loom::sync::atomic::AtomicU64,
    is_gone: Flag,
    of: PhantomData<T>,
}

// SAFETY: the value is loom's atomic; nothing of type `T` is shared.
unsafe impl<T> Sync for Atomic<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Atomic<T> {}

/// A type of values.
pub trait Value: Copy {
    fn bits(self) -> u64;
    fn of(bits: u64) -> Self;
}

macro_rules! values {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn bits(self) -> u64 {
                self as u64
            }

            fn of(bits: u64) -> Self {
                bits as Self
            }
        }
    )*};
}
values!(u8, u32, u64, usize);

impl Value for bool {
    fn bits(self) -> u64 {
        self.into()
    }

    fn of(bits: u64) -> Self {
        bits != 0
    }
}

impl<T> Value for *mut T {
    fn bits(self) -> u64 {
        self.expose_provenance() as u64
    }

    fn of(bits: u64) -> Self {
        std::ptr::with_exposed_provenance_mut(bits as usize)
    }
}

impl<T: Value> Atomic<T> {
    pub fn new(value: T) -> Self {
        let value = loom::sync::atomic::AtomicU64::new(value.bits());
        Atomic { value, is_gone: Flag::new(false), of: PhantomData }
    }

    /// # Safety
    /// The pointer is that of an atomic, which lives.
    pub unsafe fn from_ptr<'a>(pointer: *mut T) -> &'a Self {
        // SAFETY: `as_ptr` made it from an atomic, and all have one representation.
        unsafe { &*pointer.cast() }
    }

    pub fn as_ptr(&self) -> *mut T {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Frees the word: no thread may use it afterwards. The bytes stay, so that a model can notice that.
    pub fn go(&self) {
        take_turn();
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// Fails the model if an access of another thread is not ordered before this.
    pub fn last_use(&mut self) {
        self.value.with_mut(|_| ());
    }

    fn access<R>(&self, order: Ordering, access: impl FnOnce(&loom::sync::atomic::AtomicU64) -> R) -> R {
        let fence = || {
            if order == Ordering::SeqCst {
                fence(Ordering::SeqCst);
            }
        };
        take_turn();
        fence();
        let result = access(&self.value);
        fence();
        assert!(!self.is_gone.load(Ordering::Relaxed), "this word is gone");
        result
    }

    pub fn load(&self, order: Ordering) -> T {
        T::of(self.access(order, |value| value.load(order)))
    }

    pub fn store(&self, to: T, order: Ordering) {
        self.access(order, |value| value.store(to.bits(), order));
    }

    pub fn swap(&self, to: T, order: Ordering) -> T {
        T::of(self.access(order, |value| value.swap(to.bits(), order)))
    }

    pub fn compare_exchange(&self, from: T, to: T, order: Ordering, failed: Ordering) -> Result<T, T> {
        self.access(order, |value| value.compare_exchange(from.bits(), to.bits(), order, failed))
            .map(T::of)
            .map_err(T::of)
    }

    pub fn fetch_add(&self, by: T, order: Ordering) -> T {
        T::of(self.access(order, |value| value.fetch_add(by.bits(), order)))
    }

    pub fn fetch_sub(&self, by: T, order: Ordering) -> T {
        T::of(self.access(order, |value| value.fetch_sub(by.bits(), order)))
    }

    pub fn fetch_or(&self, bits: T, order: Ordering) -> T {
        T::of(self.access(order, |value| value.fetch_or(bits.bits(), order)))
    }

    pub fn fetch_and(&self, bits: T, order: Ordering) -> T {
        T::of(self.access(order, |value| value.fetch_and(bits.bits(), order)))
    }

    pub fn fetch_update(
        &self,
        order: Ordering,
        load: Ordering,
        mut f: impl FnMut(T) -> Option<T>,
    ) -> Result<T, T> {
        let mut seen = self.load(load);
        while let Some(next) = f(seen) {
            match self.compare_exchange(seen, next, order, load) {
                Ok(before) => return Ok(before),
                Err(now) => seen = now,
            }
        }
        Err(seen)
    }
}

impl<T> Default for Atomic<*mut T> {
    fn default() -> Self {
        Atomic::new(std::ptr::null_mut())
    }
}
