//! The numbers of the registered descriptors. kqueue takes a second registration of a descriptor without an
//! error, and reports to that one alone from then on: the waiters of the first would wait for ever. So the
//! netpoller itself refuses the second. Other systems do that themselves, and nothing is noted there.

/// True on the systems with kqueue, and for its model.
macro_rules! on_kqueue {
    ($($item:item)*) => { $(
        #[cfg(any(kqueue_model, all(unix, not(any(target_os = "linux", target_os = "android")))))]
        $item
    )* };
}

macro_rules! elsewhere {
    ($($item:item)*) => { $(
        #[cfg(not(any(kqueue_model, all(unix, not(any(target_os = "linux", target_os = "android"))))))]
        $item
    )* };
}

on_kqueue! {
    use std::collections::HashSet;
    use std::io;
    use std::sync::atomic::{AtomicI64, Ordering};

    use parking_lot::Mutex;

    /// The numbers of all descriptors of a poller. The lock is the last that its holder takes.
    #[derive(Default)]
    pub(crate) struct Numbers(Mutex<HashSet<i64>>);

    /// The number of one registration, or -1 when it is not noted.
    pub(crate) struct Number(AtomicI64);

    impl Numbers {
        /// Notes a number, unless it is less than zero.
        ///
        /// # Errors
        /// `AlreadyExists` if it is noted.
        pub(crate) fn note(&self, number: i64) -> io::Result<Number> {
            if number >= 0 && !self.0.lock().insert(number) {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "this descriptor is registered already; duplicate it to register it twice",
                ));
            }
            Ok(Number(AtomicI64::new(number)))
        }

        /// Forgets the number, if it is still noted: before the descriptor is closed, because the system then
        /// gives the number to another. *Runs on: the owner of the registration.*
        pub(crate) fn forget(&self, number: &Number) {
            // Relaxed: the owner alone calls this, and the lock orders the removal before the next note.
            let number = number.0.swap(-1, Ordering::Relaxed);
            if number >= 0 {
                self.0.lock().remove(&number);
            }
        }
    }
}

elsewhere! {
    use std::io;

    /// Nothing: the system refuses a second registration.
    #[derive(Default)]
    pub(crate) struct Numbers(());

    /// Nothing.
    pub(crate) struct Number;

    impl Numbers {
        #[inline(always)]
        pub(crate) fn note(&self, _number: i64) -> io::Result<Number> {
            Ok(Number)
        }

        #[inline(always)]
        pub(crate) fn forget(&self, _number: &Number) {}
    }
}
