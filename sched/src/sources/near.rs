//! Connections stay with the processor that receives their packets (Linux).
//!
//! While all Ps are busy, a source moves near the P that runs on that processor (`netpoll`'s near
//! pollers). The P polls these sources itself. When a P becomes idle, an M takes whatever comes for any of
//! them, so none waits for a P that computes. While any P is idle, sources move back, since an M that
//! waits for the network takes one call more for a source that is near a P.
//!
//! With more Ps than processors nothing moves: the kernel then runs one M here, another there.

use std::sync::Arc;

use netpoll::{PollDesc, Polled, Waiter};

use crate::m::current::on_m;
use crate::p::Held;
use crate::run::sched::Sched;
use crate::sync::unpaused;
use crate::sys;

/// After this time without a poll by a P, others take the events of the sources near that P. After this time
/// without a poll of all other sources, a P polls these even if it has events near it.
const OVERDUE_NS: u64 = 1_000_000;

/// Moves a source to where its packets come, each some tens of calls. The caller is about to wait for it.
/// *Runs on: any thread that keeps the source open.*
#[inline]
pub fn before_wait(desc: &PollDesc) {
    if desc.counts_wait() {
        settle(desc);
    }
}

#[cold]
#[inline(never)]
fn settle(desc: &PollDesc) {
    on_m(|m| {
        let sched = m.sched();
        if Arc::ptr_eq(&sched.netpoll, desc.netpoll()) && !sched.is_simulated() {
            unpaused(|| sched.settle(desc));
        }
    });
}

impl Sched {
    fn settle(&self, desc: &PollDesc) {
        let all_are_busy = self.procs() > 1 && self.idle.idle_ps() == 0 && !self.is_overcommitted();
        // A source stays where it is if its packets come to no M.
        let place = if all_are_busy { desc.place_of_packets(self.procs()) } else { None };
        if place != desc.place() && (place.is_some() || !all_are_busy) {
            desc.move_to(place);
        }
    }

    /// Polls the sources near a P; `None` if there are none. *Runs on: the holder of the P.*
    pub(super) fn poll_near(&self, held: Held<'_>, now: u64, ready: &mut Vec<Waiter>) -> Option<Polled> {
        let processor = sys::processor()?;
        self.netpoll.poll_near(held.index, processor, now, ready)
    }

    /// Returns since when sources must have been polled: else they are overdue.
    pub(super) fn overdue(now: u64) -> u64 {
        now.saturating_sub(OVERDUE_NS)
    }
}

#[cfg(all(test, target_os = "linux", not(portable), not(loom)))]
mod tests {
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use netpoll::net::UdpSocket;
    use netpoll::{Direction, Wait};

    use super::*;
    use crate::api::park::{Waiting, yield_now};
    use crate::g::wait::Cancel;
    use crate::m::current::current_p;
    use crate::supply::threads::tests::{scheduler, spawn_in};

    /// A socket that sends to itself.
    struct Own(UdpSocket, PollDesc);

    impl Own {
        fn near(sched: &Sched, place: Option<usize>) -> Own {
            let mut socket = UdpSocket::bind("127.0.0.1:0".parse().expect("an address")).expect("a socket");
            socket.connect(socket.local_addr().expect("an address")).expect("it is connected");
            let fd = socket.as_raw_fd().into();
            let desc = sched.netpoll.register_numbered(&mut socket, fd).expect("it is registered");
            desc.move_to(place);
            assert_eq!(desc.place(), place);
            Own(socket, desc)
        }

        /// Sends a datagram, and waits until it comes.
        fn turn(&self) {
            let attempt = self.1.prepare(Direction::Read);
            let waiting = Waiting::begin(Cancel::Waits);
            if self.1.wait(attempt, Waiter::new(waiting.word())) == Ok(Wait::Park) {
                self.0.send(b"x").expect("it is sent");
                waiting.park();
                assert_eq!(self.0.recv(&mut [0; 8]).expect("it has come"), 1);
            }
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            self.1.deregister(&mut self.0).expect("it was registered");
        }
    }

    /// A G waits for a socket that is near the P of a G which computes. The other P has nothing else to
    /// do, or a G that yields. There is no sysmon.
    fn waits_near_a_p_that_computes(yields: bool) {
        let sched = scheduler(2);
        let (end, place) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(usize::MAX)));
        let (ends, at) = (end.clone(), place.clone());
        let computes = spawn_in(&sched, move || {
            at.store(current_p().expect("on a P"), Ordering::Relaxed);
            while !ends.load(Ordering::Relaxed) {}
        });
        while place.load(Ordering::Relaxed) == usize::MAX {
            thread::yield_now();
        }
        let ends = end.clone();
        let others = yields.then(|| {
            spawn_in(&sched, move || {
                while !ends.load(Ordering::Relaxed) {
                    yield_now();
                }
            })
        });
        let here = sched.clone();
        let waits = spawn_in(&sched, move || {
            let socket = Own::near(&here, Some(place.load(Ordering::Relaxed)));
            (0..100).for_each(|_| socket.turn());
        });
        waits.join().expect("no panic");
        end.store(true, Ordering::Relaxed);
        others.into_iter().chain([computes]).for_each(|g| g.join().expect("no panic"));
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not switch stacks")]
    fn what_is_near_a_p_that_computes_waits_neither_for_it_nor_for_sysmon() {
        waits_near_a_p_that_computes(false);
        waits_near_a_p_that_computes(true);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no netpoller")]
    fn a_source_moves_back_while_a_p_is_idle_and_stays_if_no_packet_has_come() {
        let sched = scheduler(2);
        let socket = Own::near(&sched, Some(1));
        while sched.idle.idle_ps() == 0 {
            thread::yield_now();
        }
        sched.settle(&socket.1);
        assert_eq!(socket.1.place(), None);
        socket.1.move_to(Some(1));
        let (end, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let computes: Vec<_> = (0..2)
            .map(|_| {
                let (end, begun) = (end.clone(), begun.clone());
                spawn_in(&sched, move || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    while !end.load(Ordering::Relaxed) {}
                })
            })
            .collect();
        while begun.load(Ordering::Relaxed) < 2 {
            thread::yield_now();
        }
        sched.settle(&socket.1);
        // With one processor the Ps have no places.
        let stays = (!sched.is_overcommitted()).then_some(1);
        assert_eq!(socket.1.place(), stays, "it is not known where its packets come");
        end.store(true, Ordering::Relaxed);
        computes.into_iter().for_each(|g| g.join().expect("no panic"));
        drop(socket);
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
    }

    /// Both Ps always have events near them. A socket elsewhere waits for some of these, and not for
    /// sixty-one.
    #[test]
    #[cfg_attr(miri, ignore = "Miri does not switch stacks")]
    fn what_is_near_no_p_does_not_wait_for_long() {
        let sched = scheduler(2);
        let (end, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let busy: Vec<_> = (0..8)
            .map(|i| {
                let (here, end, turns) = (sched.clone(), end.clone(), turns.clone());
                spawn_in(&sched, move || {
                    let socket = Own::near(&here, Some(i % 2));
                    while !end.load(Ordering::Relaxed) {
                        socket.turn();
                        turns.fetch_add(1, Ordering::Relaxed);
                        let start = Instant::now();
                        while start.elapsed() < Duration::from_millis(1) {}
                    }
                })
            })
            .collect();
        let here = sched.clone();
        let waits = spawn_in(&sched, move || {
            let socket = Own::near(&here, None);
            let mut between: Vec<_> = (0..31)
                .map(|_| {
                    let before = turns.load(Ordering::Relaxed);
                    socket.turn();
                    turns.load(Ordering::Relaxed) - before
                })
                .collect();
            // The system may stop the thread that is to run this G. Seven is usual.
            between.sort_unstable();
            assert!(between[15] < 25, "{between:?}");
        });
        let outcome = waits.join();
        end.store(true, Ordering::Relaxed);
        busy.into_iter().for_each(|g| g.join().expect("no panic"));
        outcome.expect("no panic");
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
    }
}
