//! Models of once: a single caller runs the step, all others see what it did, and every waiter goes on.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::{Patience, Person, all_end, i_may_wait, person};
use crate::locks::{Once, Stage};
use sched::Outcome;
use sched::sync::models::explore;

struct Value {
    once: Once,
    value: UnsafeCell<u32>,
}

impl Value {
    fn new() -> Arc<Value> {
        Arc::new(Value { once: Once::new(Stage::New), value: UnsafeCell::new(0) })
    }

    /// The caller that begins writes the value; all callers read it.
    fn get(&self, fails: bool) -> Result<u32, Outcome> {
        if self.once.stage() != Stage::Done {
            let stage = self.once.begin(true, Patience::LONG)?;
            if stage != Stage::Done {
                // SAFETY: only the caller that began writes; loom checks that.
                self.value.with_mut(|value| unsafe { *value += 1 });
                self.once.end(if fails { Stage::Failed } else { Stage::Done });
                return Ok(0);
            }
        }
        // SAFETY: the stage is `Done`, so no thread writes any more.
        Ok(self.value.with(|value| unsafe { *value }))
    }
}

fn one(value: &Arc<Value>, fails: bool) -> Person<Result<u32, Outcome>> {
    let value = value.clone();
    person(move || value.get(fails))
}

#[test]
fn a_single_caller_runs_the_step() {
    explore(2, || {
        let _me = i_may_wait();
        let value = Value::new();
        let others = vec![one(&value, false), one(&value, false)];
        let mine = value.get(false).unwrap();
        let got: u32 = mine + all_end(others).into_iter().map(Result::unwrap).sum::<u32>();
        assert_eq!(got, 2, "a single caller wrote the value, and the two others read it");
    });
}

#[test]
fn a_failed_step_runs_again() {
    explore(2, || {
        let _me = i_may_wait();
        let value = Value::new();
        let others = vec![one(&value, true)];
        value.get(false).unwrap();
        all_end(others);
        assert!(matches!(value.once.stage(), Stage::Failed | Stage::Done));
        value.get(false).unwrap();
        assert_eq!(value.once.stage(), Stage::Done);
    });
}

#[test]
fn a_waiter_is_cancelled() {
    explore(2, || {
        let _me = i_may_wait();
        let value = Value::new();
        let others = vec![one(&value, false)];
        let sleeper = others[0].sleeper.clone();
        let canceller = loom::thread::spawn(move || _ = sleeper.cancel());
        value.get(false).unwrap();
        canceller.join().unwrap();
        all_end(others);
        assert_eq!(value.once.stage(), Stage::Done);
    });
}
