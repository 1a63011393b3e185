//! Driving a future from where blocking-style code runs: the caller parks between polls.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::g::wait::Cancel;
use crate::g::why::Why;
use crate::g::{GRef, Ticket};
use crate::lend;
use crate::park::{self, Waiting};
use crate::wake;

/// Runs `future` to its end on the calling green thread, or on a plain thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    match lend::current_g() {
        // One future at a time owns the wake-ups of the G itself.
        Some(g) if !g.drives.replace(true) => {
            let _over = Over(g);
            let waker = wake::borrowed_waker(g);
            drive(Some(g), future, &waker, || {
                park::unwind_if_cancelled();
                let waiting = Waiting::begin_for(Why::Future, Cancel::Ends);
                if g.wakes.park(waiting.ticket().number) {
                    waiting.park();
                }
                g.wakes.clear();
                park::unwind_if_cancelled();
            })
        }
        Some(g) => drive_apart(g, future),
        None => drive(None, future, &Waker::from(Arc::new(Unpark(thread::current()))), thread::park),
    }
}

/// The G drives that future no longer.
struct Over(GRef);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.drives.set(false);
    }
}

/// A G polls a future, and so stays on its OS thread, while this lives and no `pause` runs.
struct Polls(Option<GRef>, bool);

impl Polls {
    fn begin(g: Option<GRef>) -> Self {
        Polls(g, g.is_some_and(|g| g.set_polls(true)))
    }

    fn set(&self, polls: bool) {
        if let Some(g) = self.0 {
            g.set_polls(polls);
        }
    }

    /// Runs `wait` between two polls. An unwind out of it leaves the G as it was before the first poll.
    fn pause(&self, wait: impl FnOnce()) {
        self.set(self.1);
        wait();
        self.set(true);
    }
}

impl Drop for Polls {
    fn drop(&mut self) {
        self.set(self.1);
    }
}

/// `g`: the calling green thread, if the caller is one.
fn drive<F: Future>(g: Option<GRef>, future: F, waker: &Waker, mut wait: impl FnMut()) -> F::Output {
    // Dropped after the future, whose destructor may enter scoped contexts as a poll may.
    let polls = Polls::begin(g);
    let mut future = pin!(future);
    let mut cx = Context::from_waker(waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(value) => return value,
            Poll::Pending => polls.pause(&mut wait),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A wake-up kept apart from the G's own two: for a future driven within the poll of another.
struct Apart(parking_lot::Mutex<Kept>);

enum Kept {
    Nothing,
    Notified,
    Waits(Ticket),
}

impl Wake for Apart {
    fn wake(self: Arc<Self>) {
        // A statement of its own, so that the lock is given back first: a wake-up may cost its caller its turn.
        let kept = std::mem::replace(&mut *self.0.lock(), Kept::Notified);
        if let Kept::Waits(ticket) = kept {
            wake::wake(ticket);
        }
    }
}

fn drive_apart<F: Future>(g: GRef, future: F) -> F::Output {
    let apart = Arc::new(Apart(parking_lot::Mutex::new(Kept::Nothing)));
    let waker = Waker::from(apart.clone());
    drive(Some(g), future, &waker, || {
        park::unwind_if_cancelled();
        let waiting = Waiting::begin_for(Why::Future, Cancel::Ends);
        let mut kept = apart.0.lock();
        if !matches!(*kept, Kept::Notified) {
            *kept = Kept::Waits(waiting.ticket());
            drop(kept);
            waiting.park();
            kept = apart.0.lock();
        }
        *kept = Kept::Nothing;
        drop(kept);
        park::unwind_if_cancelled();
    })
}
