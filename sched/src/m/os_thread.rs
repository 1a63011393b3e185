//! Plain OS threads as waiters: each has a proxy G, so that a primitive can wake it as it wakes a green
//! thread.
//!
//! The payload of a proxy G holds the means to park its thread. `set_around_park` lets a caller surround each
//! park; tokio's `block_in_place` needs this. That is foreign code in the middle of a wait, so it runs
//! `apart`.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use timers::clock;

use crate::g::ids;
use crate::g::own::OwnG;
use crate::g::wait::Outcome;
use crate::g::{GRef, Payload, table};
use crate::m::activity::{Counted, PARKS};
use crate::m::current::on_m;
use crate::m::thread_parker::ThreadParker;
use crate::sys::catch_panic::contain;
use crate::sys::{self, fork};

/// What a proxy G keeps in its payload for ever: the means to park its thread.
#[derive(Default)]
struct ProxyState {
    parker: ThreadParker,
    /// Whether the thread is counted as parked without a time-out.
    counted: Counted,
}

/// Initialises the payload of a new proxy G. *Runs on: the table, once for each proxy G.*
pub(crate) fn init_proxy_g(g: GRef) {
    const {
        assert!(
            size_of::<ProxyState>() <= size_of::<Payload>()
                && align_of::<ProxyState>() <= align_of::<Payload>()
        )
    };
    // SAFETY: no other thread knows this G yet, and the payload is large enough. A proxy G keeps its
    // `ProxyState` for ever, so a late waker finds it.
    unsafe { g.payload().cast::<ProxyState>().write(ProxyState::default()) };
}

fn state_of(g: GRef) -> &'static ProxyState {
    // SAFETY: `init_proxy_g` wrote a `ProxyState`, and nothing else writes the payload of a proxy G.
    unsafe { &*g.payload().cast::<ProxyState>() }
}

/// Gives the proxy G of an ending thread back. The destructors of the thread's own values run first and may
/// still use it.
struct EndOfThread;

impl Drop for EndOfThread {
    fn drop(&mut self) {
        let Some(g) = PROXY_G.get() else { return };
        destroy_locals(g);
        OVER.set(true);
        PROXY_G.set(None);
        give_back(g);
    }
}

/// Drops the values of the thread of `g`. They are user code, which may still use `g`.
fn destroy_locals(g: GRef) {
    // SAFETY: the callers are the thread for which `g` stands.
    let g = unsafe { OwnG::new(g) };
    if let Some(rare) = g.rare() {
        rare.locals.destroy();
    }
}

/// Gives back a proxy G that no thread has any more.
fn give_back(g: GRef) {
    // SAFETY: the thread for which `g` stood is the caller, and has destroyed its values.
    drop(unsafe { OwnG::new(g).take_rare() });
    if g.life.release() {
        recycle(g);
    }
}

/// Gives a proxy G without a reference back to the pool.
pub(crate) fn recycle(g: GRef) {
    g.forget();
    table::give_proxy_g(g);
}

thread_local! {
    // Without destructors, so that they can be read until the thread's very end.
    static PROXY_G: Cell<Option<GRef>> = const { Cell::new(None) };
    /// True after the proxy G was given back. Destructors of std's thread-locals may still run then.
    static OVER: Cell<bool> = const { Cell::new(false) };
    static END: EndOfThread = const { EndOfThread };
}

/// Returns the proxy G of this thread, and allocates it at the first call. *Runs on: a thread that is no M,
/// or the stack of an M.*
#[inline(never)]
pub(crate) fn proxy_g() -> OwnG {
    let g = PROXY_G.get().unwrap_or_else(|| {
        let g = new_proxy_g();
        PROXY_G.set(Some(g));
        // After the thread's end `END` cannot be registered: a proxy G that is allocated then is never given
        // back.
        let _ = END.try_with(|_| ());
        g
    });
    // SAFETY: the proxy G of this thread stands for it alone.
    unsafe { OwnG::new(g) }
}

/// Returns the proxy G of this thread if it has been allocated.
#[inline(never)]
pub(crate) fn proxy_g_if_any() -> Option<OwnG> {
    // SAFETY: as in `proxy_g`.
    PROXY_G.get().map(|g| unsafe { OwnG::new(g) })
}

/// Returns `true` if the calling plain thread has destroyed its values already.
#[inline(never)]
pub(crate) fn is_over() -> bool {
    OVER.get()
}

/// Runs `f`, foreign code, in the middle of a wait of the calling thread. Contains its panics: the unwind
/// would free a node that is still queued. A wait in `f` is that of another proxy G: a second wait of the
/// same G would take the place of the first. *Runs on: a thread that is no M, or the stack of an M.*
pub(crate) fn apart(f: impl FnOnce()) {
    let own = PROXY_G.take();
    contain(f);
    if let Some(other) = PROXY_G.get() {
        contain(|| destroy_locals(other));
    }
    if let Some(other) = PROXY_G.replace(own) {
        give_back(other);
    }
}

static MAIN_THREAD_WAITS: AtomicBool = AtomicBool::new(false);

/// Returns `true` if the main thread of the process may be counted as parked: it has a proxy G, or has been
/// in `at_rest`.
pub(crate) fn main_thread_waits() -> bool {
    // SeqCst: pairs with the store in `note_main_thread`, which precedes each count of that thread in
    // `PARKS`. A look that sees such a count sees the store, too.
    MAIN_THREAD_WAITS.load(Ordering::SeqCst)
}

/// Records that the calling thread may be counted as parked.
pub(crate) fn note_main_thread() {
    if sys::thread_id() == sys::main_thread_id() {
        MAIN_THREAD_WAITS.store(true, Ordering::SeqCst);
    }
}

fn new_proxy_g() -> GRef {
    note_main_thread();
    let g = table::take_proxy_g(init_proxy_g);
    let name = thread::current().name().map(Into::into);
    let place = std::panic::Location::caller();
    // SAFETY: the G comes from the pool of proxy Gs, so no other thread has a reference.
    unsafe { g.begin(std::ptr::null(), ids::take(1), place, name, 0) };
    g.life.begin_unjoined();
    g
}

/// Parks the calling thread until the wait of its proxy G is decided and its waker wakes it. *Runs on: the
/// thread of the proxy G.*
pub(crate) fn park(g: GRef) {
    let ProxyState { parker, counted } = state_of(g);
    // A thread that waits on its stack as an M is counted with the Ms.
    let counts = on_m(|_| ()).is_none();
    let commit = || g.wait.commit();
    if !(if counts { PARKS.commit(counted, commit) } else { commit() }) {
        return;
    }
    // In a forked child no thread may exist that would decide the wait.
    fork::check_or_panic();
    around_park(|| parker.sleep());
}

/// Parks the calling thread until `when` at the latest. The wait `number` then ends as timed out. *Runs on:
/// the thread of the proxy G.*
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
    let parker = &state_of(g).parker;
    around_park(|| {
        if !parker.sleep_while(|| time_left(when)) {
            parker.time_out(&g.wait, number);
        }
    });
}

/// A function that surrounds what its argument does, and calls its argument once. If it panics, or returns
/// without the call, the thread parks without it.
pub type Around = fn(&mut dyn FnMut());

static AROUND_PARK: OnceLock<Around> = OnceLock::new();

/// Surrounds each park of a plain OS thread with `around`. The first call counts.
/// *Runs on: any thread.*
pub fn set_around_park(around: Around) {
    let _ = AROUND_PARK.set(around);
}

fn around_park(park: impl FnOnce()) {
    let mut park = Some(park);
    let mut park = || park.take().into_iter().for_each(|park| park());
    if let Some(around) = AROUND_PARK.get() {
        apart(|| around(&mut park));
    }
    // Does nothing if `around` has parked.
    park();
}

fn time_left(when: u64) -> Option<Duration> {
    let left = when.saturating_sub(clock::now());
    (left > 0).then(|| Duration::from_nanos(left))
}

/// Does what `park_until` does, in a child of `fork`. Takes no lock: the holder of a lock may not exist
/// there.
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

/// Wakes the thread of a proxy G. *Runs on: the thread that has just decided the parked wait.*
pub(crate) fn wake(g: GRef) {
    if fork::is_forked() {
        return;
    }
    let ProxyState { parker, counted } = state_of(g);
    // Count before anything else: after `parker.wake` the caller may have nothing more to do, and go to sleep
    // itself.
    PARKS.wakes(counted);
    parker.wake();
}

#[cfg(all(test, unix, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use crate::api::park::Waiting;
    use crate::api::sleep::sleep;
    use crate::g::wait::{Cancel, Outcome};
    use crate::run::wake::wake;
    use crate::stack::testing::succeeds_alone;

    /// Foreign code around a park may panic before or after it, leave it out, or wait itself. The waiter
    /// sleeps until it is woken.
    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no processes")]
    fn what_surrounds_a_park_cannot_end_the_wait() {
        static ROUND: AtomicUsize = AtomicUsize::new(0);
        const MILLI: Duration = Duration::from_millis(1);
        succeeds_alone(module_path!(), "what_surrounds_a_park_cannot_end_the_wait", || {
            super::set_around_park(|park| match ROUND.load(SeqCst) % 6 {
                0 => panic!("before the park"),
                1 => {
                    park();
                    panic!("after the park");
                }
                2 => {}
                3 => {
                    // Not in the sleep, which is a wait, too.
                    ROUND.store(4, SeqCst);
                    sleep(MILLI);
                    park();
                }
                _ => park(),
            });
            for round in 0..5 {
                let woken = AtomicBool::new(false);
                thread::scope(|s| {
                    ROUND.store(round, SeqCst);
                    let (tickets, ticket) = mpsc::channel();
                    let waiter = s.spawn({
                        let woken = &woken;
                        move || {
                            let waiting = Waiting::begin(Cancel::Waits);
                            tickets.send(waiting.ticket()).unwrap();
                            assert_eq!(waiting.park(), Outcome::Woken);
                            assert!(woken.load(SeqCst), "round {round}: the wait ends by its waker alone");
                            // A second wait of the same thread.
                            sleep(MILLI);
                        }
                    });
                    let ticket = ticket.recv().unwrap();
                    thread::sleep(5 * MILLI);
                    woken.store(true, SeqCst);
                    assert!(wake(ticket), "round {round}: the wait is open");
                    waiter.join().unwrap();
                });
            }
        });
    }
}
