//! The numbers of simulated sockets, and the sockets that they stand for.
//!
//! The number is that of a real descriptor, which the system gives to no other file as long as it is open. It
//! is one of a directory, open for its path alone (`O_PATH`). So a call of the system that reads, writes or
//! waits there fails with `EBADF`: what is not simulated is not real by mistake.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use netpoll::raw::call;
use sched::sync::Mutex;

use super::description::Description;

/// Sockets with this number or a higher one are refused.
const MOST: usize = 1 << 20;
/// Standard input, output and error are not to be taken for sockets, where one of them is closed.
const FIRST: c_int = 3;

/// A bit for each number that stands for a simulated socket. A look takes no lock: signal handlers may call
/// `write`.
static TAKEN: [AtomicU32; MOST / 32] = [const { AtomicU32::new(0) }; MOST / 32];

/// Open descriptors for sockets that were forgotten.
static FREE: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

static SOCKETS: Mutex<BTreeMap<c_int, Arc<Description>>> = Mutex::new(BTreeMap::new());

/// Returns the word of a number, and the number's bit in it.
fn bit(fd: c_int) -> Option<(&'static AtomicU32, u32)> {
    let fd = usize::try_from(fd).ok()?;
    Some((TAKEN.get(fd / 32)?, 1 << (fd % 32)))
}

/// Returns `true` if the number stands for a simulated socket.
#[inline]
pub(super) fn is_taken(fd: c_int) -> bool {
    // Relaxed: the thread that has made the socket gives the number to others, which orders them.
    bit(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Returns the socket with that number.
pub(super) fn find(fd: c_int) -> Option<Arc<Description>> {
    SOCKETS.lock().get(&fd).cloned()
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
    let Some((word, bit)) = bit(fd) else {
        close(fd);
        return Err(libc::EMFILE);
    };
    SOCKETS.lock().insert(fd, socket);
    word.fetch_or(bit, Ordering::Relaxed);
    Ok(fd)
}

fn open() -> Result<c_int, c_int> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    number(unsafe { call!(libc::SYS_openat, libc::AT_FDCWD, c"/".as_ptr(), flags) })
}

/// Takes all sockets that `is_over` says, and keeps their descriptors for further sockets. No descriptor is
/// closed: where code outside of the simulation has one after all, it meets no file of the system.
pub(super) fn forget(is_over: impl Fn(&Description) -> bool) -> Vec<Arc<Description>> {
    let all: Vec<_> =
        SOCKETS.lock().iter().filter(|(_, socket)| is_over(socket)).map(|(&fd, _)| fd).collect();
    let forgotten = all.iter().filter_map(|&fd| remove(fd)).collect();
    for &fd in &all {
        // SAFETY: the call takes no pointer.
        unsafe { call!(libc::SYS_fcntl, fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    FREE.lock().extend(all);
    forgotten
}

/// Makes an open number stand for `socket`, which is one of the system's now.
pub(super) fn add_at(fd: c_int, socket: Arc<Description>) -> Result<(), c_int> {
    let (word, bit) = bit(fd).ok_or(libc::EMFILE)?;
    SOCKETS.lock().insert(fd, socket);
    word.fetch_or(bit, Ordering::Relaxed);
    Ok(())
}

/// Takes the socket of a number, which is then one of the system's. The descriptor stays open.
pub(super) fn remove(fd: c_int) -> Option<Arc<Description>> {
    let (word, bit) = bit(fd)?;
    word.fetch_and(!bit, Ordering::Relaxed);
    SOCKETS.lock().remove(&fd)
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
