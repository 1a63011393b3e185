//! Driving a future from blocking-style code: `block_on` polls it and parks the caller between polls.
//!
//! A G's wake token serves one future at a time, so a `block_on` inside another uses a token of its own.
//! During a poll the G stays on its OS thread.
//!
//! # Futures that are not `Send`
//!
//! Such a future may belong to its OS thread. It may keep the guard of a lock of std, or an `Rc` that a
//! thread-local has, too. So all its polls and its drop must happen on the OS thread of the call that made
//! it. `block_on_local` does so:
//!
//! - A plain OS thread polls the future itself and sleeps between polls. No other thread sees the future.
//! - A green thread leaves its polling flag set between polls, until the future is dropped. A G with that
//!   flag waits at home (`Keeps::AtHome` in `run/boundary.rs`), and only its home M resumes it. Until then
//!   other Gs run on that OS thread, as other tasks do in every executor.
//!
//! The caller passes the future by value, and a G cannot move between that and the first poll, because
//! nothing parks.
//!
//! `block_on` clears the flag between polls, so that a hog on one OS thread does not delay the G. So its
//! callers in `runtime` require `Send`.
//!
//! Rejected: no `Send` bound at `block_on` itself. At main, all futures would leave the green threads for the
//! plain OS thread. A wake-up would cost a system call, and a deadlock would not be reported. On a green
//! thread a hog would delay all.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::api::budget::Within;
use crate::api::park::{self, Waiting};
use crate::g::Ticket;
use crate::g::budget::Budget;
use crate::g::own::OwnG;
use crate::g::wait::Cancel;
use crate::g::why::Why;
use crate::m::current::current_g;
use crate::m::os_thread;
use crate::run::wake;

/// Runs `future` to its end on the calling green or plain thread. Returns its output. A green thread may move
/// to another OS thread between polls, so the future must be `Send`.
pub fn block_on<F: Future>(future: F) -> F::Output {
    run(future, Between::Moves)
}

/// Runs `future`, which need not be `Send`, to its end. Polls and drops it on the calling OS thread. Returns
/// its output.
pub fn block_on_local<F: Future>(future: F) -> F::Output {
    run(future, Between::Stays)
}

/// Whether a green thread may move to another OS thread between two polls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    Moves,
    Stays,
}

fn run<F: Future>(future: F, between: Between) -> F::Output {
    match current_g() {
        // The G's own wake token belongs to one future at a time.
        Some(g) if !g.set_drives(true) => {
            let _driving = Driving(g);
            let waker = wake::borrowed_waker(g.shared());
            drive(Some(g), between, future, &waker, || {
                park::unwind_if_cancelled();
                let waiting = Waiting::begin_for(Why::Future, Cancel::Ends);
                if g.wakes.park(waiting.ticket().number) {
                    waiting.park();
                } else {
                    // A future that wakes itself lets other green threads run.
                    park::yield_now();
                }
                g.wakes.clear();
                park::unwind_if_cancelled();
            })
        }
        g => drive_apart(g, between, future),
    }
}

/// Frees the G's wake token when the future has been driven to its end.
struct Driving(OwnG);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.set_drives(false);
    }
}

/// While this lives, the calling thread polls a future, except during `pause`. A G stays on its OS thread,
/// and the polls have a budget of their own.
struct Polls {
    g: Option<OwnG>,
    /// The polling flag of the G before.
    before: bool,
    budget: Within,
}

impl Polls {
    fn begin(g: Option<OwnG>) -> Self {
        Polls {
            g,
            before: g.is_some_and(|g| g.set_polls(true)),
            budget: Within::begin(g.unwrap_or_else(os_thread::proxy_g).shared(), Budget::FULL),
        }
    }

    fn set(&self, polls: bool) {
        if let Some(g) = self.g {
            g.set_polls(polls);
        }
    }

    /// Runs `wait` between two polls, with the G's polling flag as it was before `begin`. An unwind out of
    /// `wait` leaves the flag so.
    fn pause(&self, wait: impl FnOnce()) {
        self.set(self.before);
        wait();
        self.set(true);
    }
}

impl Drop for Polls {
    fn drop(&mut self) {
        self.set(self.before);
    }
}

/// Polls `future` until it is ready, and runs `wait` after each pending poll. `g` is the calling green
/// thread, if there is one.
fn drive<F: Future>(
    g: Option<OwnG>,
    between: Between,
    future: F,
    waker: &Waker,
    mut wait: impl FnMut(),
) -> F::Output {
    // Dropped after the future: the future's destructor may enter scoped contexts, as a poll may.
    let polls = Polls::begin(g);
    let mut future = pin!(future);
    let mut cx = Context::from_waker(waker);
    loop {
        polls.budget.renew();
        match once(|| future.as_mut().poll(&mut cx)) {
            Poll::Ready(value) => return value,
            Poll::Pending if between == Between::Stays => wait(),
            Poll::Pending => polls.pause(&mut wait),
        }
    }
}

/// Runs `f`, which polls or drops a future that the calling thread drives itself. A green thread stays on its
/// OS thread during `f`, also if it parks.
pub fn within_poll<T>(f: impl FnOnce() -> T) -> T {
    let _polls = Polls::begin(current_g());
    once(f)
}

/// Runs `poll`, one poll or the drop of a future.
#[inline(always)]
fn once<T>(poll: impl FnOnce() -> T) -> T {
    #[cfg(feature = "other-budget")]
    return crate::run::other_budget::with_new(poll);
    #[cfg(not(feature = "other-budget"))]
    poll()
}

/// A wake token apart from the two of the G. It is for a future that is driven within the poll of another
/// future, or by a plain OS thread.
struct Apart(crate::sync::Mutex<Notice>);

enum Notice {
    Nothing,
    Notified,
    Waits(Ticket),
}

impl Wake for Apart {
    fn wake(self: Arc<Self>) {
        // In its own statement, so that the lock is released before the wake, which may make this thread
        // stop.
        let kept = std::mem::replace(&mut *self.0.lock(), Notice::Notified);
        if let Notice::Waits(ticket) = kept {
            wake::wake(ticket);
        }
    }
}

fn drive_apart<F: Future>(g: Option<OwnG>, between: Between, future: F) -> F::Output {
    let apart = Arc::new(Apart(crate::sync::Mutex::new(Notice::Nothing)));
    let waker = Waker::from(apart.clone());
    drive(g, between, future, &waker, || {
        park::unwind_if_cancelled();
        let waiting = Waiting::begin_for(Why::Future, Cancel::Ends);
        let mut kept = apart.0.lock();
        if !matches!(*kept, Notice::Notified) {
            *kept = Notice::Waits(waiting.ticket());
            drop(kept);
            waiting.park();
            kept = apart.0.lock();
        } else if g.is_some() {
            drop(kept);
            // A future that wakes itself lets other green threads run.
            park::yield_now();
            kept = apart.0.lock();
        }
        *kept = Notice::Nothing;
        drop(kept);
        park::unwind_if_cancelled();
    })
}
