//! `Flow`: the bytes in one direction between the ends of a pair, in a buffer of a fixed size. No call waits.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use std::sync::Arc;

use sched::sync::Mutex;

use crate::sync::Notify;

#[derive(Debug)]
pub(super) struct Flow {
    state: Mutex<State>,
    size: usize,
    /// Notifies all readers of bytes, and of an end.
    pub(super) readable: Arc<Notify>,
    /// Notifies all writers of room, and of an end.
    pub(super) writable: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// At most `size`.
    bytes: VecDeque<u8>,
    /// No bytes are added any more.
    has_ended: bool,
}

impl Flow {
    pub(super) fn new(size: usize) -> Flow {
        Flow { state: Mutex::new(State::default()), size, readable: Arc::default(), writable: Arc::default() }
    }

    /// Takes bytes with `take`, which gets the buffer and returns how many bytes it took. Returns 0 at the
    /// end of the stream, and `WouldBlock` if there are no bytes yet.
    fn read_with(&self, take: impl FnOnce(&mut VecDeque<u8>) -> usize) -> io::Result<usize> {
        let taken = {
            let mut state = self.state.lock();
            if state.bytes.is_empty() {
                return if state.has_ended { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
            }
            take(&mut state.bytes)
        };
        // The lock is free, because a notification runs wakers.
        self.writable.notify_waiters();
        Ok(taken)
    }

    /// Reads into several buffers. Returns the number of bytes.
    pub(super) fn read(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if bufs.iter().all(|buf| buf.is_empty()) {
            return Ok(0);
        }
        self.read_with(|bytes| bufs.iter_mut().map(|buf| take(bytes, buf)).sum())
    }

    /// Reads into memory that is not initialised. Returns the number of bytes.
    #[allow(dead_code, reason = "only the traits of hyper read so")]
    pub(super) fn read_uninit(&self, room: &mut [std::mem::MaybeUninit<u8>]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        self.read_with(|bytes| {
            let n = room.len().min(bytes.len());
            for (place, byte) in room.iter_mut().zip(bytes.drain(..n)) {
                place.write(byte);
            }
            n
        })
    }

    /// Adds what there is room for. Returns the number of bytes, `WouldBlock` if there is no room, and
    /// `BrokenPipe` after an end.
    pub(super) fn write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = {
            let mut state = self.state.lock();
            if state.has_ended {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let before = state.bytes.len();
            if before == self.size && bufs.iter().any(|buf| !buf.is_empty()) {
                return Err(ErrorKind::WouldBlock.into());
            }
            for buf in bufs {
                let room = self.size - state.bytes.len();
                state.bytes.extend(&buf[..buf.len().min(room)]);
            }
            debug_assert!(state.bytes.len() <= self.size);
            state.bytes.len() - before
        };
        if written > 0 {
            self.readable.notify_waiters();
        }
        Ok(written)
    }

    /// Ends the flow. What is in the buffer can still be read.
    pub(super) fn end(&self) {
        self.state.lock().has_ended = true;
        self.readable.notify_waiters();
        self.writable.notify_waiters();
    }

    /// Ends the flow, and frees the buffer: there is no reader any more.
    pub(super) fn end_unread(&self) {
        let unread = {
            let mut state = self.state.lock();
            state.has_ended = true;
            std::mem::take(&mut state.bytes)
        };
        drop(unread);
        self.writable.notify_waiters();
    }
}

/// Moves bytes into `buf` until it is full or there are no more.
fn take(bytes: &mut VecDeque<u8>, buf: &mut [u8]) -> usize {
    let n = buf.len().min(bytes.len());
    bytes.read_exact(&mut buf[..n]).expect("there are as many bytes");
    n
}
