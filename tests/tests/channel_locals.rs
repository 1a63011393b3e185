//! Channels in the destructors of thread-locals, while a thread of either kind ends.

use std::cell::RefCell;

use runtime::channel::{Receiver, Select, Sender, bounded, unbounded};
use runtime::select;
use tests::channels::{KINDS, LONG};
use tests::crowd::in_each;

/// Talks to its partner when it is dropped.
struct Farewell(Sender<u8>, Receiver<u8>);

impl Drop for Farewell {
    fn drop(&mut self) {
        let Farewell(s, r) = self;
        s.send(1).unwrap();
        assert_eq!(r.recv(), Ok(2));
        select! {
            send(s, 3) -> sent => sent.unwrap(),
            recv(r) -> _ => unreachable!(),
        }
        let mut select = Select::new();
        select.recv(r);
        assert_eq!(select.select_timeout(LONG).unwrap().recv(r), Ok(4));
        select.ready();
        assert_eq!(r.try_recv(), Ok(5));
    }
}

fn partner(s: &Sender<u8>, r: &Receiver<u8>) {
    assert_eq!(r.recv(), Ok(1));
    s.send(2).unwrap();
    assert_eq!(r.recv(), Ok(3));
    s.send(4).unwrap();
    s.send(5).unwrap();
}

#[test]
fn of_a_plain_thread() {
    thread_local!(static LAST: RefCell<Option<Farewell>> = const { RefCell::new(None) });
    in_each(|| {
        for kind in KINDS {
            for used_before in [true, false] {
                let ((there, r), (s, back)) = (kind.make(), kind.make());
                let ending = std::thread::spawn(move || {
                    let farewell = Farewell(there, back);
                    if used_before {
                        // The runtime's own thread-locals are there before ours, and go after it, or the other way round.
                        let (s, r) = unbounded();
                        assert!(r.recv_timeout(std::time::Duration::from_millis(1)).is_err());
                        s.send(1).unwrap();
                    }
                    LAST.set(Some(farewell));
                });
                partner(&s, &r);
                tests::wait_until("it has ended", || ending.is_finished());
                ending.join().unwrap();
            }
        }
    });
}

#[test]
fn of_a_green_thread() {
    runtime::thread_local!(static LAST: RefCell<Option<Farewell>> = const { RefCell::new(None) });
    in_each(|| {
        for kind in KINDS {
            let ((there, r), (s, back)) = (kind.make(), kind.make());
            let ending =
                runtime::spawn(move || LAST.with(|last| *last.borrow_mut() = Some(Farewell(there, back))));
            partner(&s, &r);
            ending.join().unwrap();
        }
    });
}

/// A thread's own channel, whose both ends go with its locals.
#[test]
fn both_ends_in_one_local() {
    type Own = (Sender<tests::Token>, Receiver<tests::Token>);
    runtime::thread_local!(static OWN: Own = bounded(3));
    in_each(|| {
        let drops = tests::Drops::default();
        let counted = drops.clone();
        let ending =
            runtime::spawn(move || OWN.with(|(s, _)| (0..3).for_each(|_| s.send(counted.token()).unwrap())));
        ending.join().unwrap();
        tests::wait_until("they are gone", || drops.alive() == 0);
        assert_eq!(drops.count(), 3);
    });
}
