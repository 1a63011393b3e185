//! Roaming: after a call that has blocked its OS thread, a G goes on without a P until it parks, yields or
//! ends.
//!
//! A client of a database blocks several times in one query. If its G waited in line for a P after each call,
//! each call would cost two more switches of OS threads. A plain thread has no such cost. A G that roams
//! blocks again at once, and gives no P up for that.
//!
//! The kernel shares the processors among the Ms that roam and the Ms that have Ps. So roaming is bounded in
//! number and in time; a G that may not roam waits in place for a P. A G that is blocked does not count: it
//! asks again after the call.

use std::sync::atomic::{AtomicUsize, Ordering};

use timers::clock;

use crate::m::OwnM;

/// How many Ms per P roam at a time.
const MOST_PER_P: usize = 4;
/// How long an M roams after one call. The same time lets a G that computes keep a P that others wait for.
const LONGEST_NS: u64 = 10_000_000;

/// Counts the Ms that roam.
#[derive(Debug, Default)]
pub(crate) struct Roaming(AtomicUsize);

impl Roaming {
    /// Returns `true` and counts one more M if fewer than `most` roam.
    fn join(&self, most: usize) -> bool {
        // Relaxed: the count orders no other data.
        let more = |roaming| (roaming < most).then_some(roaming + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Lets `m` roam, unless too many do beside `procs` Ps. *Runs on: `m`, in the runtime, without a P; its
    /// G has been blocked.*
    pub(crate) fn roam(&self, m: OwnM<'_>, procs: usize) {
        if m.own().roams_until.get() == 0 && self.join(MOST_PER_P * procs) {
            m.own().roams_until.set(clock::now() + LONGEST_NS);
        }
    }

    /// Ends what `roam` has begun, if it has. *Runs on: `m`, in the runtime, without a P.*
    #[inline]
    pub(crate) fn end(&self, m: OwnM<'_>) {
        if m.own().roams_until.replace(0) != 0 {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl OwnM<'_> {
    /// Returns `true` if the M may leave the runtime without a P. *Runs on: this M, in the runtime, without a
    /// P.*
    pub(crate) fn may_roam(self) -> bool {
        let until = self.own().roams_until.get();
        until != 0 && clock::now() < until
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;
    use crate::api::park::{blocking, blocking_briefly, blocking_for_long, has_p, yield_now};
    use crate::run::sched::Sched;
    use crate::supply::threads::tests::{scheduler, spawn_in};

    fn end(sched: &Arc<Sched>) {
        // The Ms of the last Gs are about to say so. If one never does, this hangs.
        while sched.roaming.0.load(Ordering::Relaxed) != 0 {
            thread::yield_now();
        }
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
    }

    /// There is no sysmon here.
    #[test]
    fn the_p_of_a_call_that_blocks_is_handed_off_to_work_that_waits() {
        let sched = scheduler(1);
        for call in [blocking::<()>, blocking_for_long::<()>] as [fn(Box<dyn FnOnce()>); 2] {
            let (sender, receiver) = mpsc::channel();
            let blocked = spawn_in(&sched, {
                let sched = sched.clone();
                move || {
                    let other = spawn_in(&sched, move || sender.send(()).unwrap());
                    call(Box::new(move || receiver.recv().unwrap()));
                    other.join().unwrap();
                }
            });
            blocked.join().unwrap();
        }
        end(&sched);
    }

    #[test]
    fn after_a_hand_off_a_g_has_no_p_until_it_stops() {
        let sched = scheduler(1);
        let g = spawn_in(&sched, || {
            assert!(has_p());
            let start = clock::now();
            blocking_for_long(|| assert!(!has_p()));
            // Each of these calls enters and leaves the runtime.
            let without_p = [!has_p(), !blocking(has_p), !has_p()];
            assert!(without_p == [true; 3] || clock::now() - start >= LONGEST_NS);
            yield_now();
            assert!(has_p());
            assert!(blocking_briefly(has_p), "no work waits");
            assert!(has_p());
        });
        g.join().unwrap();
        end(&sched);
    }

    #[test]
    fn no_more_roam_than_may() {
        const GS: usize = 20;
        let sched = scheduler(1);
        let (roaming, go_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let gs: Vec<_> = (0..GS)
            .map(|_| {
                let (roaming, go_on) = (roaming.clone(), go_on.clone());
                spawn_in(&sched, move || {
                    // A G that the kernel stops for long has a P again.
                    blocking_for_long(|| ());
                    while has_p() && roaming.load(Ordering::Relaxed) < MOST_PER_P {
                        blocking_for_long(|| ());
                    }
                    if has_p() {
                        return;
                    }
                    roaming.fetch_add(1, Ordering::Relaxed);
                    while !go_on.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                })
            })
            .collect();
        let ended = |gs: &[crate::api::join::Join<()>]| gs.iter().filter(|g| g.is_finished()).count();
        while ended(&gs) < GS - MOST_PER_P {
            thread::yield_now();
        }
        assert_eq!(roaming.load(Ordering::Relaxed), MOST_PER_P);
        go_on.store(true, Ordering::Relaxed);
        gs.into_iter().for_each(|g| g.join().unwrap());
        end(&sched);
    }

    #[test]
    fn roaming_ends_after_a_while() {
        let sched = scheduler(1);
        let g = spawn_in(&sched, || {
            blocking_for_long(|| ());
            let start = clock::now();
            while clock::now() - start <= LONGEST_NS {}
            // Enter and leave the runtime once: the roaming time is over, so leaving takes a P.
            drop(crate::run::boundary::enter());
            assert!(has_p());
        });
        g.join().unwrap();
        end(&sched);
    }
}
