//! `select!` over things that are no channels: what a select waits for and does not get goes to another
//! thread, also when threads are interrupted.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use runtime::channel::{Receiver, bounded};
use runtime::context::Context;
use runtime::select;
use runtime::sync::{Notify, Semaphore};
use runtime::time::sleep_async;
use tests::{OnDrop, Token};

use crate::actor::{Actor, by_itself};

const PERMITS: usize = 2;

/// What the threads of one operation wait for.
struct Things {
    notify: Notify,
    semaphore: Semaphore,
    letters: Receiver<Token>,
    context: Context,
}

/// Some threads receive letters, hold permits and hand one notification on, until the context ends.
pub(super) fn events(a: &mut Actor) {
    let ((sender, letters), count) = (bounded(1), a.number(0..40));
    let (context, cancel) = Context::background().with_cancel();
    let things =
        Arc::new(Things { notify: Notify::new(), semaphore: Semaphore::new(PERMITS), letters, context });
    things.notify.notify_one();
    let children: Vec<_> = (0..a.number(1..5))
        .map(|_| {
            let things = things.clone();
            a.spawn(move |b| selects(b, &things))
        })
        .collect();
    for _ in 0..count {
        let letter = a.token();
        a.check(sender.send(letter).is_ok(), "the channel has a receiver");
        if a.one_in(8) {
            a.pause();
        }
    }
    cancel.cancel();
    let mut received: u64 = children.into_iter().map(|child| child.value()).sum();
    received += things.letters.try_iter().count() as u64;
    a.check(received == count, "all letters came");
    a.check(things.semaphore.available_permits() == PERMITS, "all permits are back");
    let kept = || select! { notified(things.notify) -> () => true, default => false };
    a.check(kept() && !kept(), "the notification is there once");
}

fn selects(a: &mut Actor, things: &Things) -> u64 {
    let mut received = 0;
    let mut sleeps = sleep_async(a.micros(2000));
    let mut slept = false;
    loop {
        // A child that is not joined is cancelled.
        let child = a.one_in(4).then(|| a.spawn(|b| b.pause()));
        select! {
            recv(things.letters) -> letter => match letter {
                Ok(_token) => received += 1,
                // An interrupted spawner has dropped the sender.
                Err(_) => return received,
            },
            notified(things.notify) -> () => {
                // Handed on also by a thread that is interrupted.
                let _hands_on = OnDrop(|| things.notify.notify_one());
                a.pause();
            }
            acquired(things.semaphore) -> permit => {
                let _permit = permit.expect("the semaphore is not closed");
                a.pause();
            }
            done(things.context) -> _ => return received,
            join(async {
                match child {
                    Some(child) => child.joined().await,
                    None => pending().await,
                }
            }) -> ended => by_itself(ended),
            timer(a.micros(300)) -> _ => {}
            future(async {
                match slept {
                    false => (&mut sleeps).await,
                    true => pending().await,
                }
            }) -> () => slept = true,
            default(Duration::from_secs(3600)) => unreachable!("a timer comes before"),
        }
    }
}
