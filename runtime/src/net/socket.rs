//! A socket that is non-blocking underneath and blocks its caller, green or not, by parking it.

use std::io;

use netpoll::source::Source;
use netpoll::{Attempt, Direction, PollDesc, Wait, Waiter};
use sched::park::{Waiting, unwind_if_cancelled};
use sched::{Cancel, Outcome};

use crate::builder;

/// A source with its descriptor in the netpoller of the runtime that made it.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    // In this order: the source closes first, so no event of it comes for whoever has the descriptor's place next.
    source: S,
    desc: PollDesc,
}

impl<S: Source> Socket<S> {
    pub(crate) fn new(mut source: S) -> io::Result<Self> {
        let desc = builder::current_sched().netpoll().register(&mut source)?;
        Ok(Socket { source, desc })
    }

    pub(crate) fn source(&self) -> &S {
        &self.source
    }

    /// Does `op` until it no longer would block, waiting in between.
    pub(crate) fn run<T>(
        &self,
        direction: Direction,
        mut op: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let attempt = self.desc.prepare(direction);
            match attempt_once(&self.source, &mut op) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(direction, attempt)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Waits until something has happened in that direction since the attempt.
    pub(crate) fn wait(&self, direction: Direction, attempt: Attempt) -> io::Result<()> {
        unwind_if_cancelled();
        let waiting = Waiting::begin(Cancel::Ends);
        let waiter = Waiter::new(waiting.word());
        match self.desc.wait(attempt, waiter) {
            Ok(Wait::Ready) => Ok(()),
            Ok(Wait::Park) => {
                if waiting.park() != Outcome::Woken {
                    self.desc.withdraw(direction, waiter);
                    unwind_if_cancelled();
                }
                Ok(())
            }
            Err(netpoll::Closed) => Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "the runtime in which this socket was made has been shut down: nobody waits for it any more",
            )),
        }
    }

    pub(crate) fn prepare(&self, direction: Direction) -> Attempt {
        self.desc.prepare(direction)
    }
}

/// The system call and the reading of its error, in one function that no park is inlined into: `errno` belongs to
/// the OS thread.
#[inline(never)]
fn attempt_once<S, T>(source: &S, op: &mut impl FnMut(&S) -> io::Result<T>) -> io::Result<T> {
    op(source)
}
