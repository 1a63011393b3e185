//! Plain OS threads: each shows a G as its face, so that everything one can wait for serves both worlds.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use timers::clock;

use crate::bed::Bed;
use crate::deadlock::PARKS;
use crate::deadlock::traces::Counted;
use crate::fork;
use crate::g::wait::Outcome;
use crate::g::{GRef, Payload, table};
use crate::ids;
use crate::lend;

/// What a face keeps in its payload, for ever: where its thread sleeps.
#[derive(Default)]
struct Kept {
    bed: Bed,
    /// Whether it counts as one that sleeps without a time-out.
    counted: Counted,
}

/// Makes a new G a face. *Runs on: the table, once a face.*
pub(crate) fn make_face(g: GRef) {
    const { assert!(size_of::<Kept>() <= size_of::<Payload>() && align_of::<Kept>() <= align_of::<Payload>()) };
    // SAFETY: nobody else knows this G yet; a face keeps this for ever, so a late waker finds it.
    unsafe { g.payload().cast::<Kept>().write(Kept::default()) };
}

fn kept(g: GRef) -> &'static Kept {
    // SAFETY: `make_face` wrote it, and nothing else writes the payload of a face.
    unsafe { &*g.payload().cast::<Kept>() }
}

/// Gives the face of an ending thread back, after the destructors of its own values, which still find it.
struct EndOfThread;

impl Drop for EndOfThread {
    fn drop(&mut self) {
        let Some(g) = FACE.get() else { return };
        if let Some(rare) = g.rare() {
            rare.locals.destroy();
        }
        OVER.set(true);
        FACE.set(None);
        drop(g.take_rare());
        if g.life.release() {
            recycle(g);
        }
    }
}

/// Nobody needs the face any more.
pub(crate) fn recycle(g: GRef) {
    g.forget();
    table::give_face(g);
}

thread_local! {
    // Without destructors, so that they can be read to the very end.
    static FACE: Cell<Option<GRef>> = const { Cell::new(None) };
    /// The face was given back; destructors of std's thread-locals may come after that.
    static OVER: Cell<bool> = const { Cell::new(false) };
    static END: EndOfThread = const { EndOfThread };
}

/// The face of this thread. *Runs on: a thread that is no M, or the stack of an M.*
#[inline(never)]
pub(crate) fn face() -> GRef {
    FACE.get().unwrap_or_else(|| {
        let g = new_face();
        FACE.set(Some(g));
        // A thread that shows a face after its end is over keeps that one: nobody is left to give it back.
        let _ = END.try_with(|_| ());
        g
    })
}

/// Likewise, if it has been made.
#[inline(never)]
pub(crate) fn face_if_any() -> Option<GRef> {
    FACE.get()
}

/// Whether the calling plain thread has destroyed its values already.
#[inline(never)]
pub(crate) fn is_over() -> bool {
    OVER.get()
}

fn new_face() -> GRef {
    let g = table::take_face();
    let name = thread::current().name().map(Into::into);
    let place = std::panic::Location::caller();
    // SAFETY: it comes from the pool of faces, so nobody else has a reference.
    unsafe { g.begin(std::ptr::null(), ids::single(), place, name) };
    g.life.begin_unjoined();
    g
}

/// Sleeps until the face's wait is decided, and it is woken. *Runs on: the thread of the face.*
pub(crate) fn park(g: GRef) {
    let Kept { bed, counted } = kept(g);
    // An M is counted otherwise, should it wait on its own stack.
    let counts = lend::on_m(|_| ()).is_none();
    let commit = || g.wait.commit();
    if !(if counts { PARKS.commit(counted, commit) } else { commit() }) {
        return;
    }
    // Nobody is there to decide it.
    fork::check_or_panic();
    bed.sleep();
}

/// Likewise, but only until `when`; the wait then ends as timed out.
pub(crate) fn park_until(g: GRef, number: u32, when: u64) {
    if when == clock::NEVER {
        return park(g);
    }
    if !g.wait.commit() {
        return;
    }
    if fork::is_forked() {
        return look_until(g, number, when);
    }
    let bed = &kept(g).bed;
    if !bed.sleep_while(|| time_left(when)) {
        bed.time_out(&g.wait, number);
    }
}

fn time_left(when: u64) -> Option<Duration> {
    let left = when.saturating_sub(clock::now());
    (left > 0).then(|| Duration::from_nanos(left))
}

/// Likewise, in a child of `fork`, where nobody touches the lock: whoever had it may not be there any more.
#[cold]
fn look_until(g: GRef, number: u32, when: u64) {
    while !g.wait.is_decided() {
        let Some(left) = time_left(when) else {
            g.wait.decide(number, Outcome::TimedOut);
            return;
        };
        // Threads that the child has started may wake this one.
        thread::sleep(left.min(Duration::from_millis(1)));
    }
}

/// Wakes the thread of a face whose parked wait the caller has just decided. *Runs on: any thread.*
pub(crate) fn wake(g: GRef) {
    if fork::is_forked() {
        return;
    }
    let Kept { bed, counted } = kept(g);
    // First of all: before whoever wakes it may have nothing more to do.
    PARKS.wakes(counted);
    bed.wake();
}
