//! A thread that polls, and threads that wait for it: a minimal scheduler.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use netpoll::{Direction, Netpoll, PollDesc, Wait, Waiter};

pub(crate) struct Reactor {
    pub(crate) netpoll: Arc<Netpoll>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    parked: Mutex<HashMap<Waiter, Sender<()>>>,
    next: AtomicU64,
    stop: AtomicBool,
}

impl Reactor {
    pub(crate) fn start() -> Reactor {
        let netpoll = Arc::new(Netpoll::new().unwrap());
        let shared = Arc::new(Shared::default());
        let thread = thread::spawn({
            let (netpoll, shared) = (Arc::clone(&netpoll), Arc::clone(&shared));
            move || {
                let mut ready = Vec::new();
                while !shared.stop.load(Ordering::SeqCst) {
                    let mut turn = netpoll.begin_block().unwrap();
                    turn.publish(u64::MAX);
                    turn.block(u64::MAX, None, &mut ready).unwrap();
                    ready.drain(..).for_each(|waiter| shared.wake(waiter));
                }
            }
        });
        Reactor { netpoll, shared, thread: Some(thread) }
    }

    /// Repeats an attempt, with a wait after each `WouldBlock`. Returns the first other result.
    pub(crate) fn retry<T>(
        &self,
        desc: &PollDesc,
        direction: Direction,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let prepared = desc.prepare(direction);
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let waiter = Waiter::new(self.shared.next.fetch_add(1, Ordering::Relaxed) + 1);
            let (wake, woken) = channel();
            self.shared.parked.lock().unwrap().insert(waiter, wake);
            match desc.wait(prepared, waiter) {
                Ok(Wait::Park) => woken.recv().unwrap(),
                not_parked => {
                    self.shared.parked.lock().unwrap().remove(&waiter);
                    let Wait::Ready = not_parked? else { unreachable!("parked waiters were handled above") };
                }
            }
        }
    }

    pub(crate) fn wake(&self, waiters: Vec<Waiter>) {
        waiters.into_iter().for_each(|waiter| self.shared.wake(waiter));
    }
}

impl Shared {
    fn wake(&self, waiter: Waiter) {
        let parked = self.parked.lock().unwrap().remove(&waiter);
        parked.expect("each waiter is woken only while it waits, and once").send(()).unwrap();
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.netpoll.break_poll();
        let outcome = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            outcome.unwrap().unwrap();
        }
    }
}
