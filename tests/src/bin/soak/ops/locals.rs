//! The runtime's `thread_local!`: each green thread has its own value, on any OS thread, destroyed when the
//! thread ends.

use std::cell::{Cell, RefCell};

use tests::{OnDrop, Token};

use crate::actor::Actor;

type Ending = OnDrop<Box<dyn FnMut()>>;

runtime::thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    static WORDS: RefCell<Vec<u64>> = RefCell::new(Vec::new());
    static TOKEN: RefCell<Option<Token>> = const { RefCell::new(None) };
    static ENDING: RefCell<Option<Ending>> = const { RefCell::new(None) };
}

/// Threads neither see nor change each other's values.
pub(super) fn own_values(a: &mut Actor) {
    let (number, token) = (a.random.number(), a.token());
    let child = a.spawn(move |b| {
        assert_eq!((NUMBER.get(), WORDS.with_borrow(Vec::len)), (0, 0), "a new thread has new values");
        TOKEN.set(Some(token));
        for i in 0..b.number(1..6) {
            NUMBER.set(number + i);
            WORDS.with_borrow_mut(|words| words.push(number + i));
            b.pause();
            assert_eq!(NUMBER.get(), number + i);
            assert_eq!(WORDS.with_borrow(|words| words.last().copied()), Some(number + i));
        }
    });
    // Only this operation touches NUMBER, and performs no other operation, so the caller's value must stay.
    NUMBER.set(number);
    a.pause();
    child.value();
    assert_eq!(NUMBER.get(), number);
}

/// Destructors of values may park, and may use other values.
pub(super) fn destructors(a: &mut Actor) {
    let (token, time) = (a.token(), a.micros(200));
    let child = a.spawn(move |_| {
        let mut token = Some(token);
        ENDING.set(Some(OnDrop(Box::new(move || {
            runtime::sleep(time);
            let token = token.take();
            TOKEN.with(|slot| *slot.borrow_mut() = token);
        }))));
    });
    child.value();
}
