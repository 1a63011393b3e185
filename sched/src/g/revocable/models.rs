//! Models of revocable stretches: a revoked wait ends, a wait after the stretch does not, and no outer
//! stretch is forgotten.

use loom::{sync::Arc, thread};

use super::Revocable;
use crate::g::wait::{Cancel, Decision, Outcome, Wait};
use crate::sync::models::{Reached, Turns, explore};

struct Thread {
    wait: Wait,
    outer: Revocable,
    inner: Revocable,
    turns: Turns,
}

impl Thread {
    fn new() -> Arc<Thread> {
        let (outer, inner) = (Revocable::new(), Revocable::new());
        Arc::new(Thread { wait: Wait::new(), outer, inner, turns: Turns::default() })
    }

    fn revoke(&self, stretch: &Revocable) -> Decision {
        self.turns.take();
        stretch.revoke(&self.wait)
    }

    /// Begins a wait and commits it. Returns `true` if the thread is parked.
    fn park(&self) -> bool {
        self.wait.arm(Cancel::Ends);
        self.turns.take();
        self.wait.commit()
    }

    fn close(&self, stretch: &Revocable, outer: impl Fn() -> bool) {
        self.turns.take();
        stretch.close(&self.wait, outer);
    }
}

#[test]
fn a_wait_in_a_revoked_stretch_ends() {
    static MET: [Reached; 2] = [const { Reached::new() }; 2];
    explore(3, || {
        let g = Thread::new();
        let its = g.clone();
        let revoker = thread::spawn(move || its.revoke(&its.inner));
        let parked = g.park();
        let decision = revoker.join().unwrap();
        assert_eq!(parked, decision == Decision::Parked, "a wait in a revoked stretch parked for ever");
        assert_eq!(g.wait.outcome(), Outcome::Cancelled);
        MET[usize::from(parked)].note(true);
    });
    MET.iter().for_each(Reached::assert);
}

#[test]
fn a_wait_after_the_stretch_does_not_end() {
    static MET: [Reached; 2] = [const { Reached::new() }; 2];
    explore(3, || {
        let g = Thread::new();
        let its = g.clone();
        let revoker = thread::spawn(move || its.revoke(&its.inner));
        g.close(&g.inner, || false);
        MET[usize::from(g.wait.is_ended())].note(true);
        let number = g.wait.arm(Cancel::Ends);
        g.turns.take();
        assert!(g.wait.commit(), "a wait after the stretch was ended");
        assert_ne!(revoker.join().unwrap(), Decision::Parked, "a wait after the stretch was ended");
        assert!(g.wait.is_open(number) && !g.wait.is_ended());
    });
    MET[0].assert();
}

#[test]
fn an_outer_stretch_that_is_revoked_meanwhile_is_not_forgotten() {
    explore(3, || {
        let g = Thread::new();
        assert_eq!(g.revoke(&g.inner), Decision::Lost, "no wait is open");
        let its = g.clone();
        let revoker = thread::spawn(move || its.revoke(&its.outer));
        g.close(&g.inner, || g.outer.is_revoked());
        let parked = g.park();
        let decision = revoker.join().unwrap();
        assert_eq!(parked, decision == Decision::Parked, "a wait in a revoked stretch parked for ever");
        assert_eq!(g.wait.outcome(), Outcome::Cancelled);
    });
}

/// The inner stretch is open in the mask, which hides the outer one.
#[test]
fn a_revoked_hidden_stretch_ends_the_next_wait_after_the_mask() {
    static MET: [Reached; 2] = [const { Reached::new() }; 2];
    explore(3, || {
        let g = Thread::new();
        let its = g.clone();
        let revoker = thread::spawn(move || its.revoke(&its.outer));
        g.turns.take();
        g.outer.hide();
        g.wait.clear_revoked();
        let number = g.wait.arm(Cancel::Masked);
        g.turns.take();
        assert!(g.wait.commit(), "a wait in the mask was ended");
        assert!(g.wait.is_open(number));
        MET[usize::from(g.outer.is_revoked())].note(true);
        assert_eq!(g.wait.decide(number, Outcome::Woken), Decision::Parked, "a wait in the mask was ended");
        g.turns.take();
        g.outer.show(&g.wait);
        let parked = g.park();
        let decision = revoker.join().unwrap();
        assert_eq!(parked, decision == Decision::Parked, "a wait in a revoked stretch parked for ever");
        assert_eq!(g.wait.outcome(), Outcome::Cancelled);
    });
    MET.iter().for_each(Reached::assert);
}
