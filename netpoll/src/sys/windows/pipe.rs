//! Ends of named pipes. No call waits. An end has a buffer, and at most one operation of the system
//! at a time, which may go on in the background.
//!
//! Windows has no readiness of pipes: an operation on a pipe begins, and ends at once or later. A thread of
//! the system's pool hears of the later end:
//!
//! ```text
//!   a reader, under the lock                      the pool's thread
//!   1  bytes in the buffer -> take them           1  under the lock: note what the operation has done
//!   2  an operation goes on -> WouldBlock         2  report it: the next poll wakes the readers
//!   3  begin to read into the buffer: it ended
//!      at once -> 1, else WouldBlock
//! ```
//!
//! A reader that gives up leaves the operation behind, and the bytes wait in the buffer for the next reader.
//! A writer copies its bytes into the buffer and begins to write. What the pipe has no room for is written in
//! the background, and the next write waits for the end of that. The handle of a dropped writer is closed
//! after that, too, also if no runtime polls any more.
//!
//! # Rejected
//!
//! - *mio's `NamedPipe`*. It hears of an end only when its port is polled, and keeps the handle until then.
//!   A runtime without sources does not poll. So a child would wait for ever for the end of its input, after
//!   the last pipe of its parent was dropped. Nor is anything written after the end of the runtime.
//! - *An event for each operation*. The system's pool takes a thread for each 63 events. And the system ends
//!   such an operation with the thread that has begun it.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle, RawHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, process, ptr};

use parking_lot::{Mutex, MutexGuard};
use windows_sys::Win32::Foundation::{
    ERROR_BROKEN_PIPE, ERROR_IO_PENDING, ERROR_WRITE_FAULT, GENERIC_READ, GENERIC_WRITE, INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::Storage::FileSystem::{
    CreateFileW, FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, FILE_READ_ATTRIBUTES,
    FILE_WRITE_ATTRIBUTES, OPEN_EXISTING, PIPE_ACCESS_INBOUND, PIPE_ACCESS_OUTBOUND, ReadFile,
    SetFileCompletionNotificationModes, WriteFile,
};
use windows_sys::Win32::System::IO::{CancelIoEx, GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Pipes::{
    CreateNamedPipeW, PIPE_READMODE_BYTE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_BYTE, PIPE_WAIT,
};
use windows_sys::Win32::System::Threading::{
    CancelThreadpoolIo, CloseThreadpoolIo, CreateThreadpoolIo, PTP_CALLBACK_INSTANCE, PTP_IO,
    StartThreadpoolIo,
};

use super::Reporter;
use crate::source::{Interest, Registry, Source, Token};
use crate::waiter::Direction;

/// The most bytes of one operation, and what a pipe holds beside.
const MOST: u32 = 64 << 10;

/// `FILE_SKIP_COMPLETION_PORT_ON_SUCCESS`: the pool does not hear of what has ended at once.
const NOT_AT_ONCE: u8 = 1;

/// The end of a pipe that reads.
pub struct Receiver(End);

/// The end of a pipe that writes.
pub struct Sender(End);

struct End {
    // An operation that writes keeps the handle open, too.
    handle: Arc<OwnedHandle>,
    shared: Arc<Shared>,
}

/// What an operation in the background uses. Each has a reference of its own, which its callback takes.
#[repr(C)]
struct Shared {
    // The first field: an operation's pointer is that of its `Shared`.
    overlapped: UnsafeCell<OVERLAPPED>,
    pool: PTP_IO,
    direction: Direction,
    state: Mutex<State>,
}

// SAFETY: only the operation uses `overlapped`, and `State::busy`, which is under the lock, admits one at a
// time. Any thread may use `pool`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

#[derive(Default)]
struct State {
    /// An operation goes on. The system uses the buffer and `Shared::overlapped`.
    busy: bool,
    /// Its bytes from `start` to `end` have been read, and not taken yet; or they are being written.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The system's error of an operation in the background, for the next caller.
    failed: Option<u32>,
    reporter: Option<Reporter>,
    /// The handle of a writer, while its operation goes on.
    kept: Option<Arc<OwnedHandle>>,
}

/// The end of an operation that ended at once: the number of bytes, or the system's error.
type Ended = Result<usize, u32>;

impl End {
    #[inline(never)]
    fn new(handle: OwnedHandle, direction: Direction) -> io::Result<End> {
        // SAFETY: `handle` keeps the handle open. The callback needs no context: it takes an operation's.
        let pool = unsafe {
            CreateThreadpoolIo(handle.as_raw_handle(), Some(ended_later), ptr::null_mut(), ptr::null())
        };
        if pool == 0 {
            return Err(io::Error::last_os_error());
        }
        let (overlapped, state) = (UnsafeCell::new(OVERLAPPED::default()), Mutex::default());
        // From here on its drop gives `pool` back.
        let shared = Arc::new(Shared { overlapped, pool, direction, state });
        // SAFETY: `handle` keeps the handle open.
        if unsafe { SetFileCompletionNotificationModes(handle.as_raw_handle(), NOT_AT_ONCE) } == 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(End { handle: Arc::new(handle), shared })
    }

    /// Begins an operation by `begin`. Returns `None` if it goes on.
    ///
    /// # Safety
    ///
    /// `begin` begins an operation on the handle that it gets, with the `OVERLAPPED` that it gets and the
    /// buffer of `state`, and returns the system's answer. The state is not busy.
    #[inline(never)]
    unsafe fn begin(
        &self,
        state: &mut State,
        begin: impl FnOnce(RawHandle, &mut [u8], *mut OVERLAPPED) -> i32,
    ) -> Option<Ended> {
        debug_assert!(!state.busy, "one operation at a time");
        let handle = self.handle.as_raw_handle();
        let shared = Arc::into_raw(Arc::clone(&self.shared));
        // The operation's reference: `ended_later` takes it, or this call.
        let overlapped = shared.cast_mut().cast::<OVERLAPPED>();
        // SAFETY: `overlapped` is the first field of `Shared`, in an `UnsafeCell`. No operation uses it.
        unsafe { overlapped.write(OVERLAPPED::default()) };
        // SAFETY: `pool` lives as long as `shared`. It hears of each operation before that begins.
        unsafe { StartThreadpoolIo(self.shared.pool) };
        let ended = if begin(handle, &mut state.buffer[state.start..state.end], overlapped) != 0 {
            Ok(bytes_of(handle, overlapped))
        } else {
            match last_error() {
                ERROR_IO_PENDING => {
                    state.busy = true;
                    state.kept = (self.shared.direction == Direction::Write).then(|| self.handle.clone());
                    return None;
                }
                error => Err(error),
            }
        };
        // SAFETY: the operation has ended, so the pool gets no callback: not for an error, nor for a success
        // at once, by `NOT_AT_ONCE`.
        unsafe { CancelThreadpoolIo(self.shared.pool) };
        // SAFETY: for the same reason the reference of `into_raw` is still here.
        drop(unsafe { Arc::from_raw(shared) });
        Some(ended)
    }

    /// Reports nothing any more.
    fn detach(&self) {
        self.shared.state.lock().reporter = None;
    }
}

/// Returns how many bytes an operation has carried that has ended with success.
fn bytes_of(handle: RawHandle, overlapped: *const OVERLAPPED) -> usize {
    let mut bytes = 0;
    // SAFETY: both live, and the call only reads `overlapped` and writes `bytes`.
    unsafe { GetOverlappedResult(handle, overlapped, &raw mut bytes, 0) };
    bytes as usize
}

fn last_error() -> u32 {
    io::Error::last_os_error().raw_os_error().unwrap_or_default().cast_unsigned()
}

fn error_of(code: u32) -> io::Error {
    io::Error::from_raw_os_error(code.cast_signed())
}

fn would_block() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

/// The callback of an operation that went on. *Runs on: a thread of the system's pool.*
unsafe extern "system" fn ended_later(
    _: PTP_CALLBACK_INSTANCE,
    _: *mut c_void,
    overlapped: *mut c_void,
    error: u32,
    bytes: usize,
    _: PTP_IO,
) {
    // SAFETY: `End::begin` passed a reference with the operation, and left it to this callback, which comes
    // once for each operation that goes on.
    let shared = unsafe { Arc::from_raw(overlapped.cast::<Shared>().cast_const()) };
    let (reporter, kept) = {
        let mut state = shared.state.lock();
        state.note(shared.direction, error, bytes);
        (state.reporter.clone(), state.kept.take())
    };
    // The pipe is closed here if its owner has gone.
    drop(kept);
    if let Some(reporter) = reporter {
        reporter.report(shared.direction);
    }
}

impl State {
    /// Notes the end of an operation that went on.
    fn note(&mut self, direction: Direction, error: u32, bytes: usize) {
        debug_assert!(self.busy, "an operation ends once");
        self.busy = false;
        let wanted = self.end - self.start;
        match direction {
            _ if error != 0 => (self.failed, self.end) = (Some(error), self.start),
            Direction::Read => self.end = self.start + bytes,
            Direction::Write => {
                // A pipe that waits takes all bytes or none.
                self.failed = (bytes != wanted).then_some(ERROR_WRITE_FAULT);
                self.end = self.start;
            }
        }
    }

    /// Makes room for an operation with as many bytes.
    fn make_room(&mut self, bytes: usize) {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        (self.start, self.end) = (0, bytes);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: `End::new` got it. No operation goes on, because each has a reference. Within the last
        // callback the system frees it after that callback.
        unsafe { CloseThreadpoolIo(self.pool) };
    }
}

impl Receiver {
    /// Takes over a handle that was opened for overlapped reads, which no other code has used yet.
    ///
    /// # Errors
    ///
    /// The system's error, also for a handle that was opened for blocking reads.
    pub fn new(pipe: OwnedHandle) -> io::Result<Receiver> {
        Ok(Receiver(End::new(pipe, Direction::Read)?))
    }

    /// Reports by `reporter` that it may be worth while to read. Call it once, before the first wait.
    ///
    /// # Errors
    ///
    /// Never fails. It returns a `Result` as [`Exit::attach`](crate::process::Exit::attach) does.
    pub fn attach(&mut self, reporter: Reporter) -> io::Result<()> {
        self.0.shared.state.lock().reporter = Some(reporter);
        Ok(())
    }

    /// Lets `take` take bytes of those that have come, and begins a read of up to `wanted` bytes if none have
    /// come. Returns how many bytes `take` took; 0 at the end of the pipe.
    fn receive(&self, wanted: usize, take: impl FnOnce(&[u8]) -> usize) -> io::Result<usize> {
        if wanted == 0 {
            return Ok(0);
        }
        let mut state = self.0.shared.state.lock();
        loop {
            if state.busy {
                return Err(would_block());
            }
            if let Some(error) = state.failed.take() {
                return end_or(error);
            }
            if state.start < state.end {
                let taken = take(&state.buffer[state.start..state.end]);
                state.start += taken;
                return Ok(taken);
            }
            match self.begin_read(&mut state, wanted) {
                None => return Err(would_block()),
                // No bytes are no end: the peer has written an empty message.
                Some(Ok(bytes)) => state.end = bytes,
                Some(Err(error)) => {
                    state.end = 0;
                    return end_or(error);
                }
            }
        }
    }

    fn begin_read(&self, state: &mut MutexGuard<'_, State>, wanted: usize) -> Option<Ended> {
        state.make_room(wanted.min(MOST as usize));
        // SAFETY: the caller has seen that the state is not busy. The buffer stays as it is while it is busy,
        // and lives in `Shared`, of which the operation has a reference.
        unsafe {
            self.0.begin(state, |handle, buffer, overlapped| {
                ReadFile(handle, buffer.as_mut_ptr(), buffer.len() as u32, ptr::null_mut(), overlapped)
            })
        }
    }
}

/// Returns the result of a read that has failed: 0 if all writers are closed.
fn end_or(error: u32) -> io::Result<usize> {
    if error == ERROR_BROKEN_PIPE { Ok(0) } else { Err(error_of(error)) }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let state = self.0.shared.state.lock();
        if state.busy {
            // It takes no bytes any more that a duplicate of the handle could read. If it has just ended, the
            // call finds nothing.
            // SAFETY: the handle is open, and the operation's `OVERLAPPED` lives in `shared`.
            unsafe { CancelIoEx(self.0.handle.as_raw_handle(), self.0.shared.overlapped.get()) };
        }
    }
}

impl Read for &Receiver {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.receive(buf.len(), |mut bytes| bytes.read(buf).unwrap_or_default())
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let wanted = bufs.iter().map(|buf| buf.len()).fold(0, usize::saturating_add);
        self.receive(wanted, |mut bytes| bytes.read_vectored(bufs).unwrap_or_default())
    }
}

impl Sender {
    /// Takes over a handle that was opened for overlapped writes, which no other code has used yet.
    ///
    /// # Errors
    ///
    /// The system's error, also for a handle that was opened for blocking writes.
    pub fn new(pipe: OwnedHandle) -> io::Result<Sender> {
        Ok(Sender(End::new(pipe, Direction::Write)?))
    }

    /// Reports by `reporter` that it may be worth while to write. Call it once, before the first wait.
    ///
    /// # Errors
    ///
    /// Never fails. It returns a `Result` as [`Exit::attach`](crate::process::Exit::attach) does.
    pub fn attach(&mut self, reporter: Reporter) -> io::Result<()> {
        self.0.shared.state.lock().reporter = Some(reporter);
        Ok(())
    }
}

impl Write for &Sender {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let all = bufs.iter().map(|buf| buf.len()).fold(0, usize::saturating_add);
        let bytes = all.min(MOST as usize);
        if bytes == 0 {
            // The reader could take an empty message for the end.
            return Ok(0);
        }
        let mut state = self.0.shared.state.lock();
        if state.busy {
            return Err(would_block());
        }
        if let Some(error) = state.failed.take() {
            return Err(error_of(error));
        }
        state.make_room(bytes);
        let mut room = &mut state.buffer[..bytes];
        for buf in bufs {
            let (to, rest) = room.split_at_mut(buf.len().min(room.len()));
            to.copy_from_slice(&buf[..to.len()]);
            room = rest;
        }
        // SAFETY: the state is not busy. The buffer stays as it is while it is busy, and lives in `Shared`, of
        // which the operation has a reference.
        let ended = unsafe {
            self.0.begin(&mut state, |handle, buffer, overlapped| {
                WriteFile(handle, buffer.as_ptr(), buffer.len() as u32, ptr::null_mut(), overlapped)
            })
        };
        ended.map_or(Ok(bytes), |ended| ended.map_err(error_of))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what both ends have.
macro_rules! end {
    ($($name:ident)*) => { $(
        impl Source for $name {
            fn register(&mut self, _: &Registry, _: Token, _: Interest) -> io::Result<()> {
                Ok(())
            }

            fn reregister(&mut self, _: &Registry, _: Token, _: Interest) -> io::Result<()> {
                Ok(())
            }

            fn deregister(&mut self, _: &Registry) -> io::Result<()> {
                self.0.detach();
                Ok(())
            }
        }

        impl AsHandle for $name {
            fn as_handle(&self) -> BorrowedHandle<'_> {
                self.0.handle.as_handle()
            }
        }

        impl AsRawHandle for $name {
            fn as_raw_handle(&self) -> RawHandle {
                self.0.handle.as_raw_handle()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0.handle).finish()
            }
        }
    )* };
}

end! { Receiver Sender }

/// Makes a pipe with both ends for this process.
///
/// # Errors
///
/// The system's error if it has no memory.
pub fn pair() -> io::Result<(Receiver, Sender)> {
    let (reader, writer) = create(Direction::Read, FILE_FLAG_OVERLAPPED)?;
    Ok((Receiver::new(reader)?, Sender::new(writer)?))
}

/// Makes a pipe with a writing end for blocking writes, by a child process.
///
/// # Errors
///
/// The system's error if it has no memory.
pub fn blocking_writer() -> io::Result<(Receiver, OwnedHandle)> {
    let (reader, writer) = create(Direction::Read, 0)?;
    Ok((Receiver::new(reader)?, writer))
}

/// Makes a pipe with a reading end for blocking reads, by a child process.
///
/// # Errors
///
/// The system's error if it has no memory.
pub fn blocking_reader() -> io::Result<(OwnedHandle, Sender)> {
    let (writer, reader) = create(Direction::Write, 0)?;
    Ok((reader, Sender::new(writer)?))
}

/// Makes a pipe, and returns its ends: first the one for overlapped calls in that direction, and then the
/// other, which is opened with `flags`. No child process inherits them.
#[inline(never)]
fn create(direction: Direction, flags: u32) -> io::Result<(OwnedHandle, OwnedHandle)> {
    let name = new_name();
    // The other end may also set and ask for its mode.
    let (access, other_access) = match direction {
        Direction::Read => (PIPE_ACCESS_INBOUND, GENERIC_WRITE | FILE_READ_ATTRIBUTES),
        Direction::Write => (PIPE_ACCESS_OUTBOUND, GENERIC_READ | FILE_WRITE_ATTRIBUTES),
    };
    let mode = PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS;
    // The first instance, and the only one: no other process has a pipe of this name, and none gets an end.
    let flags_of_first = FILE_FLAG_FIRST_PIPE_INSTANCE | FILE_FLAG_OVERLAPPED;
    // SAFETY: the name ends with a zero and outlives the call. The null pointer means that no child process
    // inherits the handle.
    let pipe = unsafe {
        CreateNamedPipeW(name.as_ptr(), access | flags_of_first, mode, 1, MOST, MOST, 0, ptr::null())
    };
    let pipe = owned(pipe)?;
    // SAFETY: as above. There is no template.
    let other = unsafe {
        CreateFileW(name.as_ptr(), other_access, 0, ptr::null(), OPEN_EXISTING, flags, ptr::null_mut())
    };
    Ok((pipe, owned(other)?))
}

/// Returns the handle that the system has just returned, or its error.
fn owned(handle: RawHandle) -> io::Result<OwnedHandle> {
    if handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just returned this handle, so no other code owns it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Returns a name that no other pipe has, and that no other process can guess.
fn new_name() -> Vec<u16> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only the number counts.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // std gets its keys from the system's source of random numbers.
    let random = [0, 1].map(|half| RandomState::new().hash_one((number, half)));
    let name =
        format!(r"\\.\pipe\monochrome.{}.{number}.{:016x}{:016x}", process::id(), random[0], random[1]);
    name.encode_utf16().chain([0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Netpoll, PollDesc, Wait, Waiter};

    /// Registers the ends, and returns what waits for them.
    fn registered(netpoll: &Arc<Netpoll>) -> ((Receiver, PollDesc), (Sender, PollDesc)) {
        let (mut receiver, mut sender) = pair().unwrap();
        let descs = (netpoll.register(&mut receiver).unwrap(), netpoll.register(&mut sender).unwrap());
        receiver.attach(descs.0.reporter()).unwrap();
        sender.attach(descs.1.reporter()).unwrap();
        ((receiver, descs.0), (sender, descs.1))
    }

    /// Polls until `op` does not return `WouldBlock`.
    fn poll_until<T>(
        netpoll: &Netpoll,
        desc: &PollDesc,
        direction: Direction,
        mut op: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let attempt = desc.prepare(direction);
            match op() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if desc.wait(attempt, Waiter::new(7)) == Ok(Wait::Park) {
                let mut ready = Vec::new();
                while ready.is_empty() {
                    let mut turn = netpoll.begin_block().unwrap();
                    turn.publish(u64::MAX);
                    turn.block(u64::MAX, None, &mut ready).unwrap();
                }
                assert_eq!(ready, [Waiter::new(7)]);
            }
        }
    }

    #[test]
    fn bytes_come_in_order_and_the_end_after_them() {
        let netpoll = Arc::new(Netpoll::new().unwrap());
        let ((receiver, reads), (sender, writes)) = registered(&netpoll);
        assert_eq!((&receiver).read(&mut [0; 3]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!((&receiver).read(&mut []).unwrap(), 0);
        assert_eq!((&sender).write(&[]).unwrap(), 0);
        let (mut sent, mut got, mut buf) = (0, 0, vec![0; 100_000]);
        while sent < 1 << 20 {
            let bytes: Vec<u8> = (sent..sent + 100_000).map(|i| (i % 251) as u8).collect();
            match (&sender).write(&bytes) {
                Ok(n) => sent += n,
                // There is something to read, so that one of these goes on.
                Err(_) => {
                    let n = poll_until(&netpoll, &reads, Direction::Read, || (&receiver).read(&mut buf));
                    let n = n.unwrap();
                    assert!(
                        n > 0
                            && buf[..n].iter().enumerate().all(|(i, byte)| *byte == ((got + i) % 251) as u8)
                    );
                    got += n;
                }
            }
        }
        drop((sender, writes));
        loop {
            match poll_until(&netpoll, &reads, Direction::Read, || (&receiver).read(&mut buf)).unwrap() {
                0 => break,
                n => got += n,
            }
        }
        assert_eq!((sent, (&receiver).read(&mut buf).unwrap()), (got, 0));
    }

    #[test]
    fn a_read_that_was_given_up_leaves_its_bytes_to_smaller_reads() {
        let netpoll = Arc::new(Netpoll::new().unwrap());
        let ((receiver, reads), (sender, _writes)) = registered(&netpoll);
        assert!((&receiver).read(&mut [0; 8]).is_err());
        assert_eq!((&sender).write(b"12345678").unwrap(), 8);
        let mut got = Vec::new();
        while got.len() < 8 {
            let mut buf = [0; 3];
            let n = poll_until(&netpoll, &reads, Direction::Read, || (&receiver).read(&mut buf)).unwrap();
            got.extend_from_slice(&buf[..n]);
        }
        assert_eq!(got, b"12345678");
    }

    #[test]
    fn no_bytes_are_no_end() {
        let netpoll = Arc::new(Netpoll::new().unwrap());
        let ((receiver, _reads), (sender, _writes)) = registered(&netpoll);
        // An empty message, which a child may write. (Wine drops it.)
        let write = |handle, _: &mut [u8], overlapped| {
            // SAFETY: there are no bytes.
            unsafe { WriteFile(handle, ptr::null(), 0, ptr::null_mut(), overlapped) }
        };
        // SAFETY: no other operation goes on.
        let written = unsafe { sender.0.begin(&mut sender.0.shared.state.lock(), write) };
        assert!(matches!(written, None | Some(Ok(0))), "{written:?}");
        assert_eq!((&receiver).read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_writer_is_told_of_the_end_of_the_reader() {
        let netpoll = Arc::new(Netpoll::new().unwrap());
        let ((receiver, _reads), (sender, writes)) = registered(&netpoll);
        while (&sender).write(&[7; 50_000]).is_ok() {}
        // A read that goes on ends, too.
        drop(receiver);
        let write = || (&sender).write(&[7]);
        let error = poll_until(&netpoll, &writes, Direction::Write, write).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);

        let ((receiver, _reads), (sender, _writes)) = registered(&netpoll);
        assert!((&receiver).read(&mut [0]).is_err());
        drop(receiver);
        assert_eq!((&sender).write(&[7]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_was_written_last_comes_without_a_poller() {
        let netpoll = Arc::new(Netpoll::new().unwrap());
        let ((receiver, reads), (sender, writes)) = registered(&netpoll);
        let mut sent = 0;
        while let Ok(n) = (&sender).write(&[7; 50_000]) {
            sent += n;
        }
        drop((sender, writes, reads, netpoll));
        let (mut got, mut buf) = (0, [0; 5_000]);
        loop {
            match (&receiver).read(&mut buf) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    std::thread::yield_now();
                }
            }
        }
        assert_eq!(got, sent);
    }

    #[test]
    fn a_handle_for_blocking_calls_is_refused() {
        let (reader, _sender) = blocking_reader().unwrap();
        assert!(Receiver::new(reader).is_err());
    }

    #[test]
    fn names_differ() {
        assert_ne!(new_name(), new_name());
    }
}
