//! Models of one wait: all wakers that may end it at once, the waits after it, and a grant that must not get
//! lost.

use super::*;
use crate::sync::Mutex;
use crate::sync::models::{Reached, Turns, explore};
use loom::{cell::UnsafeCell, sync::Arc, thread, thread::JoinHandle};

/// A waiter with a stack that only one thread may use at a time.
struct Waiter {
    wait: Wait,
    stack: UnsafeCell<u32>,
    turns: Turns,
}

impl Waiter {
    fn new() -> Arc<Waiter> {
        Arc::new(Waiter { wait: Wait::new(), stack: UnsafeCell::new(0), turns: Turns::default() })
    }

    fn run(&self) {
        // SAFETY: the caller runs the G; loom checks that no other thread does.
        self.stack.with_mut(|s| unsafe { *s += 1 });
    }

    /// Tries to end the wait `number`. Runs the waiter if it was parked.
    fn decide(&self, number: u32, outcome: Outcome) -> Decision {
        self.turns.take();
        self.hear(self.wait.decide(number, outcome))
    }

    fn cancel(&self) -> Decision {
        self.turns.take();
        self.hear(self.wait.cancel())
    }

    fn hear(&self, decision: Decision) -> Decision {
        if decision == Decision::Parked {
            self.run();
        }
        decision
    }

    /// Leaves the stack and parks. Returns `false` if the waiter goes on.
    fn commit(&self) -> bool {
        self.turns.take();
        self.run();
        let parked = self.wait.commit();
        if !parked {
            self.run();
        }
        parked
    }
}

fn on_a_thread<T: 'static, W: 'static>(
    waiter: &Arc<W>,
    act: impl FnOnce(&Arc<W>) -> T + 'static,
) -> JoinHandle<T> {
    let waiter = waiter.clone();
    thread::spawn(move || act(&waiter))
}

/// Returns the indices of the decisions that were not lost.
fn winners(decisions: &[Decision]) -> Vec<usize> {
    (0..decisions.len()).filter(|&i| decisions[i] != Decision::Lost).collect()
}

#[test]
fn woken_timed_out_and_parking_race_to_one_end() {
    explore(3, || {
        let g = Waiter::new();
        let number = g.wait.arm(Cancel::Ends);
        let waker = on_a_thread(&g, move |g| g.decide(number, Outcome::Woken));
        let timer = on_a_thread(&g, move |g| g.decide(number, Outcome::TimedOut));
        let parked = g.commit();
        let ends = [waker.join().unwrap(), timer.join().unwrap()];
        let winner = winners(&ends);
        assert_eq!(winner.len(), 1, "a single waker wins");
        assert_eq!(ends.contains(&Decision::Parked), parked, "a parked G is resumed by the winner");
        assert_eq!(g.wait.outcome(), [Outcome::Woken, Outcome::TimedOut][winner[0]]);
    });
}

#[test]
fn woken_timed_out_cancelled_and_parking_race_to_one_end() {
    static WON: [[Reached; 2]; 3] = [const { [const { Reached::new() }; 2] }; 3];
    static BY_COMMIT: Reached = Reached::new();
    explore(3, || {
        let g = Waiter::new();
        let number = g.wait.arm(Cancel::Ends);
        let waker = on_a_thread(&g, move |g| g.decide(number, Outcome::Woken));
        let timer = on_a_thread(&g, move |g| g.decide(number, Outcome::TimedOut));
        let canceller = on_a_thread(&g, |g| g.cancel());
        let parked = g.commit();
        let ends = [waker.join().unwrap(), timer.join().unwrap(), canceller.join().unwrap()];
        // Without a winner, the commit saw the flag and ended the wait itself.
        let winner = winners(&ends);
        assert!(
            winner.len() <= 1 && !(parked && winner.is_empty()),
            "at most one decider wins, and exactly one if the waiter parked"
        );
        assert_eq!(ends.contains(&Decision::Parked), parked, "a parked G is resumed by the winner");
        let outcomes = [Outcome::Woken, Outcome::TimedOut, Outcome::Cancelled];
        assert_eq!(g.wait.outcome(), winner.first().map_or(Outcome::Cancelled, |&winner| outcomes[winner]));
        match winner.first() {
            Some(&winner) => WON[winner][usize::from(parked)].note(true),
            None => BY_COMMIT.note(true),
        }
        // With every outcome, the G is cancelled for good.
        g.wait.arm(Cancel::Ends);
        assert!(!g.wait.commit() && g.wait.outcome() == Outcome::Cancelled);
    });
    WON.iter().flatten().chain([&BY_COMMIT]).for_each(Reached::assert);
}

#[test]
fn a_masked_wait_is_not_cancelled() {
    explore(3, || {
        let g = Waiter::new();
        let number = g.wait.arm(Cancel::Masked);
        let waker = on_a_thread(&g, move |g| g.decide(number, Outcome::Woken));
        let canceller = on_a_thread(&g, |g| g.cancel());
        let parked = g.commit();
        assert_eq!(canceller.join().unwrap(), Decision::Lost, "a cancellation ended a masked wait");
        let expected = if parked { Decision::Parked } else { Decision::Early };
        assert_eq!(waker.join().unwrap(), expected);
        assert_eq!(g.wait.outcome(), Outcome::Woken);
    });
}

#[test]
fn a_masked_wait_is_revoked_beside_a_cancellation() {
    static MET: [Reached; 2] = [const { Reached::new() }; 2];
    explore(3, || {
        let g = Waiter::new();
        g.wait.arm(Cancel::Masked);
        let canceller = on_a_thread(&g, |g| g.cancel());
        let revoker = on_a_thread(&g, |g| {
            g.turns.take();
            g.hear(g.wait.revoke())
        });
        let parked = g.commit();
        assert_eq!(canceller.join().unwrap(), Decision::Lost, "a cancellation ended a masked wait");
        let decision = revoker.join().unwrap();
        assert_eq!(parked, decision == Decision::Parked, "a revoked wait parked for ever");
        assert_eq!(g.wait.outcome(), Outcome::Cancelled);
        MET[usize::from(parked)].note(true);
    });
    MET.iter().for_each(Reached::assert);
}

#[test]
fn a_shielded_wait_ends_only_as_woken() {
    explore(3, || {
        let g = Waiter::new();
        let number = g.wait.arm(Cancel::Waits);
        let waker = on_a_thread(&g, move |g| g.decide(number, Outcome::Woken));
        let canceller = on_a_thread(&g, |g| g.cancel());
        let parked = g.commit();
        assert_eq!(canceller.join().unwrap(), Decision::Lost, "a cancellation ended a shielded wait");
        let expected = if parked { Decision::Parked } else { Decision::Early };
        assert_eq!(waker.join().unwrap(), expected);
        assert_eq!(g.wait.outcome(), Outcome::Woken);
        g.wait.arm(Cancel::Ends);
        assert!(!g.wait.commit(), "cancelled for good: the next wait ends at once");
    });
}

#[test]
fn cancel_is_never_missed() {
    explore(3, || {
        let g = Waiter::new();
        let canceller = on_a_thread(&g, |g| g.cancel());
        g.turns.take();
        g.wait.arm(Cancel::Ends);
        let parked = g.commit();
        let decision = canceller.join().unwrap();
        assert_eq!(parked, decision == Decision::Parked, "a cancelled waiter parked for ever");
        assert_eq!(g.wait.outcome(), Outcome::Cancelled);
    });
}

#[test]
fn cancel_is_not_missed_from_one_wait_to_the_next() {
    explore(3, || {
        let g = Waiter::new();
        let canceller = on_a_thread(&g, |g| g.cancel());
        g.turns.take();
        // Two waits that are decided before they park, the second shielded. Then a third wait, which parks.
        // (loom can order the store of an `arm` before an exchange that has read an older word, which cannot
        // happen. So each wait is decided before the next one begins.)
        for cancel in [Cancel::Ends, Cancel::Waits] {
            let number = g.wait.arm(cancel);
            g.decide(number, Outcome::Woken);
        }
        g.wait.arm(Cancel::Ends);
        let parked = g.commit();
        let decision = canceller.join().unwrap();
        assert_eq!(parked, decision == Decision::Parked, "a cancelled waiter parked for ever");
        assert_eq!(g.wait.outcome(), Outcome::Cancelled);
    });
}

impl Waiter {
    /// Reads the stack of the parked waiter, as a dumper does. Returns `true` if the dumper had to run the
    /// waiter.
    fn dump(&self) -> bool {
        self.turns.take();
        if !self.wait.hold() {
            return false;
        }
        // SAFETY: the holder reads, and loom checks that no thread runs the waiter at that time.
        self.stack.with(|s| unsafe { *s });
        self.turns.take();
        let parked = self.wait.commit();
        if !parked {
            self.run();
        }
        !parked
    }
}

#[test]
fn a_waiter_that_two_dumpers_look_at_is_resumed_once() {
    static BY: [Reached; 2] = [const { Reached::new() }; 2];
    explore(3, || {
        let g = Waiter::new();
        let number = g.wait.arm(Cancel::Ends);
        assert!(g.commit());
        let dumper = on_a_thread(&g, |g| g.dump());
        let waker = on_a_thread(&g, move |g| g.decide(number, Outcome::Woken));
        let resumes = usize::from(g.dump()) + usize::from(dumper.join().unwrap());
        let decision = waker.join().unwrap();
        assert_ne!(decision, Decision::Lost);
        assert_eq!(resumes + usize::from(decision == Decision::Parked), 1, "resumed once");
        BY[resumes].note(true);
    });
    BY.iter().for_each(Reached::assert);
}

#[test]
fn a_waiter_that_parks_and_is_cancelled_while_a_dumper_looks_goes_on_once() {
    static BY: [Reached; 3] = [const { Reached::new() }; 3];
    explore(3, || {
        let g = Waiter::new();
        let number = g.wait.arm(Cancel::Ends);
        let dumper = on_a_thread(&g, |g| g.dump());
        let canceller = on_a_thread(&g, |g| g.cancel());
        let timer = on_a_thread(&g, move |g| g.decide(number, Outcome::TimedOut));
        let went_on = !g.commit();
        let by_dumper = dumper.join().unwrap();
        let ends = [canceller.join().unwrap(), timer.join().unwrap()];
        let by_decider = ends.iter().filter(|&&end| end == Decision::Parked).count();
        let resumes = usize::from(went_on) + usize::from(by_dumper) + by_decider;
        assert_eq!(resumes, 1, "the waiter goes on once");
        BY[if by_dumper {
            0
        } else if went_on {
            1
        } else {
            2
        }]
        .note(true);
    });
    BY.iter().for_each(Reached::assert);
}

/// A waiter that waits twice. The thread that ends the first wait runs the waiter into the second, and
/// publishes its number.
struct Twice {
    waiter: Waiter,
    second: AtomicU64,
    // Of std, not of loom: these fields are no part of the protocol.
    first_outcome: std::sync::OnceLock<Outcome>,
    parked: std::sync::OnceLock<bool>,
}

impl Twice {
    fn new() -> Arc<Twice> {
        let waiter = Waiter { wait: Wait::new(), stack: UnsafeCell::new(0), turns: Turns::default() };
        let second = AtomicU64::new(0);
        Arc::new(Twice { waiter, second, first_outcome: Default::default(), parked: Default::default() })
    }

    fn end_first(&self, number: u32, outcome: Outcome) -> Decision {
        let decision = self.waiter.decide(number, outcome);
        if decision == Decision::Parked {
            self.wait_again();
        }
        decision
    }

    /// Begins and commits the second wait. *Runs on: the thread that runs the waiter.*
    fn wait_again(&self) {
        self.first_outcome.set(self.waiter.wait.outcome()).expect("the waiter goes on once");
        let number = self.waiter.wait.arm(Cancel::Ends);
        self.second.store(u64::from(number), Ordering::Release);
        self.parked.set(self.waiter.commit()).expect("the waiter goes on once");
    }
}

#[test]
fn a_waker_that_lost_the_first_wait_does_not_end_the_second() {
    static MET: Reached = Reached::new();
    explore(3, || {
        let g = Twice::new();
        let first = g.waiter.wait.arm(Cancel::Ends);
        let waker = on_a_thread(&g, move |g| g.end_first(first, Outcome::Woken));
        let timer = on_a_thread(&g, move |g| g.end_first(first, Outcome::TimedOut));
        // A waker of the second wait.
        let second = on_a_thread(&g, |g| match g.second.load(Ordering::Acquire) {
            0 => None,
            number => Some(g.waiter.decide(number as u32, Outcome::Woken)),
        });
        if !g.waiter.commit() {
            g.wait_again();
        }
        let ends = [waker.join().unwrap(), timer.join().unwrap()];
        let winner = winners(&ends);
        assert_eq!(winner.len(), 1, "a single waker ends the first wait, and neither ends the second");
        assert_eq!(g.first_outcome.get(), Some(&[Outcome::Woken, Outcome::TimedOut][winner[0]]));
        let parked = g.parked.get().expect("the waiter went on");
        match second.join().unwrap() {
            Some(decision) => {
                MET.note(true);
                assert_eq!(decision == Decision::Parked, *parked);
            }
            None => {
                assert!(parked, "no waker has ended the second wait");
                let number = g.second.load(Ordering::Relaxed) as u32;
                assert_eq!(g.waiter.wait.decide(number, Outcome::TimedOut), Decision::Parked);
            }
        }
    });
    MET.assert();
}

/// A minimal semaphore: waiters in order, and grants that no waiter has taken.
struct Grants {
    queue: Mutex<Queue>,
    waiters: [Waiter; 2],
    /// What the grant gives access to.
    guarded: UnsafeCell<u32>,
    /// Set if the granter chose a waiter with a wait that had just ended otherwise. (Of std, not of loom: no
    /// part of the protocol.)
    heard_lost: std::sync::OnceLock<()>,
}

struct Queue {
    free: u32,
    waiting: Vec<(usize, u32)>,
}

impl Grants {
    fn new() -> Arc<Grants> {
        let waiter = || Waiter { wait: Wait::new(), stack: UnsafeCell::new(0), turns: Turns::default() };
        let queue = Mutex::new(Queue { free: 0, waiting: Vec::new() });
        Arc::new(Grants {
            queue,
            waiters: [waiter(), waiter()],
            guarded: UnsafeCell::new(0),
            heard_lost: Default::default(),
        })
    }

    fn use_it(&self) {
        // SAFETY: the caller has the grant; loom checks that no other thread has it.
        self.guarded.with_mut(|guarded| unsafe { *guarded += 1 });
    }

    fn register(&self, waiter: usize) -> u32 {
        let number = self.waiters[waiter].wait.arm(Cancel::Ends);
        self.queue.lock().waiting.push((waiter, number));
        number
    }

    /// Gives the grant to the first open wait. A wait that was cancelled or timed out has lost its place.
    fn grant(&self) {
        self.use_it();
        loop {
            let mut queue = self.queue.lock();
            if queue.waiting.is_empty() {
                queue.free += 1;
                return;
            }
            let (waiter, number) = queue.waiting.remove(0);
            drop(queue);
            let decision = self.waiters[waiter].decide(number, Outcome::Woken);
            if decision == Decision::Parked {
                self.go_on(waiter);
            }
            if decision == Decision::Lost {
                let _ = self.heard_lost.set(());
            }
            if decision != Decision::Lost {
                return;
            }
        }
    }

    /// Uses the grant, or leaves the queue without one. *Runs on: the thread that runs the waiter, after its
    /// wait.*
    fn go_on(&self, waiter: usize) {
        match self.waiters[waiter].wait.outcome() {
            Outcome::Woken => self.use_it(),
            // A granter may have taken the waiter out of the queue already. The granter's decision then
            // loses.
            _ => self.queue.lock().waiting.retain(|&(other, _)| other != waiter),
        }
    }

    fn end(&self, waiter: usize, end: impl FnOnce(&Waiter) -> Decision) {
        if end(&self.waiters[waiter]) == Decision::Parked {
            self.go_on(waiter);
        }
    }
}

#[test]
fn a_grant_to_a_wait_that_ends_otherwise_goes_to_the_next() {
    static PASSED_ON: [Reached; 2] = [const { Reached::new() }; 2];
    explore(3, || {
        let grants = Grants::new();
        let number = grants.register(0);
        grants.register(1);
        assert!(grants.waiters[1].wait.commit());
        let granter = on_a_thread(&grants, |grants| grants.grant());
        let timer =
            on_a_thread(&grants, move |grants| grants.end(0, |w| w.decide(number, Outcome::TimedOut)));
        let canceller = on_a_thread(&grants, |grants| grants.end(0, Waiter::cancel));
        if !grants.waiters[0].commit() {
            grants.go_on(0);
        }
        for other in [granter, timer, canceller] {
            other.join().unwrap();
        }
        let first = grants.waiters[0].wait.outcome() == Outcome::Woken;
        let second = grants.waiters[1].wait.is_decided();
        assert!(first != second, "the grant went to one waiter");
        match grants.waiters[0].wait.outcome() {
            Outcome::Woken => {}
            other => {
                PASSED_ON[usize::from(other == Outcome::Cancelled)].note(grants.heard_lost.get().is_some())
            }
        }
        let queue = grants.queue.lock();
        assert!(
            queue.free == 0 && queue.waiting.len() == usize::from(first),
            "the queue holds the waiters that still wait"
        );
        // SAFETY: all threads of the model have ended.
        assert_eq!(grants.guarded.with(|guarded| unsafe { *guarded }), 2);
    });
    PASSED_ON.iter().for_each(Reached::assert);
}
