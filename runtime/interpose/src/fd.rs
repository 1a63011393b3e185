//! What is known of each descriptor: what it is, which saves a system call with each `read`; whether a green
//! thread has waited for it; whether other descriptors have its file; and how many green threads wait now.
//!
//! What a descriptor is can be wrong at any time: its number may have been closed and used again by a call
//! that is not hooked. Each use finds that out by an error, and asks anew:
//!
//! | taken for | but is | what happens |
//! | --- | --- | --- |
//! | socket | another thing | `ENOTSOCK` |
//! | pipe | a socket | nothing: the same call serves it |
//! | pipe | a file | the wait is refused with `EPERM`; a read may be short |
//! | pipe | another thing | `EOPNOTSUPP` |
//! | file or other | a socket, a pipe or a terminal | the call may block its OS thread, and is rescued |
//!
//! A descriptor that was waited for is registered with the poller, and a later wait relies on that
//! (`wait.rs`). A close that is not hooked ends the registration unseen. So a new descriptor of `accept` or
//! `socket` has not been waited for, and other waits look after a while.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(super) mod remembered;

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Unknown = 0,
    Socket = 1,
    /// A pipe or FIFO: takes `RWF_NOWAIT`.
    Pipe = 2,
    /// A file, a directory, a disk, `/dev/zero` and the like: always ready.
    File = 3,
    /// A terminal, a timer and so on: is asked whether it is ready, then called.
    Other = 4,
}

const KIND: u32 = 0b111;
/// A green thread has waited for the descriptor since it was made.
const WAITED: u32 = 0b1000;
/// `accept` or `socket` has returned it, and it was not duplicated since: no other descriptor of this process
/// has the file.
const ALONE: u32 = 0b1_0000;
const WAITER: u32 = 0b10_0000;

/// Descriptors from here on are not remembered.
const MAX_FD: usize = 1 << 20;

/// For each descriptor its kind and the two marks, and above them the number of its waiters. Not in allocated
/// memory: signal handlers may call `write`. A page takes memory when the first of its descriptors is used.
static WORDS: [AtomicU32; MAX_FD] = [const { AtomicU32::new(0) }; MAX_FD];

/// What `mode.rs` remembers of each descriptor, for reads and for writes. Nothing of an earlier file once
/// `WAITED` is set.
static LIMITS: [[AtomicU64; 2]; MAX_FD] = [const { [const { AtomicU64::new(0) }; 2] }; MAX_FD];

/// One more than the largest descriptor that has been asked about or waited for.
static END: AtomicU32 = AtomicU32::new(0);

fn word(fd: c_int) -> Option<&'static AtomicU32> {
    WORDS.get(usize::try_from(fd).ok()?)
}

/// Returns the word of a descriptor that is about to be used.
fn word_in_use(fd: c_int) -> Option<&'static AtomicU32> {
    let word = word(fd)?;
    if END.load(Ordering::Relaxed) <= fd as u32 {
        END.fetch_max(fd as u32 + 1, Ordering::Relaxed);
    }
    Some(word)
}

/// Returns a number above all descriptors of which anything is known.
pub(super) fn end() -> u32 {
    // Relaxed: as for the words, a waiter counts itself before it registers the descriptor.
    END.load(Ordering::Relaxed)
}

/// Returns what `fd` is, as far as is known; asks the system the first time.
#[inline]
pub(super) fn kind(fd: c_int) -> Kind {
    // Relaxed, here and below: the words publish nothing, and each use copes with a wrong kind.
    match word(fd).map_or(0, |word| word.load(Ordering::Relaxed) & KIND) {
        1 => Kind::Socket,
        2 => Kind::Pipe,
        3 => Kind::File,
        4 => Kind::Other,
        _ => ask(fd),
    }
}

/// Asks the system what `fd` is. Returns `Unknown` if the descriptor is not open.
#[cold]
pub(super) fn ask(fd: c_int) -> Kind {
    let kind = look(fd);
    if let Some(word) = word_in_use(fd) {
        let _ =
            word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(old & !KIND | kind as u32));
    }
    kind
}

/// `/dev/null`, `/dev/zero`, `/dev/full`, `/dev/urandom`.
const NEVER_WAIT: [(u32, u32); 4] = [(1, 3), (1, 5), (1, 7), (1, 9)];

fn look(fd: c_int) -> Kind {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills `stat`, which has the kernel's layout on these systems.
    if unsafe { super::raw::call!(libc::SYS_fstat, fd, &raw mut stat) } < 0 {
        return Kind::Unknown;
    }
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => Kind::Socket,
        libc::S_IFIFO => Kind::Pipe,
        libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => Kind::File,
        libc::S_IFCHR if NEVER_WAIT.contains(&(libc::major(stat.st_rdev), libc::minor(stat.st_rdev))) => {
            Kind::File
        }
        _ => Kind::Other,
    }
}

/// Returns `true` if a green thread has waited for `fd` since it was made, as far as is known.
#[inline]
pub(super) fn has_waited(fd: c_int) -> bool {
    // Acquire: pairs with the Release in `note_wait`.
    word(fd).is_some_and(|word| word.load(Ordering::Acquire) & WAITED != 0)
}

/// Notes that a green thread waits for `fd`.
pub(super) fn note_wait(fd: c_int) {
    if let Some(word) = word_in_use(fd)
        && word.load(Ordering::Relaxed) & WAITED == 0
    {
        // It may have a new file. What another thread has just noted of that is asked for again.
        limits(fd).into_iter().for_each(|limits| remembered::forget(limits));
        // Release: what was remembered of another file is forgotten before. Acquire: pairs with the Release
        // of the clearing of the mark. So a later question is about the file that is there now.
        word.fetch_or(WAITED, Ordering::AcqRel);
    }
}

/// Returns the places of what is remembered, for reads and for writes.
pub(super) fn limits(fd: c_int) -> Option<&'static [AtomicU64; 2]> {
    LIMITS.get(usize::try_from(fd).ok()?)
}

/// Lets the next wait for `fd` register it.
#[inline]
pub(super) fn forget_wait(fd: c_int) {
    if has_waited(fd)
        && let Some(word) = word(fd)
    {
        word.fetch_and(!WAITED, Ordering::Release);
    }
}

/// Notes that `fd` has a new file, and that no other descriptor of this process has it. Does nothing for an
/// error.
pub(super) fn note_new(fd: isize) {
    if let Some(word) = c_int::try_from(fd).ok().and_then(word_in_use) {
        let kept = |word: u32| Some(word & !(KIND | WAITED) | ALONE);
        let _ = word.fetch_update(Ordering::Release, Ordering::Relaxed, kept);
    }
}

/// Notes that `new` has the file of `fd` now. Does nothing for an error.
pub(super) fn note_duplicate(fd: c_int, new: isize) {
    if new < 0 {
        return;
    }
    note_shared(fd);
    if let Some(word) = word(new as c_int) {
        word.fetch_and(!(KIND | WAITED | ALONE), Ordering::Release);
    }
}

/// Notes that the file of `fd` has another descriptor, or will have one.
pub(super) fn note_shared(fd: c_int) {
    if let Some(word) = word(fd) {
        word.fetch_and(!ALONE, Ordering::Release);
    }
}

/// Returns `true` if no other descriptor of this process has the file of `fd`, and no green thread has waited
/// for it, as far as is known.
pub(super) fn is_alone_and_new(fd: c_int) -> bool {
    word(fd).is_some_and(|word| word.load(Ordering::Relaxed) & (ALONE | WAITED) == ALONE)
}

/// Forgets what `fd` is, because it has been closed. Returns `true` if a green thread waits for it, or has
/// waited since `forget_wait`.
#[inline]
pub(super) fn forget(fd: c_int) -> bool {
    let Some(word) = word(fd) else { return false };
    // A waiter counts itself before it registers the descriptor. If it registered before the close, the
    // kernel's locks order its count before this look. If it registers after the close, it finds the
    // descriptor closed.
    match word.load(Ordering::Relaxed) {
        0 => false,
        _ => word.fetch_and(!(KIND | WAITED | ALONE), Ordering::Release) & !(KIND | ALONE) != 0,
    }
}

/// Counts a green thread that waits for some descriptors, until it is dropped.
pub(super) struct Waits<'a>(&'a [(c_int, u32)]);

impl<'a> Waits<'a> {
    pub(super) fn begin(fds: &'a [(c_int, u32)]) -> Self {
        for &(fd, _) in fds {
            if let Some(word) = word_in_use(fd) {
                let before = word.fetch_add(WAITER, Ordering::Relaxed);
                if before & WAITED == 0 {
                    note_wait(fd);
                }
            }
        }
        Waits(fds)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        for &(fd, _) in self.0 {
            if let Some(word) = word(fd) {
                word.fetch_sub(WAITER, Ordering::Relaxed);
            }
        }
    }
}
