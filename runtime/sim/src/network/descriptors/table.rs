//! The numbers of simulated sockets, and the sockets that they stand for.
//!
//! The number is that of a real descriptor, which the system gives to no other file as long as it is open. It
//! is one of a directory, open for its path alone (`O_PATH`). So a call of the system that reads, writes or
//! waits there fails with `EBADF`: what is not simulated is not real by mistake.
//!
//! A simulation that leaves green threads behind never closes their sockets. After its end its numbers stand
//! for no socket, and remain open. A value that outlives the simulation may close its number later, which
//! then must be no other socket's. So only a number that no thread will ever close is used again (`give_up`).

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use netpoll::raw::call;
use sched::sync::Mutex;

use super::description::{Description, What};

/// Sockets with this number or a higher one are refused.
const MOST: usize = 1 << 20;
/// Standard input, output and error are not to be taken for sockets, where one of them is closed.
const FIRST: c_int = 3;

/// A bit for each number that stands for a simulated socket. A look takes no lock: signal handlers may call
/// `write`.
static TAKEN: [AtomicU32; MOST / 32] = [const { AtomicU32::new(0) }; MOST / 32];

/// Open descriptors that no thread will close.
static FREE: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

static SOCKETS: Mutex<BTreeMap<c_int, Entry>> = Mutex::new(BTreeMap::new());

struct Entry {
    socket: Arc<Description>,
    /// True if no thread will close the number.
    is_given_up: bool,
}

/// Returns the word of a number, and the number's bit in it.
fn bit(fd: c_int) -> Option<(&'static AtomicU32, u32)> {
    let fd = usize::try_from(fd).ok()?;
    Some((TAKEN.get(fd / 32)?, 1 << (fd % 32)))
}

/// Sets or clears the number's bit. *Runs on: a holder of the lock of `SOCKETS`, after its change there.*
/// Without the lock, the bit of a number that was closed could be cleared after the next socket has it.
fn mark(fd: c_int, taken: bool) {
    // Relaxed: see `is_taken`.
    bit(fd).map(|(word, bit)| match taken {
        true => word.fetch_or(bit, Ordering::Relaxed),
        false => word.fetch_and(!bit, Ordering::Relaxed),
    });
}

/// Returns `true` if the number stands for a simulated socket.
#[inline]
pub(super) fn is_taken(fd: c_int) -> bool {
    // Relaxed: the thread that has made the socket gives the number to others, which orders them.
    bit(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Returns `true` if the number stands for no simulated descriptor other than a socket.
pub(super) fn is_socket(fd: c_int) -> bool {
    !is_taken(fd) || find(fd).is_none_or(|found| matches!(found.what, What::Socket))
}

/// Returns the socket with that number.
pub(super) fn find(fd: c_int) -> Option<Arc<Description>> {
    SOCKETS.lock().get(&fd).map(|entry| entry.socket.clone())
}

/// Returns a number for `socket`, the lowest that is free from `first` on.
///
/// # Errors
/// Returns the error number of the system, if no number is left.
pub(super) fn add(socket: Arc<Description>, first: c_int, closes_on_exec: bool) -> Result<c_int, c_int> {
    let free = if first <= FIRST { FREE.lock().pop() } else { None };
    let made = free.map_or_else(open, Ok)?;
    let fd = if made >= first.max(FIRST) {
        Ok(made)
    } else {
        // SAFETY: the call takes no pointer.
        let moved = unsafe { call!(libc::SYS_fcntl, made, libc::F_DUPFD_CLOEXEC, first.max(FIRST)) };
        close(made);
        number(moved)
    }?;
    if !closes_on_exec {
        // SAFETY: the call takes no pointer.
        unsafe { call!(libc::SYS_fcntl, fd, libc::F_SETFD, 0) };
    }
    insert(fd, socket).inspect_err(|_| close(fd))?;
    Ok(fd)
}

fn open() -> Result<c_int, c_int> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    number(unsafe { call!(libc::SYS_openat, libc::AT_FDCWD, c"/".as_ptr(), flags) })
}

/// Notes that the caller is left behind in a call on the number. The call borrows the number for ever, so its
/// owner never closes it. *Runs on: a green thread that is about to be left behind.*
pub(super) fn give_up(fd: c_int) {
    if let Some(entry) = SOCKETS.lock().get_mut(&fd) {
        entry.is_given_up = true;
    }
}

/// Takes all sockets that `is_over` says. The descriptors remain open. Further sockets get the numbers that
/// were given up.
pub(super) fn forget(is_over: impl Fn(&Description) -> bool) -> Vec<Arc<Description>> {
    let mut sockets = SOCKETS.lock();
    let forgotten: Vec<_> = sockets.extract_if(.., |_, entry| is_over(&entry.socket)).collect();
    forgotten.iter().for_each(|(fd, _)| mark(*fd, false));
    drop(sockets);
    for (fd, _) in forgotten.iter().filter(|(_, entry)| entry.is_given_up) {
        // SAFETY: the call takes no pointer.
        unsafe { call!(libc::SYS_fcntl, *fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        FREE.lock().push(*fd);
    }
    forgotten.into_iter().map(|(_, entry)| entry.socket).collect()
}

/// Makes an open number stand for `socket`, which is one of the system's now.
///
/// # Errors
/// Returns `EMFILE` if the number is too high.
pub(super) fn insert(fd: c_int, socket: Arc<Description>) -> Result<(), c_int> {
    bit(fd).ok_or(libc::EMFILE)?;
    let mut sockets = SOCKETS.lock();
    sockets.insert(fd, Entry { socket, is_given_up: false });
    mark(fd, true);
    Ok(())
}

/// Takes the socket of a number, which is then one of the system's. The descriptor stays open.
pub(super) fn remove(fd: c_int) -> Option<Arc<Description>> {
    let mut sockets = SOCKETS.lock();
    mark(fd, false);
    sockets.remove(&fd).map(|entry| entry.socket)
}

/// Closes a descriptor of the system's.
pub(super) fn close(fd: c_int) {
    // SAFETY: the descriptor is that of a number in this table, or about to be one.
    unsafe { call!(libc::SYS_close, fd) };
}

/// Returns what a system call returns: a descriptor, or an error number.
fn number(result: isize) -> Result<c_int, c_int> {
    if result < 0 { Err(-result as c_int) } else { Ok(result as c_int) }
}
