//! Values of `std::fs::Metadata` for simulated files. std makes them of what `statx` answers. So this `statx`
//! takes the place of libc's in a program with the line `runtime::sim!()`: it answers for a simulated file
//! while `metadata_of` calls std, and asks the system otherwise.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint};
use std::fs::Metadata;
use std::io;

use super::tree::{Inode, Kind};
use crate::errors::unsupported;
use crate::escapes::{self, no_permission};

const NS_PER_S: u64 = 1_000_000_000;

/// What the metadata of a file say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    number: u64,
    node: u32,
    mode: u32,
    links: u32,
    len: u64,
    made: u64,
    modified: u64,
}

std::thread_local! {
    /// What the next `statx` of this OS thread answers.
    static ANSWER: Cell<Option<Stat>> = const { Cell::new(None) };
}

impl Stat {
    pub(super) fn of(node: u32, number: u64, inode: &Inode) -> Stat {
        let (kind, len) = match &inode.kind {
            Kind::File(content) => (libc::S_IFREG, content.len()),
            Kind::Dir(_) => (libc::S_IFDIR, 0),
            Kind::Link(target) => (libc::S_IFLNK, target.as_os_str().len()),
            Kind::Socket => (libc::S_IFSOCK, 0),
        };
        let Inode { mode, links, made, modified, .. } = *inode;
        Stat { number, node, mode: kind | mode, links, len: len as u64, made, modified }
    }

    fn answer(&self) -> libc::statx {
        // SAFETY: zero bytes are a valid value: the type consists of integers.
        let mut answer: libc::statx = unsafe { std::mem::zeroed() };
        answer.stx_mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
        answer.stx_mode = self.mode as u16;
        answer.stx_nlink = self.links;
        answer.stx_ino = self.number;
        answer.stx_size = self.len;
        answer.stx_blksize = 4096;
        answer.stx_blocks = self.len.div_ceil(512);
        answer.stx_dev_minor = self.node;
        answer.stx_btime = time(self.made, answer.stx_btime);
        for at in [&mut answer.stx_atime, &mut answer.stx_mtime, &mut answer.stx_ctime] {
            *at = time(self.modified, *at);
        }
        answer
    }
}

fn time(ns: u64, mut time: libc::statx_timestamp) -> libc::statx_timestamp {
    time.tv_sec = (ns / NS_PER_S) as i64;
    time.tv_nsec = (ns % NS_PER_S) as u32;
    time
}

/// Returns metadata as std makes them.
///
/// # Errors
/// Returns `Unsupported` if std did not call the function below.
pub(super) fn metadata_of(stat: Stat) -> io::Result<Metadata> {
    ANSWER.set(Some(stat));
    let metadata = std::fs::metadata("/");
    match ANSWER.take() {
        None => metadata,
        Some(_) => Err(unsupported("metadata in a program whose std is linked dynamically")),
    }
}

/// See `statx(2)`.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn statx(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut libc::statx,
) -> c_int {
    // The key has no destructor, so it is there as long as its thread is.
    match ANSWER.take() {
        Some(stat) => {
            // SAFETY: the caller's pointer is valid, by the contract of this function.
            unsafe { to.write(stat.answer()) };
            0
        }
        // SAFETY: the caller's path.
        None if unsafe { escapes::refuses("statx", path) } => no_permission() as c_int,
        // SAFETY: the arguments are those of the call; the caller's pointers are passed on.
        None => unsafe { libc::syscall(libc::SYS_statx, dir, path, flags, mask, to) as c_int },
    }
}
