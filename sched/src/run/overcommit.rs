//! More busy Ps than processors: their Ms take turns.
//!
//! The kernel lets each thread run for some milliseconds at a time. So the Gs in the queue of an M that does
//! not run wait for as long, and other Ms do not take them while they have Gs of their own. A server then
//! answers some requests at once, and others late. So while a program has sockets, and more Ps are busy than
//! there are processors, an M lets another thread run each 50 microseconds. It does so between two Gs, so
//! none is stopped half-way.
//!
//! # Rejected
//!
//! - *Turns also without sockets*: programs that only compute take a quarter longer, probably because each M
//!   warms the caches anew.
//! - *To wake no M for a P that has no processor*: Gs that block their OS threads without an announcement
//!   need more Ps than processors.

use std::sync::atomic::{AtomicUsize, Ordering};

use timers::clock;

use crate::m::OwnM;
use crate::run::sched::Sched;
use crate::sys;

/// How long an M runs Gs before it lets another thread run.
const TURN_NS: u64 = 50_000;

/// The number of processors, as far as it is known.
#[derive(Debug)]
pub(crate) struct Processors(AtomicUsize);

impl Processors {
    pub(crate) fn new() -> Self {
        Processors(AtomicUsize::new(sys::processors()))
    }

    /// Asks the system again. *Runs on: sysmon.*
    pub(crate) fn refresh(&self) {
        let now = sys::processors();
        // Relaxed, here and below: a hint. Stores only a change, because all Ms read this line.
        if self.0.load(Ordering::Relaxed) != now {
            self.0.store(now, Ordering::Relaxed);
        }
    }
}

impl Sched {
    /// Returns `true` if there are more Ps than processors.
    pub(crate) fn is_overcommitted(&self) -> bool {
        self.procs() > self.processors.0.load(Ordering::Relaxed)
    }

    /// Lets another thread run if more Ps are busy than there are processors, and `m` has run for long. *Runs
    /// on: `m`, between two Gs.*
    // Out of line, because the loop that runs Gs is smaller without it.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_turns(&self, m: OwnM<'_>) {
        let busy = self.procs().saturating_sub(self.idle.idle_ps());
        // No other M is woken for work while one looks for it.
        let searches = m.own().spinning.get();
        if busy <= self.processors.0.load(Ordering::Relaxed)
            || searches
            || !self.netpoll.has_sources()
            || self.is_simulated()
        {
            return;
        }
        if clock::now().saturating_sub(m.own().turn_began.get()) >= TURN_NS {
            sys::yield_thread();
            m.own().turn_began.set(clock::now());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use netpoll::net::UdpSocket;

    use crate::api::park::yield_now;
    use crate::m::current::on_m;
    use crate::run::boundary::enter;
    use crate::supply::threads::tests::{scheduler, spawn_in};

    /// Runs a G for each of two Ps that yields until `end` returns `true` for its number of yields. Returns
    /// how many of the Ms have taken turns.
    fn turns_of_two_ps(
        processors: usize,
        has_socket: bool,
        end: impl Fn(u64) -> bool + Send + Sync + 'static,
    ) -> u64 {
        let sched = scheduler(2);
        let socket = has_socket.then(|| {
            let mut socket = UdpSocket::bind("127.0.0.1:0".parse().expect("an address")).expect("a socket");
            (sched.netpoll.register(&mut socket).expect("it is registered"), socket)
        });
        sched.processors.0.store(processors, Ordering::Relaxed);
        let (end, turns) = (Arc::new(end), Arc::new(AtomicU64::new(0)));
        let gs = [(); 4].map(|()| {
            let (end, turns) = (end.clone(), turns.clone());
            spawn_in(&sched, move || {
                let mut yields = 0;
                while !end(yields) {
                    yield_now();
                    yields += 1;
                }
                let took = enter().expect("on an M").m().own().turn_began.get() != 0;
                turns.fetch_add(u64::from(took), Ordering::Relaxed);
            })
        });
        gs.into_iter().for_each(|g| g.join().expect("no panic"));
        drop(socket);
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
        turns.load(Ordering::Relaxed)
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not switch stacks")]
    fn ms_take_turns_if_there_are_more_busy_ps_than_processors() {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        // Ends when an M has taken a turn.
        let looks = |_| {
            let took = on_m(|m| m.own().turn_began.get() != 0).expect("on an M");
            TAKEN.fetch_or(took, Ordering::Relaxed);
            TAKEN.load(Ordering::Relaxed)
        };
        assert!(turns_of_two_ps(1, true, looks) > 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not switch stacks")]
    fn ms_take_no_turns_if_each_has_a_processor_or_there_is_no_socket() {
        for (processors, has_socket) in [(2, true), (1, false)] {
            assert_eq!(turns_of_two_ps(processors, has_socket, |yields| yields >= 100_000), 0);
        }
    }
}
