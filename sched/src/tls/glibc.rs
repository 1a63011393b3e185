//! Blocks of glibc: how they are made, entered, ended and renewed. What differs between processors is in a
//! file for each of them.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;
mod layout;
mod libraries;
mod reserve;
mod robust;
mod symbols;
mod try_out;
mod words;

use std::alloc::handle_alloc_error;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use arch::{base, set_base};
use layout::Layout;
use libraries::Libraries;
use netpoll::raw::call;
use words::{read, write};

use super::under::Enter;

thread_local! {
    /// The base of the M that runs the block; 0 in the block of an OS thread.
    static HOME: Cell<usize> = const { Cell::new(0) };
}

/// A block of thread-locals. It is freed by hand.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    base: usize,
    /// Where its memory ends.
    end: usize,
    layout: &'static Layout,
    /// Those with start values in the block.
    libraries: &'static Libraries,
    /// What the block knows of libraries; see [`Layout::generation`].
    generation: Option<usize>,
}

/// What an M needs of a block to enter and leave it.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    base: usize,
    layout: &'static Layout,
}

/// What `check` has found.
static FOUND: OnceLock<Result<Layout, String>> = OnceLock::new();

/// Looks up and tries out all that blocks rely on, the first time. `current` returns where the thread-local
/// is that names a thread's M. `late_libraries`: libraries that need a place in each block can be opened
/// later; else they may be refused.
///
/// # Errors
/// `Unsupported`, with what is missing or differs.
pub(crate) fn check(current: fn() -> usize, late_libraries: bool) -> io::Result<()> {
    let found = FOUND.get_or_init(|| {
        let layout = on_a_thread(|| Layout::find(current, late_libraries))?;
        wrap_setxid()?;
        Ok(layout)
    });
    if late_libraries && found.as_ref().is_ok_and(|layout| layout.is_reserve_taken) {
        let text = "late_libraries is on, but a runtime where it was off has started before in this process";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let tried = || {
        static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
        TRIED.get_or_init(|| on_a_thread(try_out::all)).clone()
    };
    found.as_ref().map_err(String::clone).and_then(|_| tried()).map_err(|what| {
        let text = format!("a green thread cannot have thread-locals of its own here: {what}");
        io::Error::new(io::ErrorKind::Unsupported, text)
    })
}

/// Returns what `check` has found.
fn found() -> &'static Layout {
    let Some(Ok(layout)) = FOUND.get() else { unreachable!("`check` comes first") };
    layout
}

/// Calls `f` on a new OS thread: the main thread's block is laid out in another way.
fn on_a_thread<T: Send>(f: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, f);
        let thread = thread.map_err(|error| format!("no thread could be started: {error}"))?;
        thread.join().unwrap_or_else(|_| Err("a trial has panicked".into()))
    })
}

/// Returns `true` if the code that runs here has thread-locals of its own.
#[inline(never)]
pub(crate) fn is_own() -> bool {
    HOME.get() != 0
}

/// Calls `f` under the thread-locals of the OS thread. *Runs on: a closure under its own block. `f` neither
/// switches stacks nor unwinds.*
#[inline(never)]
pub(crate) fn under_home(f: impl FnOnce()) {
    let (own, home) = (base(), HOME.get());
    let layout = found();
    // SAFETY: this thread has both blocks. The calls in between are not inlined. malloc's words are those of
    // the thread, wherever it is.
    unsafe {
        layout.malloc.into_iter().for_each(|word| write(home, word, read(own, word)));
        set_base(home);
        apart(f);
        set_base(own);
        layout.malloc.into_iter().for_each(|word| write(own, word, read(home, word)));
    }
}

thread_local! {
    /// The base to which `come_back` goes; 0 for none.
    static AWAY_FROM: Cell<usize> = const { Cell::new(0) };
}

/// Goes from a block to the thread-locals of the OS thread, until `come_back`. Does nothing elsewhere. *Runs
/// on: a closure under its own block, or any other thread. Neither unwinds nor switches stacks in between.*
#[inline(never)]
pub(crate) extern "C" fn go_home() {
    let (own, home) = (base(), HOME.get());
    if home == 0 {
        return;
    }
    let layout = found();
    // SAFETY: this thread has both blocks. What follows is not inlined. malloc's words are those of the
    // thread, wherever it is.
    unsafe {
        layout.malloc.into_iter().for_each(|word| write(home, word, read(own, word)));
        set_base(home);
    }
    set_away_from(own);
}

/// Undoes `go_home`.
#[inline(never)]
pub(crate) extern "C" fn come_back() {
    let own = away_from();
    if own == 0 {
        return;
    }
    set_away_from(0);
    let (layout, home) = (found(), base());
    // SAFETY: as in `go_home`.
    unsafe {
        layout.malloc.into_iter().for_each(|word| write(own, word, read(home, word)));
        set_base(own);
    }
}

#[inline(never)]
fn away_from() -> usize {
    AWAY_FROM.get()
}

#[inline(never)]
fn set_away_from(own: usize) {
    AWAY_FROM.set(own);
}

impl Block {
    /// Returns how much memory a block needs that ends with a page. *Runs on: any thread, after `check` has
    /// succeeded.*
    pub(crate) fn bytes() -> usize {
        found().bytes()
    }

    /// Makes a block as of a new thread. *Runs on: any thread, after `check` has succeeded.*
    ///
    /// # Safety
    /// The [`bytes`](Block::bytes) bytes below `end`, which is the end of a page, are the block's until
    /// `free`.
    pub(crate) unsafe fn new(end: usize) -> Block {
        let layout = found();
        loop {
            // The libraries first: one that comes later is noticed.
            let libraries = Libraries::latest();
            layout.must_hold(libraries);
            // SAFETY: this contract; and the block is new.
            unsafe {
                let base = layout.new_block(end);
                // libc may have written the values of one that came in between, and may be gone when the
                // block is brought up to date.
                if libraries.are_all() {
                    return Block { base, end, layout, libraries, generation: layout.generation(base) };
                }
                layout.end_block(base);
            }
        }
    }

    /// Frees what libc has allocated for the block.
    ///
    /// # Safety
    /// No thread is in the block or enters it again, and no closure has run in it since the last `renew`.
    pub(crate) unsafe fn free(self) {
        // SAFETY: this contract.
        unsafe { self.layout.end_block(self.base) };
    }

    /// Returns the way into the block.
    #[inline(always)]
    pub(crate) fn way(&self) -> Way {
        Way { base: self.base, layout: self.layout }
    }

    /// Begins to load what the end of a closure reads in the block. *Runs on: the M that is to enter the
    /// block.*
    #[inline]
    pub(crate) fn will_end(self) {
        self.layout.will_end(self.base);
    }

    /// Runs the destructors of the block's thread-locals and keys, which may make others. *Runs on: the
    /// closure's stack, in user code.*
    #[inline(never)]
    pub(crate) fn end(self) {
        debug_assert_eq!(base(), self.base, "a closure ends under its own block");
        self.layout.run_destructors(self.base);
        self.layout.end_of_libc(self.base);
    }

    /// Makes the block as new. *Runs on: the M that has left the block, after the end of a closure.*
    pub(crate) fn renew(&mut self) {
        // SAFETY: no thread is in the block, and `end` has run the destructors.
        unsafe {
            if self.layout.has_dynamic(self.base, self.generation) {
                // The images of libraries that were opened later: rare, and only libc knows how to free them.
                self.replace();
            } else {
                self.layout.reset(self.base, self.libraries);
            }
        }
    }

    /// Brings the block up to date with the libraries that are open now. `begins`: no closure has run in it
    /// since it was renewed. *Runs on: the M that is to enter the block.*
    #[inline(always)]
    pub(crate) fn catch_up(&mut self, begins: bool) {
        if !self.libraries.are_all() {
            self.has_come(begins);
        }
    }

    #[cold]
    #[inline(never)]
    fn has_come(&mut self, begins: bool) {
        // SAFETY: this M alone uses the block.
        unsafe {
            if begins {
                self.replace();
            } else {
                let latest = Libraries::latest();
                self.layout.must_hold(latest);
                latest.replace(self.libraries, self.base);
                self.libraries = latest;
            }
        }
    }

    /// Makes another block in this one's place.
    ///
    /// # Safety
    /// As for `free`.
    #[cold]
    #[inline(never)]
    unsafe fn replace(&mut self) {
        // SAFETY: this contract; and the memory is this block's.
        unsafe {
            self.free();
            *self = Block::new(self.end);
        }
    }

    /// Calls `f` under the block, on this thread's own stack.
    #[inline(never)]
    fn with<R>(self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the block is this thread's alone, in a trial. The calls in between are not inlined.
        unsafe {
            let home = self.way().enter(0);
            let result = apart(f);
            self.way().leave(home);
            result
        }
    }
}

impl Way {
    /// Sets the base, after the block has what the M brings along.
    ///
    /// # Safety
    /// This thread is in the block of the base `from`, or in the M's own, and has this one, too.
    #[inline(always)]
    unsafe fn come_from(self, from: usize, m: usize, home: usize) {
        let Layout { current, home: home_at, malloc, .. } = *self.layout;
        // SAFETY: these are words of thread-locals within the two blocks.
        unsafe {
            debug_assert_eq!(read(self.base, home_at), 0, "two Ms are in one block");
            write(self.base, current, m);
            write(self.base, home_at, home);
            malloc.into_iter().for_each(|word| write(self.base, word, read(from, word)));
            set_base(self.base);
        }
    }

    /// In debug builds notes that no M is in the block, which the next one to enter checks.
    ///
    /// # Safety
    /// This thread has left the block, and no other thread can enter it yet.
    #[inline(always)]
    unsafe fn is_left(self) {
        if cfg!(debug_assertions) {
            // SAFETY: this contract.
            unsafe { write(self.base, self.layout.home, 0) };
        }
    }
}

impl Enter for Way {
    #[inline(always)]
    unsafe fn enter(self, m: usize) -> usize {
        let home = base();
        // SAFETY: this thread has both blocks.
        unsafe { self.come_from(home, m, home) };
        home
    }

    #[inline(always)]
    unsafe fn leave(self, home: usize) {
        // SAFETY: as in `enter`. What the block keeps of malloc's words is not used again: the next M that
        // enters brings its own.
        unsafe {
            self.layout.malloc.into_iter().for_each(|word| write(home, word, read(self.base, word)));
            set_base(home);
            self.is_left();
        }
    }

    #[inline(always)]
    unsafe fn pass(self, to: Way, m: usize, home: usize) {
        if to.base != self.base {
            // SAFETY: this thread has both blocks.
            unsafe {
                to.come_from(self.base, m, home);
                self.is_left();
            }
        }
    }
}

#[inline(never)]
fn apart<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// The signal by which glibc has all threads change their user.
const SIGSETXID: c_int = 33;
/// glibc's handler of that signal.
static OF_GLIBC: AtomicUsize = AtomicUsize::new(0);

/// Has glibc's handler of `SIGSETXID` run under the M's base. libc's `sigaction` refuses this signal.
fn wrap_setxid() -> Result<(), String> {
    // As the kernel has it: handler, flags, restorer, mask.
    let mut action = [0_usize; 4];
    let (size, none) = (size_of::<usize>(), ptr::null_mut::<usize>());
    // SAFETY: the kernel reads and writes these words only.
    let asked = unsafe { call!(libc::SYS_rt_sigaction, SIGSETXID, none, action.as_mut_ptr(), size) };
    if asked != 0 || action[0] <= 1 {
        return Err("glibc has no handler for its signal 33".into());
    }
    OF_GLIBC.store(action[0], Ordering::Relaxed);
    action[0] = on_setxid as *const () as usize;
    // SAFETY: as above; the handler may run at any time from here on.
    let set = unsafe { call!(libc::SYS_rt_sigaction, SIGSETXID, action.as_ptr(), none, size) };
    if set == 0 { Ok(()) } else { Err("the kernel refuses a handler for signal 33".into()) }
}

unsafe extern "C" fn on_setxid(signal: c_int, info: *mut c_void, context: *mut c_void) {
    let handler = ptr::with_exposed_provenance::<()>(OF_GLIBC.load(Ordering::Relaxed));
    // SAFETY: the word is the address of glibc's handler, with this signature.
    let handler: unsafe extern "C" fn(c_int, *mut c_void, *mut c_void) =
        unsafe { std::mem::transmute(handler) };
    let (own, home) = (base(), HOME.get());
    // SAFETY: the M of this thread does not use its block while the handler runs. Nothing in between touches
    // a thread-local but glibc's handler.
    unsafe {
        if home != 0 {
            set_base(home);
        }
        handler(signal, info, context);
        set_base(own);
    }
}

/// The next number for a block, in the place of the kernel's number of a thread: locks of pthread compare
/// these. No kernel has so many.
static NEXT_TID: AtomicU32 = AtomicU32::new(1 << 28);

fn out_of_memory() -> ! {
    handle_alloc_error(std::alloc::Layout::new::<[usize; 640]>())
}

/// Returns the offset of `HOME`.
#[inline(never)]
fn offset_of_home() -> isize {
    HOME.with(|home| ptr::from_ref(home).addr()).wrapping_sub(base()).cast_signed()
}

/// Returns the next number of a block.
fn next_tid() -> u32 {
    NEXT_TID.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `check` with a thread-local of this crate: no M runs in these tests, so that any one does.
    pub(super) fn check_with_any_thread_local() {
        check(|| HOME.with(|home| ptr::from_ref(home).expose_provenance()), false).unwrap();
    }

    #[test]
    fn blocks_work() {
        check_with_any_thread_local();
        on_a_thread(try_out::all).unwrap();
    }
}
