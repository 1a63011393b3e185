//! Coroutines: how a G gets onto a stack, off it, and back. Only this file names corosensei's switches.
//!
//! A coroutine outlives the Gs that run on it. The root of a coroutine is a loop that runs one G after
//! another. So a pooled coroutine starts its next G with a single switch. A coroutine lies at the top of its
//! own stack, on the page that every green thread touches anyway.
//!
//! ```text
//!   the M                                    the G's stack
//!   resume(g) ─────────────────────────────> run the task of g, or go on where it stopped
//!             <───────────────────────────── suspend(why)
//!   act on why: only now may other threads see g as parked, queued or dead
//! ```

#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::g::payload::Stop;
use crate::g::{G, GRef};
use crate::stack::{Stack, checked_stack_bytes};
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
use crate::sys::peek;
use crate::sys::prefetch;
use crate::tls::{Block, Under, Way};

pub(super) type Inner = Coroutine<GRef, Stop, (), Stack>;

/// One coroutine, at the top of its stack.
pub(crate) struct Coro {
    pub(super) inner: Inner,
    yielder: Cell<*const Yielder<GRef, Stop>>,
    /// The next coroutine in the pool.
    pub(crate) next: *mut Coro,
    /// The size of stack that was asked for; 0 for the runtime's default.
    pub(crate) class: u32,
    /// The addresses at which an access means a stack overflow, and the depth that a G can use.
    guard: Range<usize>,
    usable_bytes: usize,
    /// The M that the G on this coroutine is bound to; null if the G is not bound. Only `m/binding.rs` knows
    /// the type behind it.
    pub(crate) bound_to: Cell<*const ()>,
    /// The thread-locals of closures that run here with their own. `None` if all code has the thread-locals
    /// of its M.
    block: Option<Block>,
    whose: Cell<Whose>,
    #[cfg(tsan)]
    fiber: tsan::Fiber,
}

/// The cache lines around the start of a coroutine that a switch to it uses first.
const AHEAD: std::ops::Range<isize> = -8..2;

/// Which thread-locals the closure or poll on a coroutine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// None runs here.
    Undecided,
    Own,
    OfM,
}

impl G {
    /// Returns the coroutine of this G, or null. *Runs on: the M that runs this G, or a thread that may make
    /// it runnable.*
    #[inline]
    pub(crate) fn coro(&self) -> *mut Coro {
        // Relaxed, here and below: the thread that uses the coroutine owns the G. For others it is a hint.
        self.coro_ptr.load(Ordering::Relaxed).cast()
    }

    /// Gives this G a coroutine. *Runs on: the thread that owns this G.*
    #[inline]
    pub(crate) fn set_coro(&self, coro: *mut Coro) {
        self.coro_ptr.store(coro.cast(), Ordering::Relaxed);
    }

    /// Takes the coroutine off this G, which has none then. *Runs on: the M that has run this G.*
    #[inline]
    pub(crate) fn take_coro(&self) -> *mut Coro {
        let coro = self.coro();
        self.coro_ptr.store(ptr::null_mut(), Ordering::Relaxed);
        coro
    }
}

impl Coro {
    /// Makes the coroutine of an unused stack, on that stack. `owns_locals` gives it thread-locals of its
    /// own, which lie above it.
    pub(crate) fn new(stack: Stack, class: u32, owns_locals: bool) -> *mut Coro {
        let end = stack.base();
        let stack = if owns_locals { stack.reserve_top(Block::bytes()).1 } else { stack };
        // SAFETY: `reserve_top` kept these bytes for the block alone, and a whole stack ends with a page.
        let block = owns_locals.then(|| unsafe { Block::new(end) });
        let (place, stack) = stack.reserve_top(size_of::<Coro>());
        let place = place.cast::<Coro>().as_ptr();
        let (guard, usable_bytes) = (stack.guard_range(), stack.usable_bytes());
        let inner = Inner::with_stack(stack, root);
        let coro = Coro {
            inner,
            yielder: Cell::new(ptr::null()),
            next: ptr::null_mut(),
            class,
            guard,
            usable_bytes,
            bound_to: Cell::new(ptr::null()),
            block,
            whose: Cell::new(Whose::Undecided),
            #[cfg(tsan)]
            fiber: tsan::Fiber::new(),
        };
        // SAFETY: `reserve_top` reserved these bytes, aligned to 16, for this coroutine alone, while the
        // stack is mapped.
        unsafe { place.write(coro) };
        place
    }

    /// Begins to load into the cache what a switch to the coroutine at `coro` uses first: the coroutine, its
    /// last frames and, above it, the start of its block. `coro` may be null, or be gone: it is only a hint.
    #[inline(always)]
    pub(crate) fn will_run(coro: *const Coro) {
        // Address 0 is in no page, and a search for its page takes time.
        if coro.is_null() {
            return;
        }
        for line in AHEAD {
            prefetch(coro.cast::<u8>().wrapping_offset(line * 64));
        }
    }

    /// Begins to load the coroutine of `next`, which probably runs after `g`. Another thread may own that G:
    /// it is a hint.
    ///
    /// # Safety
    /// The coroutine of `g`, if it has one, is this thread's alone.
    pub(crate) unsafe fn expect_next(g: GRef, next: GRef) {
        Coro::will_run(next.coro());
        let coro = g.coro();
        // SAFETY: this contract, and the coroutine of a G stays while the G has it.
        let block = if coro.is_null() { None } else { unsafe { (*coro).block } };
        if let Some(block) = block {
            block.will_end();
        }
    }

    /// Takes the coroutine off its stack for good. Returns the stack.
    ///
    /// # Safety
    /// The coroutine is in no list and runs no G.
    pub(crate) unsafe fn dissolve(coro: *mut Coro) -> Stack {
        // SAFETY: only the caller knows the coroutine, by this contract, and its old place is not used again.
        let mut inner = unsafe {
            Coro::free_block(coro);
            coro.read()
        }
        .inner;
        // SAFETY: between two Gs the loop of `root` holds nothing that must be dropped.
        unsafe { inner.force_reset() };
        inner.into_stack()
    }

    /// Frees the block of thread-locals. Returns `false` if there is none.
    ///
    /// # Safety
    /// As for `dissolve`.
    pub(super) unsafe fn free_block(coro: *mut Coro) -> bool {
        // SAFETY: only the caller knows the coroutine. No G runs on it, and `resume` has renewed the block
        // after each closure.
        unsafe { (*coro).block.take().map(|block| block.free()) }.is_some()
    }

    /// Returns the block of thread-locals with which `g` runs, if it has one of its own.
    ///
    /// # Safety
    /// `g` has a coroutine, which this thread alone uses.
    #[inline]
    pub(crate) unsafe fn block_of(g: GRef) -> Option<Block> {
        // SAFETY: this contract.
        let coro = unsafe { &*g.coro() };
        coro.block.filter(|_| coro.whose.get() == Whose::Own)
    }

    /// Runs `g` until it stops, under the thread-locals that it is to have. Returns why it stopped.
    ///
    /// # Safety
    /// `m` is the address of this thread's M, and `g` is that M's to run. `g.coro` is its coroutine, and no
    /// other thread uses that coroutine.
    #[inline(always)]
    pub(crate) unsafe fn resume(m: usize, is_taken: impl FnOnce() -> bool, g: GRef) -> Stop {
        // SAFETY: this contract.
        unsafe {
            match (*g.coro()).block {
                None => Coro::switch_to(g),
                Some(_) => Coro::resume_with_block(m, is_taken, g),
            }
        }
    }

    /// As `resume`, where coroutines have blocks. Not inlined, so that it costs nothing where there are none.
    ///
    /// # Safety
    /// As for `resume`.
    #[inline(never)]
    unsafe fn resume_with_block(m: usize, is_taken: impl FnOnce() -> bool, g: GRef) -> Stop {
        let mut under = Under::home(m);
        // SAFETY: this contract. The coroutine is this thread's, and so is its block. Nothing in between
        // touches a thread-local.
        unsafe {
            under.go(Coro::way_to_run(g, is_taken));
            let stop = Coro::switch_to(g);
            under.leave();
            if let Stop::Done | Stop::Pending = stop {
                Coro::renew_block(g);
            }
            stop
        }
    }

    /// Returns the way into the block of thread-locals with which `g` is to run, if not with the M's. A
    /// closure has a block of its own where coroutines have blocks. A poll has the M's, unless `is_taken`: the
    /// M's are those of another poll that is parked.
    ///
    /// # Safety
    /// `g` has a coroutine, which this thread alone uses.
    #[inline]
    pub(crate) unsafe fn way_to_run(g: GRef, is_taken: impl FnOnce() -> bool) -> Option<Way> {
        let coro = g.coro();
        if coro.is_null() {
            return None;
        }
        // References to the two fields alone: a signal handler of the profiler may read other fields.
        // SAFETY: this contract.
        let (block, owner) = unsafe { ((*coro).block.as_mut()?, &(*coro).whose) };
        let begins = owner.get() == Whose::Undecided;
        if begins {
            let owns = g.task().owns_locals || is_taken();
            owner.set(if owns { Whose::Own } else { Whose::OfM });
        }
        (owner.get() == Whose::Own).then(|| {
            block.catch_up(begins);
            block.way()
        })
    }

    /// Makes the block as new after the end of a closure or a poll, if that had it. *Runs on: the M that has
    /// run `g`.*
    ///
    /// # Safety
    /// `g` has a coroutine, which this thread alone uses, and no thread is in its block.
    #[inline(never)]
    pub(crate) unsafe fn renew_block(g: GRef) {
        let coro = g.coro();
        // As in `way_to_run`.
        // SAFETY: this contract.
        let (block, owner) = unsafe { (&mut (*coro).block, &(*coro).whose) };
        if owner.replace(Whose::Undecided) == Whose::Own {
            block.as_mut().into_iter().for_each(Block::renew);
        }
    }

    /// As `resume`, with the present thread-locals.
    ///
    /// # Safety
    /// As for `resume`.
    #[inline(always)]
    pub(crate) unsafe fn switch_to(g: GRef) -> Stop {
        // SAFETY: this thread alone uses the coroutine, by this function's contract.
        let inner = unsafe { &mut (*g.coro()).inner };
        #[cfg(tsan)]
        // SAFETY: this thread alone uses the coroutine, by this function's contract.
        let own = unsafe { &(*g.coro()).fiber }.enter();
        let result = inner.resume(g);
        #[cfg(tsan)]
        tsan::switch_to(own);
        match result {
            CoroutineResult::Yield(stop) => stop,
            CoroutineResult::Return(()) => unreachable!("the root of a coroutine runs for ever"),
        }
    }

    /// Stops the running G. Returns when the G is resumed, perhaps on another M.
    ///
    /// # Safety
    /// `g` is the G that runs on this stack.
    #[inline(always)]
    pub(crate) unsafe fn suspend(g: GRef, stop: Stop) {
        // SAFETY: a running G has its coroutine. `root` stored the yielder, which lies on this same stack.
        unsafe { (*(*g.coro()).yielder.get()).suspend(stop) };
    }

    /// Returns `true` if the stack of `g`, which has one, is not of the default size. *Runs on: the M that
    /// runs `g`.*
    #[inline]
    pub(crate) fn has_own_size(g: GRef) -> bool {
        // SAFETY: the M that runs `g` alone uses its coroutine, and `g` has one, by this contract.
        unsafe { (*g.coro()).class != 0 }
    }

    /// Where a debugger finds corosensei's coroutine, and the lowest address of the stack above its guard.
    #[allow(dead_code, reason = "only debugger.rs uses it, which is not built for every target")]
    pub(crate) const PLACES: [(&std::ffi::CStr, usize); 2] = [
        (c"coro.inner", std::mem::offset_of!(Coro, inner)),
        (c"coro.lowest", std::mem::offset_of!(Coro, guard) + std::mem::offset_of!(Range<usize>, end)),
    ];

    /// Returns the addresses at which frames may lie on the stack of the coroutine at `coro`, and the words
    /// of corosensei's coroutine. The kernel reads them, so the coroutine may run or go away at the same
    /// time. Returns `None` if they cannot be read.
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(asan, portable))
    ))]
    pub(super) fn peek(coro: usize) -> Option<(Range<usize>, [usize; super::saved::WORDS])> {
        let [(_, inner), (_, lowest)] = Coro::PLACES;
        let lowest = peek::word(coro.checked_add(lowest)?)?;
        let mut words = [0; super::saved::WORDS];
        peek::words(coro.checked_add(inner)?, &mut words).then_some((lowest..coro, words))
    }

    /// Returns the addresses of the stack below `top` at which frames may lie.
    pub(crate) fn frames_below(&self, top: usize) -> Range<usize> {
        self.guard.end..top
    }

    /// Returns where the frames of the running G end, if `sp` lies on its stack. Signal handlers may call
    /// this.
    ///
    /// # Safety
    /// `g` runs on this thread.
    #[allow(dead_code, reason = "only interrupted.rs calls it, which is not built for every target")]
    pub(crate) unsafe fn top_if_on(g: GRef, sp: usize) -> Option<usize> {
        // SAFETY: a running G has its coroutine, but a signal may come before the M has given it one.
        let coro = unsafe { g.coro().as_ref()? };
        let top = ptr::from_ref(coro).addr();
        coro.frames_below(top).contains(&sp).then_some(top)
    }

    /// Returns the lowest address and the size of the stack, without its guard.
    #[allow(dead_code, reason = "only bounds.rs calls it, which is not built for every target")]
    pub(crate) fn stack(&self) -> (usize, usize) {
        let lowest = self.guard.end;
        (lowest, ptr::from_ref(self).addr() - lowest)
    }

    /// Returns the range in which every access faults.
    #[cfg(all(test, unix))]
    pub(crate) fn guard_range(&self) -> Range<usize> {
        self.guard.clone()
    }

    /// Returns the usable size of the running G's stack if `address` lies in its guard. Signal handlers may
    /// call this.
    ///
    /// # Safety
    /// `g` runs on this thread.
    pub(crate) unsafe fn overflowed(g: GRef, address: usize) -> Option<usize> {
        // SAFETY: a running G has its coroutine.
        let coro = unsafe { &*g.coro() };
        coro.guard.contains(&address).then_some(coro.usable_bytes)
    }
}

/// Reports stack switches to ThreadSanitizer (`ci/tsan.sh`): each coroutine is a fiber.
///
/// The M enters the fiber before the switch and leaves it after the switch back, both in `resume`. So
/// ThreadSanitizer counts entries and returns of frames on the same fiber. `resume` enters a frame of
/// corosensei on the fiber, and the returning `suspend` leaves such a frame. A function that switches fibers
/// is therefore always inlined. A frame of such a function would be entered on one fiber and left on another.
#[cfg(tsan)]
mod tsan {
    use std::ffi::{c_uint, c_void};

    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_create_fiber(flags: c_uint) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: c_uint);
    }

    pub(super) struct Fiber(*mut c_void);

    impl Fiber {
        pub(super) fn new() -> Fiber {
            // SAFETY: the call only makes a record of ThreadSanitizer's own.
            Fiber(unsafe { __tsan_create_fiber(0) })
        }

        /// Switches to this fiber. Returns the fiber that the M was on.
        #[inline(always)]
        pub(super) fn enter(&self) -> *mut c_void {
            // SAFETY: the call only reads a word of the calling thread.
            let own = unsafe { __tsan_get_current_fiber() };
            switch_to(self.0);
            own
        }
    }

    #[inline(always)]
    pub(super) fn switch_to(fiber: *mut c_void) {
        // SAFETY: an M's fiber lives as long as its thread, and a coroutine's until the coroutine is
        // dissolved.
        unsafe { __tsan_switch_to_fiber(fiber, 0) };
    }

    impl Drop for Fiber {
        fn drop(&mut self) {
            // SAFETY: the coroutine is dissolved, so no M is on the fiber.
            unsafe { __tsan_destroy_fiber(self.0) };
        }
    }
}

/// Returns how large a stack must be to leave `stack_bytes` to its green threads. Returns `InvalidInput` if
/// no stack can be so large or so small.
pub(crate) fn with_header(stack_bytes: usize, owns_locals: bool) -> io::Result<usize> {
    let of_block = if owns_locals { Block::bytes() + FOR_DESTRUCTORS } else { 0 };
    Ok(checked_stack_bytes(stack_bytes)? + size_of::<Coro>().next_multiple_of(16) + of_block)
}

/// What destructors of thread-locals may need of a stack beyond its size. The runtime's run queues have such
/// a thread-local, of `crossbeam-epoch`, on any green thread that happens to enlarge one. It costs address
/// space only.
const FOR_DESTRUCTORS: usize = if cfg!(debug_assertions) { 32 << 10 } else { 16 << 10 };

/// The code at the root of every coroutine: runs one G after another.
fn root(yielder: &Yielder<GRef, Stop>, first: GRef) {
    // SAFETY: the M that resumes this coroutine set `first.coro` to it, and no other thread uses `yielder`.
    unsafe { (*first.coro()).yielder.set(yielder) };
    let mut g = first;
    loop {
        // SAFETY: the M gave `g` to this coroutine to run, with the payload as its task left it.
        let stop = unsafe { (g.task().run)(g) };
        g = yielder.suspend(stop);
    }
}
