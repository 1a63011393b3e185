//! A warning in debug builds: a closure has returned a future, and its result was dropped. So it is with
//! `spawn(work)` for an `async fn work`, for which the compiler gives no warning.
//!
//! A result may have any type, so only the name of its type shows that it is a future. A result that is taken
//! is not looked at. A future or a closure that is dropped at once has done nothing.

use std::collections::BTreeSet;
use std::panic::Location;

use crate::sync::Mutex;
use crate::sys::message::write_message;

/// Where such green threads were spawned: there is one line for each place.
static PLACES: Mutex<BTreeSet<&'static Location<'static>>> = Mutex::new(BTreeSet::new());

/// A green thread that was spawned at `place` has returned a `T` that is dropped now. *Runs on: any thread,
/// in user code.*
pub(crate) fn check<T>(place: Option<&'static Location<'static>>) {
    let name = std::any::type_name::<T>();
    if !cfg!(debug_assertions) || !may_be_future(name) {
        return;
    }
    if let Some(place) = place
        && PLACES.lock().insert(place)
    {
        write_message(format_args!(
            "runtime: the closure spawned at {place} has returned a future or a closure, which was dropped and \
             never ran: {name}. To run a future, spawn the future itself: `spawn(work())` for an `async fn work`"
        ));
    }
}

/// Returns `true` for the names of futures of `async` blocks and functions, and of boxed ones. Closures have
/// such names, too.
fn may_be_future(name: &str) -> bool {
    name.ends_with("{{closure}}") || name.contains("dyn core::future::future::Future<")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::any::type_name_of_val;
    use std::pin::Pin;

    use super::*;

    async fn work() {}

    #[test]
    fn futures_are_known_by_name() {
        let boxed: Pin<Box<dyn Future<Output = u32> + Send>> = Box::pin(async { 1 });
        for name in [type_name_of_val(&work()), type_name_of_val(&async { 1 }), type_name_of_val(&boxed)] {
            assert!(may_be_future(name), "{name}");
        }
        assert!(!may_be_future(type_name_of_val(&())) && !may_be_future(type_name_of_val(&vec![1])));
    }
}
