//! Channels used in destructors of thread-locals, while a plain or green thread ends.

use std::cell::RefCell;

use runtime::channel::{Receiver, Select, Sender, bounded, unbounded};
use runtime::select;
use tests::channels::{KINDS, LONG};
use tests::crowd::in_each;

/// Exchanges messages with a partner thread when it is dropped.
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
#[cfg_attr(windows, ignore = "Windows starts no thread while a destructor runs, so waits there can deadlock")]
fn locals_of_a_plain_thread_use_channels() {
    thread_local!(static LAST: RefCell<Option<Farewell>> = const { RefCell::new(None) });
    in_each(|| {
        for kind in KINDS {
            for used_before in [true, false] {
                let ((there, r), (s, back)) = (kind.make(), kind.make());
                let ending = std::thread::spawn(move || {
                    let farewell = Farewell(there, back);
                    if used_before {
                        // If the runtime's thread-locals exist before `LAST`, they are destroyed after it;
                        // otherwise before it.
                        let (s, r) = unbounded();
                        assert!(r.recv_timeout(std::time::Duration::from_millis(1)).is_err());
                        s.send(1).unwrap();
                    }
                    LAST.set(Some(farewell));
                });
                partner(&s, &r);
                tests::wait_until("the thread has ended", || ending.is_finished());
                ending.join().unwrap();
            }
        }
    });
}

#[test]
fn locals_of_a_green_thread_use_channels() {
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

/// A green thread's local holds both ends of a channel.
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
        tests::wait_until("the messages are dropped", || drops.alive() == 0);
        assert_eq!(drops.count(), 3);
    });
}
