//! Coroutines: how a G gets onto a stack, off it, and back. The only file that names corosensei's switches.
//!
//! A coroutine outlives the Gs that run on it: its root is a loop that runs one G after another, so a pooled one
//! starts its next G with a single switch. It lives at the top of its own stack, on the page that every green
//! thread touches anyway.
//!
//! ```text
//!   the M                                    the G's stack
//!   resume(g) ─────────────────────────────> run the task of g, or go on where it stopped
//!             <───────────────────────────── suspend(why)
//!   act on why: only now may others see g as parked, queued or dead
//! ```

#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::GRef;
use crate::m::M;
use crate::stack::{Stack, checked_stack_bytes};

/// Why a G gave its M back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Stop {
    /// It lets others go first.
    Yield,
    /// It waits: `Wait::commit` decides.
    Park,
    /// Its task has ended.
    Done,
    /// Its future waits: it needs no stack until it is woken.
    Pending,
}

type Inner = Coroutine<GRef, Stop, (), Stack>;

/// Which M a G may run on. In the G's word `bound`:
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    /// Any.
    Free,
    /// It keeps this one, which sleeps on its note: it is parked (`lend::park_in_place`), or it waits for a P
    /// (`lend::wait_in_place`).
    InPlace(&'static M),
    /// This one only: it has stopped inside a poll or while it unwinds, or it has started here and the runtime is strict.
    Home(&'static M),
}

pub(crate) const FREE: u8 = 0;
const IN_PLACE: u8 = 1;
const HOME: u8 = 2;
const HOW: u8 = 0b11;
/// Beside how it is bound: it is in `blocking`.
const BLOCKING: u8 = 0b100;

/// One coroutine, at the top of its stack.
pub(crate) struct Coro {
    inner: Inner,
    yielder: Cell<*const Yielder<GRef, Stop>>,
    /// The next in the pool that it is in.
    pub(crate) next: *mut Coro,
    /// The size it was asked for; 0 for the runtime's own.
    pub(crate) class: u32,
    /// Where an access means that whoever runs on it has gone too deep, and how deep one can go.
    guard: Range<usize>,
    usable_bytes: usize,
    /// The M that its G is bound to, if it is.
    m: Cell<*const M>,
    #[cfg(tsan)]
    fiber: tsan::Fiber,
}

impl Coro {
    /// Makes the coroutine of a stack that nobody has used, on that stack.
    pub(crate) fn new(stack: Stack, class: u32) -> *mut Coro {
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
            m: Cell::new(ptr::null()),
            #[cfg(tsan)]
            fiber: tsan::Fiber::new(),
        };
        // SAFETY: `reserve_top` kept these bytes, aligned to 16, for us alone, for as long as the stack is mapped.
        unsafe { place.write(coro) };
        place
    }

    /// Takes the coroutine off its stack for good.
    ///
    /// # Safety
    /// It is in no list and runs no G.
    pub(crate) unsafe fn dissolve(coro: *mut Coro) -> Stack {
        // SAFETY: the caller alone knows it; what is read out here is not used at its old place again.
        let mut inner = unsafe { coro.read() }.inner;
        // SAFETY: between two Gs the root holds nothing that is to be dropped.
        unsafe { inner.force_reset() };
        inner.into_stack()
    }

    /// Runs `g` until it stops.
    ///
    /// # Safety
    /// `g` is this M's to run and `g.coro` is its coroutine; nobody else uses that coroutine.
    #[inline]
    pub(crate) unsafe fn resume(g: GRef) -> Stop {
        // SAFETY: by the contract above, this is the only use of the coroutine.
        let inner = unsafe { &mut (*g.coro.get()).inner };
        #[cfg(tsan)]
        // SAFETY: as for `inner`.
        let own = unsafe { &(*g.coro.get()).fiber }.enter();
        let result = inner.resume(g);
        #[cfg(tsan)]
        tsan::switch_to(own);
        match result {
            CoroutineResult::Yield(stop) => stop,
            CoroutineResult::Return(()) => unreachable!("the root of a coroutine runs for ever"),
        }
    }

    /// Stops the running G; returns when it is resumed, perhaps on another M.
    ///
    /// # Safety
    /// `g` is the G that runs on this stack.
    #[inline(always)]
    pub(crate) unsafe fn suspend(g: GRef, stop: Stop) {
        // SAFETY: a running G has its coroutine, whose root stored the yielder, which lives on that same stack.
        unsafe { (*(*g.coro.get()).yielder.get()).suspend(stop) };
    }

    /// True if the stack of `g`, which has one, is not of the runtime's own size. *Runs on: whoever runs `g`.*
    #[inline]
    pub(crate) fn is_odd(g: GRef) -> bool {
        // SAFETY: by the contract above its coroutine is there, and nobody else uses it.
        unsafe { (*g.coro.get()).class != 0 }
    }

    /// How deep the stack of the running G is, if `address` lies in its guard. Signal handlers may call this.
    ///
    /// # Safety
    /// `g` runs on this thread.
    pub(crate) unsafe fn overflowed(g: GRef, address: usize) -> Option<usize> {
        // SAFETY: a running G has its coroutine.
        let coro = unsafe { &*g.coro.get() };
        coro.guard.contains(&address).then_some(coro.usable_bytes)
    }

    /// `g` keeps `m` while it does not run, or no longer.
    ///
    /// # Safety
    /// `g` runs on this thread, which is `m`, and has no home.
    pub(crate) unsafe fn set_in_place(g: GRef, m: Option<&M>) {
        debug_assert!(!Coro::is_home(g), "strict mode binds a G for good");
        // SAFETY: a running G has its coroutine.
        unsafe { Coro::bind(g, if m.is_some() { IN_PLACE } else { FREE }, m) };
    }

    /// Binds `g` to `m`: from its next stop on, no other M resumes it.
    ///
    /// # Safety
    /// `g` has its coroutine and is this thread's to run; this thread is `m`.
    pub(crate) unsafe fn settle(g: GRef, m: &M) {
        debug_assert!(g.bound.load(Ordering::Relaxed) & HOW == FREE, "a G is bound to one M at a time");
        m.homes.add();
        // SAFETY: by the contract above.
        unsafe { Coro::bind(g, HOME, Some(m)) };
    }

    /// `g` may run on any M again, if it was bound to this one. *Runs on: the M that runs `g`.*
    #[inline]
    pub(crate) fn unsettle(g: GRef) {
        if Coro::is_home(g) {
            Coro::unsettle_bound(g);
        }
    }

    #[cold]
    fn unsettle_bound(g: GRef) {
        // SAFETY: `g` runs here, so its coroutine is this thread's; an M that a G is bound to stays while it is.
        let m = unsafe { &*(*g.coro.get()).m.get() };
        m.homes.remove();
        let blocking = g.bound.load(Ordering::Relaxed) & BLOCKING;
        // Relaxed: the next to look takes the G over from this thread.
        g.bound.store(FREE | blocking, Ordering::Relaxed);
    }

    /// # Safety
    /// `g` has its coroutine and is this thread's to run.
    unsafe fn bind(g: GRef, how: u8, m: Option<&M>) {
        // SAFETY: by the contract above.
        unsafe { (*g.coro.get()).m.set(m.map_or(ptr::null(), ptr::from_ref)) };
        let blocking = g.bound.load(Ordering::Relaxed) & BLOCKING;
        // Release: which M; pairs with `bound`.
        g.bound.store(how | blocking, Ordering::Release);
    }

    /// True if the code of `g` is in `blocking`. *Runs on: any thread; only the G itself changes it.*
    #[inline]
    pub(crate) fn is_blocking(g: GRef) -> bool {
        // Relaxed: sysmon acts on nothing but this and the lease.
        g.bound.load(Ordering::Relaxed) & BLOCKING != 0
    }

    /// Says whether the code of `g` is in `blocking`; gives what was said before. *Runs on: `g`.*
    pub(crate) fn set_blocking(g: GRef, blocking: bool) -> bool {
        let bound = g.bound.load(Ordering::Relaxed);
        // Relaxed: only the G and its M write this.
        g.bound.store(bound & !BLOCKING | if blocking { BLOCKING } else { 0 }, Ordering::Relaxed);
        bound & BLOCKING != 0
    }

    /// True if `g` is bound or in `blocking`: there is more to do than to resume it. *Runs on: the M that has taken `g` from
    /// a queue.*
    #[inline]
    pub(crate) fn is_special(g: GRef) -> bool {
        // Relaxed: the queue has ordered what the binder wrote.
        g.bound.load(Ordering::Relaxed) != FREE
    }

    /// The M that keeps `g` on its stack and waits for a P to go on with it; `None` if `m` may run `g`. A G that a queue
    /// of a P has, or the global queue, is bound only while it waits so. *Runs on: `m`, which has taken `g` from a queue.*
    pub(crate) fn waits_in_place(g: GRef, m: &M) -> Option<&'static M> {
        match Coro::bound(g) {
            Bound::Free => None,
            Bound::InPlace(other) | Bound::Home(other) => (!ptr::eq(other, m)).then_some(other),
        }
    }

    /// True if `g` is bound to one M. *Runs on: the M that runs `g`, or a thread that may make `g` runnable.*
    #[inline]
    pub(crate) fn is_home(g: GRef) -> bool {
        // Relaxed: the caller has taken the G over from whoever wrote this.
        g.bound.load(Ordering::Relaxed) & HOW == HOME
    }

    /// The M that `g` is bound to, if it is. *Runs on: whoever may make `g` runnable.*
    #[inline]
    pub(crate) fn bound(g: GRef) -> Bound {
        // Acquire: pairs with `bind`.
        let how = g.bound.load(Ordering::Acquire) & HOW;
        if how == FREE {
            return Bound::Free;
        }
        // SAFETY: the caller has the right to make `g` runnable, so `g` stays parked and keeps its coroutine; an M
        // that a G is bound to stays while that G lives.
        let m = unsafe { &*(*g.coro.get()).m.get() };
        if how == HOME { Bound::Home(m) } else { Bound::InPlace(m) }
    }
}

/// Tells ThreadSanitizer of stack switches (`ci/tsan.sh`): each coroutine is a fiber.
///
/// The M enters the fiber before the switch and leaves it after the switch back, both in `resume`. So the frames that
/// ThreadSanitizer counts on entry and return are counted on one fiber: `resume` enters a frame of corosensei on the
/// fiber, and the `suspend` that returns leaves one. A function that switches fibers is therefore always inlined: a frame of
/// its own would be entered on one fiber and left on another.
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
            // SAFETY: it makes a record of ThreadSanitizer's own.
            Fiber(unsafe { __tsan_create_fiber(0) })
        }

        /// Switches to it; returns the fiber that the M was on.
        #[inline(always)]
        pub(super) fn enter(&self) -> *mut c_void {
            // SAFETY: it reads a word of the calling thread.
            let own = unsafe { __tsan_get_current_fiber() };
            switch_to(self.0);
            own
        }
    }

    #[inline(always)]
    pub(super) fn switch_to(fiber: *mut c_void) {
        // SAFETY: the M's fiber lives as long as its thread, and another one until its coroutine is dissolved.
        unsafe { __tsan_switch_to_fiber(fiber, 0) };
    }

    impl Drop for Fiber {
        fn drop(&mut self) {
            // SAFETY: the coroutine is dissolved, so no M is on the fiber.
            unsafe { __tsan_destroy_fiber(self.0) };
        }
    }
}

/// How large a stack must be that leaves `stack_bytes` to its green threads; `InvalidInput` if no stack can be so.
pub(crate) fn with_header(stack_bytes: usize) -> io::Result<usize> {
    Ok(checked_stack_bytes(stack_bytes)? + size_of::<Coro>().next_multiple_of(16))
}

/// The root of every coroutine.
fn root(yielder: &Yielder<GRef, Stop>, first: GRef) {
    // SAFETY: the M that resumed us set `first.coro` to this coroutine, and nobody else looks at `yielder`.
    unsafe { (*first.coro.get()).yielder.set(yielder) };
    let mut g = first;
    loop {
        // SAFETY: the M gave us `g` to run, with its payload as its task left it.
        let stop = unsafe { (g.task().run)(g) };
        g = yielder.suspend(stop);
    }
}
