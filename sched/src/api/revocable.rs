//! Running code that another thread may end at the call in which it waits: see `g/revocable.rs`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub use crate::g::revocable::Reason;

use crate::api::park::me;
use crate::g::GRef;
use crate::g::revocable::{Revocable, Stretch};
use crate::g::wait::Decision;
use crate::run::wake;

/// The right to end the waits of a stretch of code.
pub struct Revoker<R: ?Sized = dyn Reason> {
    stretch: Arc<Stretch<R>>,
    /// The thread that runs the code. It uses the G only while the stretch is open.
    g: GRef,
}

impl<R: Reason> Revoker<R> {
    /// Ends the wait of the code, and every later one: each unwinds with a payload of the reason. Does
    /// nothing after the end of the code. *Runs on: any thread.*
    pub fn revoke(&self) {
        if self.stretch.state.revoke(&self.g.wait) == Decision::Parked {
            wake::ready(self.g);
        }
    }
}

/// Calls `begin` with a revoker and then runs `f`, in a stretch that the revoker ends. Returns the value or
/// the payload of `f`. No wait after this call is ended by the revoker.
pub fn run<R: Reason + 'static, B, T>(
    reason: R,
    begin: impl FnOnce(Revoker<R>) -> B,
    f: impl FnOnce() -> T,
) -> Result<T, Box<dyn Any + Send>> {
    let g = me();
    let stretch = Arc::new(Stretch { state: Revocable::new(), reason });
    g.rare_or_new().revocables.open(stretch.clone());
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _begun = begin(Revoker { stretch, g: g.shared() });
        f()
    }));
    g.rare_or_new().revocables.close(&g.wait);
    result
}
