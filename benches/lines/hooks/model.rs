//! A model of caches that keep lines coherent, as MESI does: a line has one writer, or any number of readers.
//!
//! Each OS thread has a cache of endless size. A read fetches the line if the thread's cache does not have
//! it. A write takes the line from all other caches. Both are a transfer, except the first access of all to
//! a line. An OS thread, and not a P, has the cache: an M runs one P at a time, and a thread without a P (a
//! plain OS thread, an idle M) reads and writes lines, too.

use std::cell::{Cell, UnsafeCell};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use super::sets::{MOST, Set};

/// Bytes of a line.
const LINE: usize = 64;
/// Lines for which the model has room.
const LINES: usize = 1 << 20;
/// Transfers for which the log of a thread has room.
const TRANSFERS: usize = 1 << 16;

/// A line that came to a thread.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Where the access returns to.
    pub place: usize,
    /// The address of the line.
    pub line: usize,
    /// True if the access was a write.
    pub write: bool,
    /// The number of threads that accessed the line while the model counted.
    pub touched: u32,
    /// The number of threads that wrote the line while the model counted.
    pub written: u32,
}

/// Which caches have one line.
struct State {
    /// The number of the start (`begin(false)`) since which `have` is known.
    start: u32,
    /// The caches that have the line.
    have: Set,
    /// The count in which `touched` and `written` are.
    count: u32,
    touched: Set,
    written: Set,
}

/// The number of the start and of the count, which is the greater.
#[derive(Clone, Copy)]
struct Now {
    start: u32,
    count: u32,
}

impl State {
    /// Performs an access of `cache`. Returns `true` if the line is transferred.
    fn access(&mut self, cache: usize, write: bool, Now { start, count }: Now) -> bool {
        if self.start != start {
            (self.start, self.have) = (start, Set::EMPTY);
        }
        if self.count != count {
            (self.count, self.touched, self.written) = (count, Set::EMPTY, Set::EMPTY);
        }
        self.touched.add(cache);
        if write {
            self.written.add(cache);
        }
        let first = self.have == Set::EMPTY;
        let mine = if write { self.have == Set::only(cache) } else { self.have.has(cache) };
        if write {
            self.have = Set::only(cache);
        } else {
            self.have.add(cache);
        }
        !first && !mine
    }
}

/// A line and its state.
struct Slot {
    /// The address of the line by `LINE`, or 0: free.
    line: AtomicUsize,
    locked: AtomicBool,
    state: UnsafeCell<State>,
}

/// The transfers that one thread caused. Only that thread writes.
struct Log {
    length: AtomicUsize,
    transfers: UnsafeCell<[(usize, usize, bool); TRANSFERS]>,
}

struct Model {
    slots: Box<[Slot]>,
    logs: Box<[Log]>,
}

// SAFETY: `locked` guards the state of a slot. A log is written by its thread, and read after the counting.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

static MODEL: OnceLock<Model> = OnceLock::new();
/// True while accesses are passed to the model.
static ON: AtomicBool = AtomicBool::new(false);
/// True while transfers are logged.
static LOGS: AtomicBool = AtomicBool::new(false);
/// The number of the last start.
static START: AtomicU32 = AtomicU32::new(0);
/// The number of the last start or count.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// The caches that threads have taken since the start.
static CACHES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The cache of this thread, and the start since which it has it.
    static CACHE: Cell<(u32, usize)> = const { Cell::new((0, 0)) };
    /// True while this thread is in the model. A signal handler's accesses are then left out.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

impl Model {
    fn new() -> Model {
        // Zero is the value of a free slot and of an empty log, so that pages without one need no memory.
        // SAFETY: all fields of both types may be zero.
        unsafe { Model { slots: zeroed(LINES), logs: zeroed(MOST) } }
    }

    /// Returns the slot of `line`, and takes a free one for a new line.
    fn slot(&self, line: usize) -> &Slot {
        let mut at = line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - LINES.ilog2());
        for _ in 0..LINES {
            let slot = &self.slots[at];
            let found = slot.line.load(Ordering::Relaxed);
            // The line's number alone is published: the state is behind the lock.
            if found == line {
                return slot;
            }
            if found == 0 {
                match slot.line.compare_exchange(0, line, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return slot,
                    Err(other) if other == line => return slot,
                    Err(_) => {}
                }
            }
            at = (at + 1) % LINES;
        }
        panic!("the model has room for {LINES} lines");
    }

    fn access(&self, cache: usize, line: usize, write: bool, place: usize, now: Now) {
        if self.slot(line).with(|state| state.access(cache, write, now)) && LOGS.load(Ordering::Relaxed) {
            self.logs[cache].add((place, line, write));
        }
    }
}

/// Returns a slice of zeros, of which the kernel gives pages when they are written.
///
/// # Safety
///
/// A `T` may be zero in all bytes.
unsafe fn zeroed<T>(length: usize) -> Box<[T]> {
    // SAFETY: the caller's promise.
    unsafe { Box::new_zeroed_slice(length).assume_init() }
}

impl Slot {
    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        // Acquire: pairs with the store below.
        while self.locked.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        // SAFETY: the lock is held.
        let result = f(unsafe { &mut *self.state.get() });
        // Release: pairs with the swap above.
        self.locked.store(false, Ordering::Release);
        result
    }
}

impl Log {
    fn add(&self, transfer: (usize, usize, bool)) {
        let length = self.length.load(Ordering::Relaxed);
        if length < TRANSFERS {
            // SAFETY: only this thread writes the log, and `end` reads below `length` only.
            unsafe { (&raw mut (*self.transfers.get())[length]).write(transfer) };
        }
        // Release: pairs with the load in `end`.
        self.length.store(length + 1, Ordering::Release);
    }
}

/// Passes an access of `size` bytes to the model.
pub(crate) fn access(at: usize, size: usize, write: bool, place: usize) {
    if size == 0 || !ON.load(Ordering::Relaxed) || INSIDE.replace(true) {
        return;
    }
    if let Some(model) = MODEL.get() {
        let now = Now { start: START.load(Ordering::Relaxed), count: COUNT.load(Ordering::Relaxed) };
        let cache = cache(now.start);
        (at / LINE..=(at + size - 1) / LINE).for_each(|line| model.access(cache, line, write, place, now));
    }
    INSIDE.set(false);
}

/// Returns the cache of this thread.
fn cache(start: u32) -> usize {
    let (since, cache) = CACHE.get();
    if since == start {
        return cache;
    }
    let cache = CACHES.fetch_add(1, Ordering::Relaxed);
    assert!(cache < MOST, "the model has {MOST} caches");
    CACHE.set((start, cache));
    cache
}

pub(crate) fn begin(log: bool) {
    let model = MODEL.get_or_init(Model::new);
    model.logs.iter().for_each(|log| log.length.store(0, Ordering::Relaxed));
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    if !log {
        // The threads of an earlier runtime have ended: their caches are given out anew.
        CACHES.store(0, Ordering::Relaxed);
        START.store(count, Ordering::Relaxed);
    }
    LOGS.store(log, Ordering::Relaxed);
    ON.store(true, Ordering::Relaxed);
}

pub(crate) fn end(mut visit: impl FnMut(&Transfer)) -> usize {
    ON.store(false, Ordering::Relaxed);
    LOGS.store(false, Ordering::Relaxed);
    let Some(model) = MODEL.get() else { return 0 };
    let mut missing = 0;
    for log in &model.logs {
        // Acquire: pairs with the store in `add`.
        let length = log.length.load(Ordering::Acquire);
        missing += length.saturating_sub(TRANSFERS);
        for at in 0..length.min(TRANSFERS) {
            // SAFETY: what is below `length` is written, and no thread writes it again before the next
            // `begin`.
            let (place, line, write) = unsafe { (&raw const (*log.transfers.get())[at]).read() };
            let (touched, written) =
                model.slot(line).with(|state| (state.touched.len(), state.written.len()));
            visit(&Transfer { place, line: line * LINE, write, touched, written });
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::{Now, Set, State};

    const NOW: Now = Now { start: 1, count: 1 };

    fn new() -> State {
        State { start: 0, have: Set::EMPTY, count: 0, touched: Set::EMPTY, written: Set::EMPTY }
    }

    #[test]
    fn the_first_access_of_all_is_no_transfer() {
        assert!(!new().access(3, true, NOW));
        assert!(!new().access(3, false, NOW));
    }

    #[test]
    fn a_line_that_one_thread_writes_and_another_reads_moves_each_time() {
        let mut state = new();
        state.access(0, true, NOW);
        for _ in 0..3 {
            assert!(state.access(400, false, NOW), "the reader fetches it");
            assert!(!state.access(400, false, NOW), "the reader has it");
            assert!(state.access(0, true, NOW), "the writer takes it from the reader");
            assert!(!state.access(0, true, NOW), "the writer has it alone");
        }
        assert_eq!((state.touched.len(), state.written.len()), (2, 1));
    }

    #[test]
    fn a_line_that_is_only_read_moves_to_each_reader_once() {
        let mut state = new();
        assert!(!state.access(0, false, NOW));
        assert!((1..64).all(|cache| state.access(cache, false, NOW)));
        assert!((0..64).all(|cache| !state.access(cache, false, NOW)));
        assert_eq!((state.touched.len(), state.written.len()), (64, 0));
    }

    #[test]
    fn a_new_count_forgets_the_threads_but_not_the_copies() {
        let mut state = new();
        state.access(0, true, NOW);
        state.access(1, true, NOW);
        assert!(!state.access(1, true, Now { count: 2, ..NOW }));
        assert_eq!((state.touched.len(), state.written.len()), (1, 1));
    }

    #[test]
    fn a_new_start_forgets_the_copies() {
        let mut state = new();
        state.access(0, true, NOW);
        assert!(!state.access(1, true, Now { start: 2, count: 2 }));
    }
}
