//! Robust mutexes: where glibc lists the mutexes of a thread, and what happens to them at its end.
//!
//! At the end of an OS thread the kernel goes through this list. It marks each mutex, so that the next owner
//! hears of it (`EOWNERDEAD`). It does not know the list of a block, so the end of a closure does the same.

use std::sync::atomic::{AtomicU32, Ordering};

use netpoll::raw::call;

use super::words::{read, write};

/// In the word of a lock: its owner, that its owner has ended, that threads wait. `<linux/futex.h>` has them.
const OWNER: u32 = 0x3FFF_FFFF;
const OWNER_HAS_ENDED: u32 = 0x4000_0000;
const WAITERS: u32 = 0x8000_0000;
/// In a link: the mutex inherits priorities. The kernel alone knows what to do then.
const INHERITS: usize = 1;
/// The kernel goes through so many at most: a list may lead to itself.
const MOST: usize = 2048;

/// Marks the mutexes of the list `list` as those of an owner that has ended, and empties it.
///
/// # Safety
/// The list is that of a block in which no code runs any more. Its mutexes are alive: they are locked.
#[cold]
pub(super) unsafe fn owner_ends(list: usize, owner: u32) {
    // SAFETY: the list begins with a link and the distance from a link to the word of its lock.
    let (mut link, distance) = unsafe { (read(list, 0), read(list, WORD).cast_signed()) };
    for _ in 0..MOST {
        let lock = link & !INHERITS;
        if lock == list {
            break;
        }
        // SAFETY: this contract. The link is read before another thread may take the mutex, and change it.
        unsafe {
            let next = read(lock, 0);
            if link & INHERITS == 0 {
                mark(lock.wrapping_add_signed(distance), owner);
            }
            link = next;
        }
    }
    // SAFETY: the words are those of the list.
    unsafe {
        write(list, 0, list);
        write(list, -WORD, list);
    }
}

/// # Safety
/// `address` is that of a lock's word.
unsafe fn mark(address: usize, owner: u32) {
    // SAFETY: this contract. glibc and the kernel access the word by atomic operations only.
    let word = unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) };
    // Release: what the owner has written is seen by the next one: its lock of the mutex is the acquire.
    let marked = word.fetch_update(Ordering::Release, Ordering::Relaxed, |value| {
        (value & OWNER == owner).then_some(value & WAITERS | OWNER_HAS_ENDED)
    });
    if marked.is_ok_and(|before| before & WAITERS != 0) {
        // Waiters of robust mutexes wait as those of several processes do.
        // SAFETY: the kernel reads the address as that of a word, and checks its memory.
        unsafe { call!(libc::SYS_futex, address, libc::FUTEX_WAKE, 1) };
    }
}

/// How far into the record the list may be.
const BYTES: isize = 8192;
const WORD: isize = 8;

/// Returns where the list of this thread is, from `record`: the address of its record.
///
/// # Errors
/// If the list is not in the record.
pub(super) fn offset(record: usize, record_bytes: usize) -> Result<isize, String> {
    // An emulator may not have the call.
    let found = asked(record).or_else(|| sought(record, record_bytes));
    found.ok_or_else(|| "the list of robust locks of a thread is not in its record".into())
}

/// Asks the kernel.
fn asked(record: usize) -> Option<isize> {
    let (mut list, mut length) = (0_usize, 0_usize);
    // SAFETY: the kernel writes these two words.
    let asked = unsafe { call!(libc::SYS_get_robust_list, 0, &raw mut list, &raw mut length) };
    let offset = list.wrapping_sub(record).cast_signed();
    (asked == 0 && (0..BYTES).contains(&offset)).then_some(offset)
}

/// Looks for an empty list in the record: a word that leads to itself, after another one that leads there.
/// The distance of a lock's word from its link follows, which is negative.
fn sought(record: usize, record_bytes: usize) -> Option<isize> {
    let last = record_bytes.cast_signed().min(BYTES) - 2 * WORD;
    (WORD..last).step_by(WORD as usize).find(|&at| {
        // SAFETY: the words lie in the record of this thread.
        let [last, first, distance] = [at - WORD, at, at + WORD].map(|at| unsafe { read(record, at) });
        let list = record.wrapping_add_signed(at);
        first == list && last == list && (-256..0).contains(&distance.cast_signed())
    })
}

#[cfg(test)]
mod tests {
    use super::super::arch::{base, start_of_record};
    use super::super::on_a_thread;
    use super::super::symbols::size;
    use super::*;

    #[test]
    fn a_search_finds_what_the_kernel_says() {
        let (asked, sought) = on_a_thread(|| {
            let bytes = size(c"_thread_db_sizeof_pthread")?;
            let record = base().wrapping_add_signed(start_of_record(bytes));
            Ok((asked(record), sought(record, bytes)))
        })
        .unwrap();
        assert!(sought.is_some());
        assert!(asked.is_none_or(|asked| Some(asked) == sought), "{asked:?} {sought:?}");
    }
}
