//! Awaited operations and the budget of the poll in which they are: `poll`, which every awaited operation
//! calls.
//!
//! The budget belongs to the thread that polls: it lies in its G, or in the proxy G of a plain OS thread.
//! Each driver of futures (`run/task.rs`, `api/block_on.rs`) gives each poll a new one. A driver within
//! another driver's poll puts its own in the place of the outer one until that driver ends. Code that no
//! driver of this crate polls, as in an executor of another crate, has no budget: no operation is refused
//! there.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::g::GRef;
use crate::g::budget::Budget;
use crate::g::own::OwnG;
use crate::m::current::current_g;
use crate::m::os_thread;

/// Returns the G with the budget of the calling thread; `None` if the thread has none.
#[inline]
fn holder() -> Option<GRef> {
    current_g().or_else(os_thread::proxy_g_if_any).map(OwnG::shared)
}

/// Polls one awaited operation: calls `operation`, and spends one unit of the budget if that is ready. If no
/// unit is left, wakes the task and returns `Pending` instead. `operation` has then not been called, so it
/// has taken nothing.
#[inline]
pub fn poll<T>(cx: &mut Context<'_>, operation: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    let Some(g) = holder() else { return operation(cx) };
    if !g.budget().get().is_left() {
        refuse(g, cx);
        return Poll::Pending;
    }
    let polled = operation(cx);
    if polled.is_ready() {
        g.budget().set(g.budget().get().spent());
    }
    polled
}

#[cold]
#[inline(never)]
fn refuse(g: GRef, cx: &mut Context<'_>) {
    g.budget().set(g.budget().get().refused());
    cx.waker().wake_by_ref();
}

/// Returns a future of one awaited operation, which [`poll`] polls.
#[inline]
pub fn poll_fn<T>(mut operation: impl FnMut(&mut Context<'_>) -> Poll<T>) -> impl Future<Output = T> {
    std::future::poll_fn(move |cx| poll(cx, &mut operation))
}

/// Spends one unit of the budget, in a future: for a call that is ready without an operation. It is tokio's
/// `consume_budget`.
#[inline]
pub async fn consume() {
    poll_fn(|_| Poll::Ready(())).await;
}

/// Polls `future`, and then `end`, which ends the wait for it.
///
/// `end` gets its turn also if `future` has used the budget up. Tokio's `timeout` does the same.
pub fn poll_until<F: Future, E: Future>(
    cx: &mut Context<'_>,
    future: Pin<&mut F>,
    end: Pin<&mut E>,
) -> Poll<Result<F::Output, E::Output>> {
    let is_left = || holder().is_none_or(|g| g.budget().get().is_left());
    let was_left = is_left();
    if let Poll::Ready(value) = future.poll(cx) {
        return Poll::Ready(Ok(value));
    }
    let used_up = was_left && !is_left();
    let _uncounted = holder().filter(|_| used_up).map(|g| Within::begin(g, Budget::NONE));
    end.poll(cx).map(Err)
}

/// While this lives, the budget of a G is another one.
pub(crate) struct Within(GRef, Budget);

impl Within {
    /// Puts `budget` in the place of the budget of `g`, which is the calling thread's.
    pub(crate) fn begin(g: GRef, budget: Budget) -> Within {
        Within(g, g.budget().replace(budget))
    }

    /// Gives the next poll a new budget.
    pub(crate) fn renew(&self) {
        self.0.budget().set(Budget::FULL);
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        self.0.budget().set(self.1);
    }
}
