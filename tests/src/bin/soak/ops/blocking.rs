//! Operations that keep an OS thread busy: with `blocking`, blocked without it, and computing.

use std::sync::mpsc;
use std::time::Duration;

use tests::ON_PURPOSE;

use super::panicking;
use crate::actor::{Actor, not_before};

/// With the feature `interpose` a cancellation would end std's sleep early.
fn sleep_on_os_thread(time: Duration) {
    runtime::thread::uncancellable(|| std::thread::sleep(time));
}

pub(super) fn declared(a: &mut Actor) {
    let (time, value) = (a.micros(400), a.random.number());
    not_before(time, || {
        let got = runtime::blocking(|| {
            sleep_on_os_thread(time);
            value
        });
        assert_eq!(got, value);
    });
}

/// A panic passes out of `blocking`.
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

/// Code inside `blocking` may call the runtime, and may park.
pub(super) fn around_anything(a: &mut Actor) {
    runtime::blocking(|| a.anything());
}

pub(super) fn undeclared(a: &mut Actor) {
    std::thread::sleep(a.micros(3000));
}

/// A receiver of a std channel blocks its OS thread until another green thread has sent.
pub(super) fn on_a_std_channel(a: &mut Actor) {
    if a.site.mode.keeps_thread {
        // The sender may be bound to the OS thread that the receiver blocks.
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
