//! A search of the memory of this process for words, while its threads run on.
//!
//! The search reads every page that may be written and is there: `/proc/self/maps` has the mappings, `/proc/self/pagemap` the pages. The
//! kernel copies the pages, so a mapping that goes away meanwhile does no harm. A word that moves meanwhile may be missed, and so is
//! a word that only a register has. What signal handlers have left on their stacks is not searched: these are the registers of code
//! that has gone on since. The same holds for the unused part of the caller's stack: there lie words that the search itself has had in
//! its hands, and its frames have some.

use std::fs::{self, File};
use std::hint;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr;

use crate::stack::overflow::alternate_stacks;
use crate::sync::Mutex;
use crate::sys::{self, peek};
use crate::watch::dump::stack_of_caller;

const WORD: usize = size_of::<usize>();
/// The size of a copy.
const COPY_BYTES: usize = 256 << 10;
/// How many pages are asked for at once.
const PAGES: usize = 1 << 16;
/// In the entry of a page: it is in memory, or swapped out.
const IS_THERE: u64 = 0b11 << 62;

/// Calls `tell` with each address at which one of the words lies, and with the index of the word. The words are given inverted, and
/// sorted, so that the search does not find its own list. Returns `false` if the memory cannot be read, or is more than
/// `most_bytes`. A sandbox may refuse to copy memory; a search that read nothing would have found nothing.
#[inline(never)]
pub fn find(inverted: &[usize], most_bytes: usize, tell: impl FnMut(usize, usize)) -> bool {
    // The frames of all that is called from here lie below this one.
    let frame = 0_u8;
    // Also after the search: the sandbox may have begun meanwhile.
    let found = may_read()
        && search(inverted, most_bytes, hint::black_box(ptr::from_ref(&frame).addr()), tell)
        && may_read();
    wipe_frames();
    found
}

/// Returns `true` if the system lets this thread copy the memory of its own process.
fn may_read() -> bool {
    let word = hint::black_box(READABLE);
    peek::word(ptr::from_ref(&word).addr()) == Some(READABLE)
}

/// The word that `may_read` reads. No handle of a channel is such a small word.
const READABLE: usize = 1;

/// The buffer for copies of the memory. It is never freed: memory that is free is searched, too.
static COPY: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Overwrites the part of the stack on which the frames of a search were.
#[inline(never)]
fn wipe_frames() {
    hint::black_box(&mut [0_u8; 8 << 10]);
}

/// As `find`, called from the frame at `frame`.
#[inline(never)]
fn search(inverted: &[usize], most_bytes: usize, frame: usize, mut tell: impl FnMut(usize, usize)) -> bool {
    debug_assert!(inverted.is_sorted());
    let (Some(&least), Some(&most)) = (inverted.first(), inverted.last()) else { return true };
    let (Ok(maps), Ok(pages)) = (fs::read_to_string("/proc/self/maps"), File::open("/proc/self/pagemap"))
    else {
        return false;
    };
    let mut left = most_bytes;
    let mut copy = COPY.lock();
    copy.resize(COPY_BYTES / WORD, 0);
    let own = copy.as_ptr_range();
    let mut without = alternate_stacks();
    without.push(own.start.addr()..own.end.addr());
    without.extend(stack_below(frame, &maps));
    let mut look = |range: Range<usize>| {
        let Some(rest) = left.checked_sub(range.len()) else { return false };
        left = rest;
        for from in range.clone().step_by(COPY_BYTES) {
            let bytes = COPY_BYTES.min(range.end - from);
            read(from, &mut copy[..bytes / WORD], |from, words| {
                for (i, word) in words.iter().enumerate() {
                    let (word, address) = (!word, from + i * WORD);
                    if (least..=most).contains(&word)
                        && let Ok(index) = inverted.binary_search(&word)
                        && !without.iter().any(|range| range.contains(&address))
                    {
                        tell(address, index);
                    }
                }
            });
        }
        true
    };
    maps.lines().filter_map(mapping).all(|mapping| pages_of(&pages, mapping, &mut look))
}

/// Returns the part of the caller's stack below `frame`: from the guard of a green thread's stack, or from the begin of an OS thread's
/// mapping, which a guard separates from what lies below.
fn stack_below(frame: usize, maps: &str) -> Option<Range<usize>> {
    let own = stack_of_caller().map(|(_, stack)| stack).filter(|stack| stack.contains(&frame));
    let stack = own.or_else(|| maps.lines().filter_map(mapping).find(|range| range.contains(&frame)))?;
    Some(stack.start..frame)
}

/// Copies the bytes from `from` on, which other threads may write or unmap meanwhile. Returns `false` if not all can be read.
pub fn read_bytes(from: usize, bytes: &mut [u8]) -> bool {
    peek::bytes(from, bytes)
}

/// Returns the addresses of a line of `/proc/self/maps`, if they may be written and are no device's.
fn mapping(line: &str) -> Option<Range<usize>> {
    let mut parts = line.split_ascii_whitespace();
    let (start, end) = parts.next()?.split_once('-')?;
    let may_write = parts.next()?.starts_with("rw");
    let path = parts.nth(3).unwrap_or("");
    let address = |digits| usize::from_str_radix(digits, 16).ok();
    Some(address(start)?..address(end)?)
        .filter(|range| may_write && !range.is_empty() && !path.starts_with("/dev/dri"))
}

/// Calls `look` with the runs of pages of `mapping` that are there. Returns `false` if that is not known, or if `look` returns `false`.
fn pages_of(pages: &File, mapping: Range<usize>, look: &mut impl FnMut(Range<usize>) -> bool) -> bool {
    let size = sys::page_size();
    let mut entries = vec![0_u8; PAGES.min(mapping.len() / size) * 8];
    let mut from = mapping.start;
    while from < mapping.end {
        let n = PAGES.min((mapping.end - from) / size);
        if pages.read_exact_at(&mut entries[..n * 8], (from / size * 8) as u64).is_err() {
            return false;
        }
        let is_there = |i: usize| {
            let entry = entries[i * 8..][..8].try_into().expect("an entry has eight bytes");
            u64::from_ne_bytes(entry) & IS_THERE != 0
        };
        let mut i = 0;
        while i < n {
            let run = (i..n).take_while(|&i| is_there(i)).count();
            if run > 0 && !look(from + i * size..from + (i + run) * size) {
                return false;
            }
            i += run.max(1);
        }
        from += n * size;
    }
    true
}

/// Copies the words from `from` on and calls `tell` with them; page by page if one cannot be read.
fn read(from: usize, words: &mut [usize], mut tell: impl FnMut(usize, &[usize])) {
    if peek::words(from, words) {
        return tell(from, words);
    }
    let page = sys::page_size() / WORD;
    for (i, words) in words.chunks_mut(page).enumerate() {
        let from = from + i * page * WORD;
        // A page that cannot be read is a guard, or was unmapped.
        if peek::words(from, words) {
            tell(from, words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn a_word_is_found_where_it_lies() {
        // Made at run time and kept inverted elsewhere.
        let inverted = !(0x5eed_0000_0000_0001_usize + std::process::id() as usize * 8);
        let boxed = Box::new([0, !inverted, 0]);
        let mut found = Vec::new();
        assert!(find(&[inverted], usize::MAX, |address, index| found.push((address, index))));
        assert!(!find(&[inverted], 4096, |_, _| ()), "there is more memory");
        assert!(found.contains(&(ptr::from_ref(&boxed[1]).addr(), 0)), "{found:x?}");
        drop(boxed);
    }

    /// The search has the word in its hands itself, and leaves it on the stack.
    #[test]
    fn the_search_does_not_find_what_it_has_left_behind() {
        let inverted = inverted(2);
        leave_behind(inverted);
        let boxed = in_a_box(inverted);
        for _ in 0..3 {
            let mut found = Vec::new();
            assert!(find(&[inverted], usize::MAX, |address, _| found.push(address)));
            assert_eq!(found, [ptr::from_ref(&boxed[1]).addr()]);
        }
    }

    /// A search copies the memory, and its copy lies in the memory that other threads search, then and later.
    #[test]
    fn a_search_does_not_find_the_copies_of_others() {
        let inverted = inverted(3);
        let boxed = in_a_box(inverted);
        let place = ptr::from_ref(&boxed[1]).addr();
        let search = || {
            for _ in 0..4 {
                let mut found = Vec::new();
                assert!(find(&[inverted], usize::MAX, |address, _| found.push(address)));
                assert_eq!(found, [place]);
            }
        };
        let (have_searched, end) = (Barrier::new(4), Barrier::new(4));
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    search();
                    have_searched.wait();
                    end.wait();
                });
            }
            have_searched.wait();
            // The stacks of the others are still there.
            search();
            end.wait();
        });
    }

    // These frames have the word, too, and are gone when the search begins.

    #[inline(never)]
    fn inverted(number: usize) -> usize {
        !(0x5eed_0000_0000_0000_usize + number + std::process::id() as usize * 8)
    }

    #[inline(never)]
    fn in_a_box(inverted: usize) -> Box<[usize; 3]> {
        Box::new([0, !inverted, 0])
    }

    #[inline(never)]
    fn leave_behind(inverted: usize) {
        hint::black_box([!inverted; 64]);
    }

    #[test]
    fn only_memory_that_may_be_written_is_searched() {
        let range = |line| mapping(line);
        assert_eq!(range("1000-3000 rw-p 00000000 00:00 0 [heap]"), Some(0x1000..0x3000));
        assert_eq!(range("1000-3000 r-xp 00000000 08:01 123 /bin/sh"), None);
        assert_eq!(range("1000-3000 rw-s 00000000 00:06 9 /dev/dri/card0"), None);
    }
}
