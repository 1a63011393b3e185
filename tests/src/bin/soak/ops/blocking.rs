//! What holds an OS thread: declared, undeclared, and computing.

use std::sync::mpsc;
use std::time::Duration;

use tests::ON_PURPOSE;

use super::panicking;
use crate::actor::{Actor, not_before};

pub(super) fn declared(a: &mut Actor) {
    let (time, value) = (a.micros(400), a.random.number());
    not_before(time, || {
        let got = runtime::blocking(|| {
            std::thread::sleep(time);
            value
        });
        assert_eq!(got, value);
    });
}

/// It may unwind.
pub(super) fn panics(a: &mut Actor) {
    let time = a.micros(200);
    let caught = panicking::catch(|| {
        runtime::blocking(|| {
            std::thread::sleep(time);
            panic!("{ON_PURPOSE}: blocking");
        });
    });
    assert!(caught.is_err_and(|text| text.starts_with(ON_PURPOSE)));
    a.pause();
}

/// It may call the runtime, and even wait there.
pub(super) fn around_anything(a: &mut Actor) {
    runtime::blocking(|| a.anything());
}

pub(super) fn undeclared(a: &mut Actor) {
    std::thread::sleep(a.micros(3000));
}

/// Blocked until another green thread has run.
pub(super) fn on_a_std_channel(a: &mut Actor) {
    if a.site.mode.keeps_thread {
        // That one may be bound to the OS thread that is blocked.
        return a.pause();
    }
    let (sender, receiver) = mpsc::channel();
    let value = a.random.number();
    let child = a.spawn(move |b| {
        b.pause();
        sender.send(value)
    });
    let got = if a.one_in(2) { runtime::blocking(|| receiver.recv()) } else { receiver.recv() };
    a.check(got == Ok(value), "what was sent");
    child.value().expect("the receiver is there");
}

pub(super) fn computes(a: &mut Actor) {
    tests::spin(a.micros(100));
}

pub(super) fn hogs(a: &mut Actor) {
    tests::spin(Duration::from_millis(a.number(1..16)));
}
