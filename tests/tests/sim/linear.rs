//! The checker of linearizability. `examples/tests/helpers/known.rs` has more histories with known answers.

use std::sync::Arc;

use runtime::sim::linear::{History, Model};
use runtime::sim::{self, Builder};
use runtime::sync::Mutex;
use runtime::{spawn, yield_now};

/// An operation on one of several stacks.
#[derive(Clone, Debug, PartialEq)]
enum Did {
    Push(u8, u32),
    Pop(u8, Option<u32>),
}
use Did::{Pop, Push};

impl Model for Did {
    type State = Vec<u32>;
    type Part = u8;

    fn part(&self) -> u8 {
        let (Push(stack, _) | Pop(stack, _)) = self;
        *stack
    }

    fn apply(&self, state: &Vec<u32>) -> Option<Vec<u32>> {
        let mut state = state.clone();
        match *self {
            Push(_, value) => state.push(value),
            Pop(_, value) => return (state.pop() == value).then_some(state),
        }
        Some(state)
    }
}

/// Returns whether a history has an order: of each operation its call, its return and what it did.
fn check(operations: &[(u64, Option<u64>, Did)]) -> Result<(), String> {
    let history = History::new();
    for (client, (called, returned, did)) in (0..).zip(operations) {
        history.add(client, *called, *returned, did.clone());
    }
    history.check().map_err(|violation| violation.to_string())
}

#[test]
fn an_order_is_found_and_parts_are_independent() {
    check(&[]).unwrap();
    check(&[(1, Some(2), Push(0, 1)), (3, Some(4), Push(0, 2)), (5, Some(6), Pop(0, Some(2)))]).unwrap();
    // What overlaps may happen in either order.
    check(&[(1, Some(3), Push(0, 1)), (2, Some(4), Push(0, 2)), (5, Some(6), Pop(0, Some(1)))]).unwrap();
    // Without an answer: late, or never.
    check(&[(1, None, Push(0, 1)), (2, Some(3), Pop(0, None)), (4, Some(5), Pop(0, Some(1)))]).unwrap();
    check(&[(1, None, Push(0, 1)), (2, Some(3), Pop(0, None))]).unwrap();
    // Another stack.
    check(&[(1, Some(2), Push(0, 1)), (3, Some(4), Pop(1, None))]).unwrap();
    check(&[(1, Some(2), Push(0, 1)), (3, Some(4), Pop(0, None))]).unwrap_err();
    check(&[(3, Some(4), Push(0, 1)), (1, Some(2), Pop(0, Some(1)))]).unwrap_err();
}

#[test]
fn a_violation_is_a_picture_of_its_part() {
    let text = check(&[
        (1, Some(2), Push(7, 9)),
        (10, Some(40), Push(0, 1)),
        (20, None, Push(0, 2)),
        (50, Some(60), Pop(0, None)),
    ])
    .unwrap_err();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].contains("not linearizable"));
    assert!(lines[1].starts_with("  [=") && lines[1].contains("client 1: Push(0, 1) (10 to 40)"), "{text}");
    assert!(lines[2].contains("=>") && lines[2].contains("Push(0, 2) (20 to ?)"), "{text}");
    assert!(lines[3].starts_with("* [") && lines[3].contains("Pop(0, None)"), "the one that is left: {text}");
}

#[test]
fn operations_of_one_moment_have_the_order_in_which_they_were_made() {
    // The time of a simulation stands still here.
    sim::run(0, || {
        let history = History::new();
        history.call(1).returned(Push(0, 1));
        history.call(2).returned(Pop(0, Some(1)));
        history.call(1).returned(Pop(0, None));
        history.check().unwrap();
        assert_eq!(history.answered(), 3);
        // A call that is dropped is no part of it, and one without an answer may have had no effect.
        drop(history.call(1));
        history.call(2).unanswered(Push(0, 2));
        assert_eq!(history.answered(), 3);
        history.check().unwrap();
        history.call(1).returned(Pop(0, Some(7)));
        history.check().unwrap_err();

        // Before the push, not beside it.
        let history = History::new();
        history.call(2).returned(Pop(0, Some(1)));
        history.call(1).returned(Push(0, 1));
        history.check().unwrap_err();
    });
}

/// Two clients use a stack, of which each operation locks twice if `torn`.
fn use_stack(torn: bool) {
    let (stack, history) = (Arc::new(Mutex::new(Vec::new())), Arc::new(History::new()));
    let clients: Vec<_> = (1..=2)
        .map(|client| {
            let (stack, history) = (stack.clone(), history.clone());
            spawn(move || {
                let call = history.call(u64::from(client));
                stack.lock().push(client);
                call.returned(Push(0, client));
                let call = history.call(u64::from(client));
                let popped = if torn {
                    let last = stack.lock().last().copied();
                    yield_now();
                    stack.lock().pop();
                    last
                } else {
                    stack.lock().pop()
                };
                call.returned(Pop(0, popped));
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    history.check().unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn a_stack_that_is_not_atomic_is_found() {
    Builder::new().explore(500, || use_stack(false));
    let failure = Builder::new().try_explore(500, || use_stack(true)).unwrap_err();
    assert!(failure.message().contains("not linearizable"), "{failure}");
}
