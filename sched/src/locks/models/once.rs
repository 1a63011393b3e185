//! Once: it is done by one, all others see that, and nobody waits for ever.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::{Patience, Person, all_end, i_may_wait, person};
use crate::g::wait::Outcome;
use crate::locks::{Once, Stage};
use crate::models::explore;

struct Value {
    once: Once,
    value: UnsafeCell<u32>,
}

impl Value {
    fn new() -> Arc<Value> {
        Arc::new(Value { once: Once::new(Stage::New), value: UnsafeCell::new(0) })
    }

    /// Whoever begins makes it; all look at it.
    fn get(&self, fails: bool) -> Result<u32, Outcome> {
        if self.once.stage() != Stage::Done {
            let stage = self.once.begin(true, Patience::LONG)?;
            if stage != Stage::Done {
                // SAFETY: the one who began is alone; loom checks that.
                self.value.with_mut(|value| unsafe { *value += 1 });
                self.once.end(if fails { Stage::Failed } else { Stage::Done });
                return Ok(0);
            }
        }
        // SAFETY: it is done, so nobody writes any more.
        Ok(self.value.with(|value| unsafe { *value }))
    }
}

fn one(value: &Arc<Value>, fails: bool) -> Person<Result<u32, Outcome>> {
    let value = value.clone();
    person(move || value.get(fails))
}

#[test]
fn done_by_one() {
    explore(2, || {
        let _me = i_may_wait();
        let value = Value::new();
        let others = vec![one(&value, false), one(&value, false)];
        let mine = value.get(false).unwrap();
        let got: u32 = mine + all_end(others).into_iter().map(Result::unwrap).sum::<u32>();
        assert_eq!(got, 2, "one made it, and two saw it");
    });
}

#[test]
fn done_again_if_it_failed() {
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
fn one_that_waits_is_cancelled() {
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
