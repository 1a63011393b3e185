//! `Receiver::poll_recv`: a receive by hand, from poll to poll, in every kind of channel.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use runtime::channel::{Receiver, RecvError, Sender, after, bounded, never, unbounded};
use runtime::{block_on, spawn};
use tests::{Drops, everywhere, on_each, until_it_waits};

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn poll<T: Send + 'static>(receiver: &mut Receiver<T>, wakes: &Arc<Wakes>) -> Poll<Result<T, RecvError>> {
    receiver.poll_recv(&mut Context::from_waker(&Waker::from(wakes.clone())))
}

fn with_room<T>() -> [(Sender<T>, Receiver<T>); 2] {
    [bounded(1), unbounded()]
}

#[test]
fn a_message_wakes_the_last_task_and_comes_with_its_next_poll() {
    everywhere(|| {
        for (s, mut r) in with_room() {
            let [first, second] = [(); 2].map(|()| Arc::new(Wakes::default()));
            assert!(poll(&mut r, &first).is_pending());
            assert!(poll(&mut r, &second).is_pending());
            s.send(1).unwrap();
            assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (0, 1));
            s.send(2).unwrap();
            assert_eq!(poll(&mut r, &first), Poll::Ready(Ok(1)));
            assert_eq!(poll(&mut r, &first), Poll::Ready(Ok(2)));
            assert!(poll(&mut r, &first).is_pending());
            drop(s);
            assert_eq!(first.0.load(SeqCst), 1);
            assert_eq!(poll(&mut r, &first), Poll::Ready(Err(RecvError)));
            assert_eq!(poll(&mut r, &first), Poll::Ready(Err(RecvError)));
        }
        assert!(poll(&mut never::<()>(), &Arc::default()).is_pending());
        let mut due = after(Duration::from_millis(1));
        block_on(poll_fn(|cx| due.poll_recv(cx))).unwrap();
    });
}

#[test]
fn a_message_of_a_receiver_that_is_dropped_goes_to_another() {
    everywhere(|| {
        for (s, mut r) in with_room() {
            let (other, drops) = (r.clone(), Drops::default());
            assert!(poll(&mut r, &Arc::default()).is_pending());
            s.send(drops.token()).unwrap();
            drop(r);
            assert_eq!(drops.alive(), 1);
            drop(other.try_recv().unwrap());
            // The last receiver drops what it was given.
            let mut last = other;
            assert!(poll(&mut last, &Arc::default()).is_pending());
            s.send(drops.token()).unwrap();
            drop(last);
            assert_eq!(drops.alive(), 0);
            assert!(s.send(drops.token()).is_err(), "a receiver is left");
        }
    });
}

#[test]
fn polls_receive_each_message_in_its_order() {
    on_each(|| {
        for (s, mut r) in [bounded(0), bounded(1), bounded(3), unbounded()] {
            let receiver = spawn(async move {
                let mut got = Vec::new();
                while let Ok(n) = poll_fn(|cx| r.poll_recv(cx)).await {
                    got.push(n);
                }
                got
            });
            until_it_waits(&receiver);
            (0..1000).for_each(|n| s.send(n).unwrap());
            drop(s);
            assert_eq!(receiver.join().unwrap(), (0..1000).collect::<Vec<_>>());
        }
    });
}
