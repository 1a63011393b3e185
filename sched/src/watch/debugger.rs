//! What debuggers find: one symbol that leads to the table of all Gs, with the offsets of what is read there.
//!
//! The scripts in `runtime/debug` read it, in living processes and in core files. They need no debug
//! information. A list of names and values, which ends with a null name, is all that the scripts and this
//! file agree on. So a script also reads a program of another version, and says which name it misses.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use timers::clock;

use crate::g::why::Why;
use crate::g::{G, layout, table};
use crate::stack::coro::Coro;
use crate::stack::saved::{SAVED, WORDS};

/// A name and its value: a number, or the address of a static.
#[repr(C)]
struct Entry {
    name: *const c_char,
    value: *const (),
}

// SAFETY: both point to statics, or hold a number, and no thread writes them.
unsafe impl Sync for Entry {}

const fn number(name: &'static CStr, value: usize) -> Entry {
    Entry { name: name.as_ptr(), value: ptr::without_provenance(value) }
}

const fn address<T>(name: &'static CStr, of: &'static T) -> Entry {
    Entry { name: name.as_ptr(), value: ptr::from_ref(of).cast() }
}

/// A string of a list for debuggers.
#[repr(C)]
struct Text {
    start: *const u8,
    len: usize,
}

// SAFETY: it points to a literal.
unsafe impl Sync for Text {}

/// What a wait is for, in words, by `Why as usize`.
static WHYS: [Text; Why::ALL.len()] = {
    let mut texts = [const { Text { start: ptr::null(), len: 0 } }; Why::ALL.len()];
    let mut i = 0;
    while i < texts.len() {
        texts[i] = Text { start: Why::ALL[i].1.as_ptr(), len: Why::ALL[i].1.len() };
        i += 1;
    }
    texts
};

/// The beginning of the timers' clock, in ns of the system's monotonic clock and of its real-time clock; 0
/// before the first runtime. A debugger compares the first with the present time, and the second with the
/// time of a core file.
static CLOCK_BEGAN: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

// The scripts read a `Location` as the address and the length of the file's name, then the line as 32 bits. A
// test checks that.
const _: () = assert!(size_of::<Location<'_>>() == 24 && size_of::<&str>() == 16);

const FIXED: usize = 13;
const LEN: usize = FIXED + layout::FIELDS.len() + Coro::PLACES.len() + 1;

/// The list. Its symbol is not mangled, so a debugger finds it by its name.
#[used]
// SAFETY: no other symbol of a program has this name; two versions of this crate in one program would not be
// linked.
#[unsafe(no_mangle)]
static runtime_for_debuggers: [Entry; LEN] = list();

const fn list() -> [Entry; LEN] {
    let mut list = [const { Entry { name: ptr::null(), value: ptr::null() } }; LEN];
    let fixed = [
        address(c"table", &table::TABLE),
        address(c"made", &table::MADE),
        address(c"whys", &WHYS),
        address(c"clock_began", &CLOCK_BEGAN),
        number(c"version", 1),
        number(c"chunks", table::CHUNKS),
        number(c"first_chunk", table::FIRST as usize),
        number(c"g.bytes", size_of::<G>()),
        number(c"whys.len", WHYS.len()),
        number(c"coro.inner.words", WORDS),
        number(c"saved.pc", SAVED.pc),
        number(c"saved.fp", SAVED.fp),
        number(c"saved.len", SAVED.len),
    ];
    let mut i = 0;
    while i < LEN - 1 {
        list[i] = if i < FIXED {
            Entry { name: fixed[i].name, value: fixed[i].value }
        } else if i < FIXED + layout::FIELDS.len() {
            let (name, offset) = layout::FIELDS[i - FIXED];
            number(name, offset)
        } else {
            let (name, offset) = Coro::PLACES[i - FIXED - layout::FIELDS.len()];
            number(name, offset)
        };
        i += 1;
    }
    list
}

/// Notes when the timers' clock began. *Runs on: the maker of a runtime.*
pub(crate) fn note_clock() {
    for (began, id) in CLOCK_BEGAN.iter().zip([libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME]) {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place is valid for the call.
        if unsafe { libc::clock_gettime(id, &raw mut time) } == 0 {
            let now = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            // Relaxed: only debuggers read it, while the process stands still.
            began.store(now.saturating_sub(clock::now()), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &CStr) -> Option<usize> {
        let named = |entry: &&Entry| {
            // SAFETY: each name is a literal, and the null name ends the list.
            !entry.name.is_null() && unsafe { CStr::from_ptr(entry.name) } == name
        };
        runtime_for_debuggers.iter().find(named).map(|entry| entry.value.addr())
    }

    #[test]
    fn the_list_has_its_names_and_ends() {
        assert_eq!(value(c"g.bytes"), Some(size_of::<G>()));
        assert_eq!(value(c"table"), Some(ptr::from_ref(&table::TABLE).addr()));
        assert!(value(c"coro.lowest") > value(c"coro.inner"));
        assert_eq!(value(c"no such name"), None);
        assert!(runtime_for_debuggers[..LEN - 1].iter().all(|entry| !entry.name.is_null()));
        assert!(runtime_for_debuggers[LEN - 1].name.is_null());
    }

    #[test]
    fn a_location_lies_as_the_scripts_read_it() {
        let here = Location::caller();
        // SAFETY: a location has 24 bytes, all of them initialised: two words, and two numbers of 32 bits.
        let [file, len, line] = unsafe { *ptr::from_ref(here).cast::<[usize; 3]>() };
        assert_eq!((file, len), (here.file().as_ptr().addr(), here.file().len()));
        assert_eq!(line as u32, here.line());
    }
}
