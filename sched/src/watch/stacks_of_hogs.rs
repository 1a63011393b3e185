//! Hogs: how the reader gets the stack of one (`notes/hogs.rs`).

use std::time::{Duration, Instant};

use crate::g::GRef;
use crate::g::binding::Binding;
use crate::m::M;
use crate::notes::hogs::Hogging;
use crate::notes::rescue::RescuesAt;
use crate::run::sched::Sched;
use crate::run::signal;
use crate::stack::saved::StackCopy;
use crate::sys::preempt;
use crate::sys::{self, Doing};

/// How long the reader waits for the handler.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a dump waits for it. It asks one M after the other.
const PATIENCE_OF_DUMPS: Duration = Duration::from_millis(20);

/// Returns `true` if a signal ends no system call of the user's on `m`, which runs `g`. Such a G computes, is
/// the caller, or waits in place, which goes on after a signal. *Runs on: any thread.*
fn may_interrupt(m: &M, g: GRef) -> bool {
    let (in_place, mine) = (g.binding.get() == Binding::InPlace, m.tid() == sys::thread_id());
    in_place || mine || sys::doing(m.tid()) == Doing::Computing
}

impl Sched {
    /// Calls `read` with a copy of the stack of `hogging`, if it can be had, and says whether it was
    /// interrupted. *Runs on: the reader.*
    pub fn with_stack_of<R>(&self, hogging: &Hogging, read: impl FnOnce(&StackCopy, bool) -> R) -> Option<R> {
        if hogging.computes {
            return self.capture(hogging, PATIENCE, |copy| read(copy, true));
        }
        let mut copy = StackCopy::default();
        hogging.copy_blocked(&mut copy).then(|| read(&copy, false))
    }

    /// Calls `tell` with the id and a copy of the stack of each green thread that has an OS thread now. Such
    /// a thread computes, waits in place, or is blocked in a system call. The flag is `true` if a signal
    /// interrupted the G for the copy. A G that is blocked in a system call is copied without a signal. *Runs
    /// on: any thread.*
    pub fn look_at_running(&self, mut tell: impl FnMut(u64, &StackCopy, bool)) {
        let mut blocked = StackCopy::default();
        self.threads.look_at_all(|m| {
            let Some(g) = m.running().filter(|_| m.tid() != 0) else { return };
            let hogging = Hogging::new(m, g, None, may_interrupt(m, g));
            if hogging.computes {
                self.capture(&hogging, PATIENCE_OF_DUMPS, |copy| tell(hogging.id, copy, true));
            } else if hogging.copy_blocked(&mut blocked) {
                tell(hogging.id, &blocked, false);
            }
        });
    }

    /// Calls `read` with a copy of the stack of `hogging`, unless the M does not answer within `patience`.
    /// *Runs on: any thread.*
    fn capture<R>(
        &self,
        hogging: &Hogging,
        patience: Duration,
        read: impl FnOnce(&StackCopy) -> R,
    ) -> Option<R> {
        let (m, capture) = (hogging.m.m(), &self.events.stack_requests.capture);
        let here = || hogging.is_still_there(m) && m.tid() != 0;
        if !hogging.computes || !here() || !signal::install() {
            return None;
        }
        let _one = self.events.stack_requests.asking.lock();
        capture.ask(m.number, |copied| {
            copied.whose = Some(*hogging);
            copied.stack.make_room();
        });
        preempt::interrupt(m.tid());
        let end = Instant::now() + patience;
        let wait = |word: &_, value| {
            let left = end.saturating_duration_since(Instant::now());
            preempt::sleep_while(word, value, left.min(Duration::from_millis(10)));
            !left.is_zero()
        };
        capture.read(m.number, wait, |copied| read(&copied.stack))
    }

    /// Returns the rescues by spawn place, the most frequent first.
    pub fn rescues_by_place(&self) -> Vec<RescuesAt> {
        self.events.rescues.by_place()
    }
}
