//! Code in which nothing from outside ends a wait (`g/mask.rs`). It is for the user, and for code of the user
//! that the runtime calls on behalf of a thread.

use crate::g::mask::Mask;
use crate::m::current::current_g;
use crate::m::os_thread;
use crate::run::task;

/// Runs `f`. Neither a cancellation, nor a time-out or a revocable stretch around the call, ends a wait in
/// `f`.
pub fn uncancellable<T>(f: impl FnOnce() -> T) -> T {
    // A plain OS thread without a proxy G is in no time-out and in no stretch.
    let _mask = current_g().or_else(os_thread::proxy_g_if_any).map(Mask::begin);
    f()
}

/// Lets nothing from outside end a wait of the calling green thread from now on, or lets it again. Returns
/// `true` if that was so before. For code that says so by two calls, as C does. *Runs on: a green thread, in
/// no mask that begins or ends between the two calls.*
pub fn set_uncancellable(on: bool) -> bool {
    current_g().is_some_and(|g| g.set_masked(on))
}

/// Runs `f`, which is code of the user, uncancellable. Returns `false` if `f` panicked; the panic hook has
/// reported it then. Never unwinds.
pub fn contain(f: impl FnOnce()) -> bool {
    uncancellable(|| task::contain(f))
}

/// Drops a value of the user as [`contain`] runs code.
pub fn drop_contained<T>(value: T) {
    contain(|| drop(value));
}
