//! Polled calls on files, for the traits of async crates (`poll/traits.rs`).
//!
//! The system cannot poll files. So a call of a trait begins a blocking call on a green thread of its own,
//! and a later call takes its result. At most one is under way for each `File`. It is not bound to the
//! future that has begun it: bytes that were read for a dropped future are for the next one, and what was
//! written stays written.

use std::io::ErrorKind::NotSeekable;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::source;
use crate::aside::ended;
use crate::bounded::bounded;
use crate::thread::{Builder, JoinHandle};

mod traits;

/// The name of the green thread of a call.
const CALL: &str = "polled call on a file";

/// How many bytes one call reads or writes at most: they are copied.
const MOST: usize = 2 << 20;

/// What the calls of the traits have begun, and what they have left.
#[derive(Default)]
pub(super) struct Begun {
    call: Option<JoinHandle<Done>>,
    /// What was read and not yet taken: the position of the file is behind it.
    unread: io::Cursor<Vec<u8>>,
    /// Why a write has failed that was said to be done.
    failed: Option<io::Error>,
    /// Where the last seek has ended.
    position: u64,
}

/// What a blocking call has done.
enum Done {
    Read(io::Result<Vec<u8>>),
    Wrote(io::Result<()>),
    Moved(#[allow(dead_code, reason = "tokio's trait does not need it")] SeekFrom, io::Result<u64>),
}

// As for the handles of green threads: a panic of another thread leaves nothing half done here.
impl UnwindSafe for Begun {}
impl RefUnwindSafe for Begun {}

impl Begun {
    /// Reads into `room`.
    fn poll_read(
        &mut self,
        file: &Arc<source::File>,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if room.is_empty() {
            return Poll::Ready(Ok(0));
        }
        loop {
            let n = self.unread.read(room)?;
            if n > 0 {
                return Poll::Ready(Ok(n));
            }
            match ready!(self.settle(cx))? {
                Some(Done::Read(Err(error))) => return Poll::Ready(Err(error)),
                Some(Done::Read(Ok(_))) if self.unread.get_ref().is_empty() => return Poll::Ready(Ok(0)),
                Some(_) => {}
                None => self.begin_read(file, room.len().min(MOST))?,
            }
        }
    }

    fn begin_read(&mut self, file: &Arc<source::File>, most: usize) -> io::Result<()> {
        self.begin(file, move |mut file| {
            let mut bytes = vec![0; most];
            Done::Read(file.read(&mut bytes).map(|n| {
                bytes.truncate(n);
                bytes
            }))
        })
    }

    /// Begins to write the first bytes of `buf`, after what was begun before.
    fn poll_write(
        &mut self,
        file: &Arc<source::File>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_written(cx))?;
        let bytes = buf[..buf.len().min(MOST)].to_vec();
        let n = bytes.len();
        if n > 0 {
            self.begin_there(file, move |mut file, there| {
                Done::Wrote(there.and_then(|()| file.write_all(&bytes)))
            })?;
        }
        Poll::Ready(Ok(n))
    }

    /// Waits until what was written is with the system.
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while ready!(self.settle(cx))?.is_some() {}
        Poll::Ready(self.failed.take().map_or(Ok(()), Err))
    }

    /// Begins to move the position. No other call is under way.
    fn begin_seek(&mut self, file: &Arc<source::File>, to: SeekFrom) -> io::Result<()> {
        self.begin_there(file, move |mut file, there| Done::Moved(to, there.and_then(|()| file.seek(to))))
    }

    /// Begins a call. The next call of `settle` waits for it.
    fn begin(
        &mut self,
        file: &Arc<source::File>,
        call: impl FnOnce(&source::File) -> Done + Send + 'static,
    ) -> io::Result<()> {
        let file = file.clone();
        self.call = Some(Builder::new().name(CALL.into()).spawn(move || bounded(|| call(&file)))?);
        Ok(())
    }

    /// Waits for the call that is under way, and returns its result; `None` if there is none. Keeps the error
    /// of a write.
    fn settle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Done>>> {
        let Some(call) = &mut self.call else { return Poll::Ready(Ok(None)) };
        let done = ready!(Pin::new(call).poll(cx));
        self.call = None;
        let mut done = done.map_err(|payload| ended(CALL, payload))?;
        match &mut done {
            Done::Read(Ok(bytes)) => self.unread = io::Cursor::new(std::mem::take(bytes)),
            Done::Wrote(Err(error)) => {
                self.failed = Some(std::mem::replace(error, io::ErrorKind::Other.into()))
            }
            Done::Moved(_, Ok(position)) => self.position = *position,
            _ => {}
        }
        Poll::Ready(Ok(Some(done)))
    }

    /// Begins a call that first moves the position back to the first byte that was not taken.
    fn begin_there(
        &mut self,
        file: &Arc<source::File>,
        call: impl FnOnce(&source::File, io::Result<()>) -> Done + Send + 'static,
    ) -> io::Result<()> {
        let unread = self.unread.get_ref().len() as i64 - self.unread.position() as i64;
        self.begin(file, move |mut file| {
            let back = match unread {
                0 => Ok(()),
                _ => file.seek(SeekFrom::Current(-unread)).map(drop),
            };
            // A terminal has no position.
            call(file, back.or_else(|error| if error.kind() == NotSeekable { Ok(()) } else { Err(error) }))
        })?;
        self.unread = io::Cursor::default();
        Ok(())
    }
}
