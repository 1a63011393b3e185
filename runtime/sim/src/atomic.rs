//! Atomics for simulations: each access is a point of choice, so that a simulation also orders the accesses
//! of green threads.
//!
//! They have the names and functions of `std::sync::atomic`. Outside of a simulation they are std's. In a
//! simulation every access is sequentially consistent.
//!
//! ```
//! # runtime::sim!();
//! use runtime::sim::atomic::{AtomicUsize, Ordering::Relaxed};
//! use std::sync::Arc;
//!
//! let lost = runtime::sim::Builder::new().try_explore(1000, || {
//!     let count = Arc::new(AtomicUsize::new(0));
//!     let threads: Vec<_> = (0..2)
//!         .map(|_| {
//!             let count = count.clone();
//!             runtime::spawn(move || count.store(count.load(Relaxed) + 1, Relaxed))
//!         })
//!         .collect();
//!     threads.into_iter().for_each(|thread| thread.join().unwrap());
//!     assert_eq!(count.load(Relaxed), 2);
//! });
//! assert!(lost.is_err());
//! ```

use std::sync::atomic as std_atomic;

pub use std::sync::atomic::Ordering;

use sched::simulation::point;

/// A fence, which is a point of choice.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::atomic::fence(runtime::sim::atomic::Ordering::SeqCst);
/// ```
pub fn fence(order: Ordering) {
    point();
    std_atomic::fence(order);
}

macro_rules! common {
    ($name:ident, $value:ty, $first:literal, $other:literal) => {
        #[doc = concat!("As [`std::sync::atomic::", stringify!($name), "`]; each access is a point of choice.")]
        ///
        /// ```
        /// # runtime::sim!();
        #[doc = concat!("use runtime::sim::atomic::{", stringify!($name), ", Ordering::SeqCst};")]
        #[doc = concat!("let value = ", stringify!($name), "::new(", $first, ");")]
        #[doc = concat!("assert_eq!(value.swap(", $other, ", SeqCst), ", $first, ");")]
        #[doc = concat!("assert_eq!(value.into_inner(), ", $other, ");")]
        /// ```
        #[derive(Debug, Default)]
        pub struct $name(std_atomic::$name);

        impl $name {
            /// As std's function of this name.
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(std_atomic::$name::new(value))
            }

            /// As std's function of this name.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// As std's function of this name.
            #[must_use]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            /// As std's function of this name.
            pub fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            /// As std's function of this name.
            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            /// As std's function of this name.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            /// As std's function of this name.
            ///
            /// # Errors
            /// Returns the value if it was not `current`.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As std's function of this name, but it does not fail without reason.
            ///
            /// # Errors
            /// Returns the value if it was not `current`.
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// As std's function of this name.
            ///
            /// # Errors
            /// Returns the value if `f` returned `None`.
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                point();
                self.0.fetch_update(set, fetch, f)
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    };
}

macro_rules! accesses {
    ($name:ident, $value:ty, $($function:ident)*) => {
        impl $name {$(
            /// As std's function of this name.
            pub fn $function(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.$function(value, order)
            }
        )*}
    };
}

macro_rules! integers {
    ($($name:ident $value:ident,)*) => {$(
        common!($name, $value, "1", "2");
        accesses!($name, $value, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
    )*};
}

common!(AtomicBool, bool, "false", "true");
accesses!(AtomicBool, bool, fetch_and fetch_or fetch_xor);
integers! {
    AtomicU8 u8,
    AtomicU16 u16,
    AtomicU32 u32,
    AtomicU64 u64,
    AtomicUsize usize,
    AtomicI8 i8,
    AtomicI16 i16,
    AtomicI32 i32,
    AtomicI64 i64,
    AtomicIsize isize,
}
