//! `Side`: a handle to one end of a pair, and its waits: try, wait for a notification, and try again.
//!
//! Each wait begins before its attempt, so it misses no notification that comes after the attempt. A
//! notification wakes all waits of its direction.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use netpoll::Direction;
use sched::block_on::block_on;
use sched::budget;
use sched::sync::Mutex;

use super::flow::Flow;
use crate::sync::{Notify, OwnedNotified};

/// One end of a pair. Its reads and writes never wait. The drop ends both directions.
#[derive(Debug)]
pub(crate) struct End {
    input: Arc<Flow>,
    output: Arc<Flow>,
}

impl End {
    /// Reads into memory that is not initialised. Never waits.
    #[allow(dead_code, reason = "only the traits of hyper read so")]
    pub(crate) fn read_uninit(&self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        self.input.read_uninit(room)
    }

    fn changes(&self, direction: Direction) -> &Arc<Notify> {
        match direction {
            Direction::Read => &self.input.readable,
            Direction::Write => &self.output.writable,
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.input.end_unread();
        self.output.end();
    }
}

impl Read for &End {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.input.read(&mut [IoSliceMut::new(buf)])
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.input.read(bufs)
    }
}

impl Write for &End {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.output.write(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.output.write(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A handle to an end, with the waits of the tasks that poll this handle. Handles share their end.
#[derive(Debug)]
pub(crate) struct Side {
    end: Arc<End>,
    pending: [Pending; 2],
}

/// The wait of the task that was polled last in one direction.
type Pending = Mutex<Option<Pin<Box<OwnedNotified>>>>;

impl Side {
    /// Returns two ends with a buffer of `size` bytes in each direction.
    pub(super) fn pair(size: usize) -> (Side, Side) {
        let [one, other] = [(); 2].map(|()| Arc::new(Flow::new(size)));
        let first = End { input: Arc::clone(&one), output: Arc::clone(&other) };
        (Side::of(Arc::new(first)), Side::of(Arc::new(End { input: other, output: one })))
    }

    fn of(end: Arc<End>) -> Side {
        Side { end, pending: Default::default() }
    }

    /// Returns another handle to the same end.
    pub(crate) fn share(&self) -> Side {
        Side::of(Arc::clone(&self.end))
    }

    /// Returns `true` if both handles are of the same end.
    pub(crate) fn is_same(&self, other: &Side) -> bool {
        Arc::ptr_eq(&self.end, &other.end)
    }

    /// Ends reading, writing or both.
    pub(super) fn shutdown(&self, how: Shutdown) {
        crate::point();
        if how != Shutdown::Write {
            self.end.input.end();
        }
        if how != Shutdown::Read {
            self.end.output.end();
        }
    }

    /// Runs `op` until it would no longer block. Parks in between.
    pub(super) fn run<T>(
        &self,
        direction: Direction,
        mut op: impl FnMut(&End) -> io::Result<T>,
    ) -> io::Result<T> {
        crate::point();
        match op(&self.end) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => block_on(self.run_async(direction, op)),
            done => done,
        }
    }

    /// Runs `op` until it would no longer block, in a future.
    pub(super) async fn run_async<T>(
        &self,
        direction: Direction,
        mut op: impl FnMut(&End) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let mut change = pin!(self.end.changes(direction).notified_async());
            if let Some(done) = budget::poll_fn(|cx| attempt(op(&self.end), change.as_mut(), cx)).await {
                return done;
            }
        }
    }

    /// Runs `op` until it would no longer block, in a poll. The task is woken to try again. In one direction
    /// of one handle, the task that was polled last is woken.
    #[allow(dead_code, reason = "only the traits of other crates poll")]
    pub(crate) fn poll<T>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        mut op: impl FnMut(&End) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        budget::poll(cx, |cx| {
            // It is outside of the lock while it is polled, because a poll runs code of the waker.
            let mut kept = self.pending[direction as usize].lock().take();
            loop {
                let mut change = kept
                    .take()
                    .unwrap_or_else(|| Box::pin(Arc::clone(self.end.changes(direction)).notified_owned()));
                match attempt(op(&self.end), change.as_mut(), cx) {
                    Poll::Ready(Some(done)) => return Poll::Ready(done),
                    Poll::Ready(None) => {}
                    Poll::Pending => {
                        let older = self.pending[direction as usize].lock().replace(change);
                        drop(older);
                        return Poll::Pending;
                    }
                }
            }
        })
    }
}

/// Returns what an attempt has done. Polls `change` if the attempt would have blocked, and returns `None` if
/// there was a change.
fn attempt<T>(
    done: io::Result<T>,
    change: Pin<&mut impl Future<Output = ()>>,
    cx: &mut Context<'_>,
) -> Poll<Option<io::Result<T>>> {
    match done {
        Err(error) if error.kind() == ErrorKind::WouldBlock => change.poll(cx).map(|()| None),
        done => Poll::Ready(Some(done)),
    }
}
