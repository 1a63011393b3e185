//! Select: waiting for the first of several channel operations, or futures (`select/event.rs`).
//!
//! ```text
//!   try each case, in random order ──one is ready──> it is chosen
//!        │ none
//!        v
//!   begin one wait; enter the queue of each case (if one is ready by now: this thread ends the wait)
//!   park
//!   leave all queues but the chosen case's; what its waker granted is in its node, else try that case again
//! ```
//!
//! A select with a deadline in the past also enters all queues, if there are several, and gives up at once.
//! Only when it was in all of them was there a moment at which no case was ready. (If it looked at one after
//! the other, it could miss a message that went from one channel to another.)
//!
//! A chosen operation has begun: a receive has its message (or the promise of one), a send has its room or
//! its receiver.

#![allow(unsafe_code)]

#[cfg(not(loom))]
pub(super) mod event;
#[cfg(all(test, loom))]
mod models;

use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sched::park::{self, Waiting};
use sched::{Awaited, Cancel, On, Outcome};
use waits::due::earlier;

use super::case::{Case, SelectHandle};
use super::error::{
    ReadyTimeoutError, RecvError, SelectTimeoutError, SendError, TryReadyError, TrySelectError,
};
use super::model::broken;
use super::receiver::Receiver;
use super::sender::Sender;
use super::slot::{Begun, Seat};
use super::timed::sleep_until;
use super::waiters::{Entrant, WaiterKind};

/// How long to wait.
#[derive(Clone, Copy)]
enum WaitLimit {
    None,
    Until(Instant),
    Endless,
}

impl WaitLimit {
    fn of(timeout: Duration) -> Self {
        // A time beyond the clock's range means for ever.
        Instant::now().checked_add(timeout).map_or(WaitLimit::Endless, WaitLimit::Until)
    }

    fn is_over(self) -> bool {
        match self {
            WaitLimit::None => true,
            WaitLimit::Until(deadline) => deadline <= Instant::now(),
            WaitLimit::Endless => false,
        }
    }

    fn deadline(self) -> Option<Instant> {
        if let WaitLimit::Until(deadline) = self { Some(deadline) } else { None }
    }
}

/// Chooses a case and begins it. Returns `None` if no case was ready in time.
fn choose<'a>(cases: &mut [Case<'a>], limit: WaitLimit, biased: bool) -> Option<SelectedOperation<'a>> {
    crate::point();
    if cases.is_empty() {
        wait_for_nothing(limit);
        return None;
    }
    if !biased {
        shuffle(cases);
    }
    let mut begun = Begun::new();
    loop {
        if let Some(case) = cases.iter().find(|case| case.handle.try_begin(&mut begun)) {
            return Some(SelectedOperation::new(*case, begun));
        }
        if limit.is_over() && (cases.len() == 1 || broken!("channel_select_gives_up_between")) {
            return None;
        }
        match wait(cases, limit, false, &mut begun) {
            Ended::Begun(case) => return Some(SelectedOperation::new(cases[case], begun)),
            // The case is likely to be ready. If another thread was faster, all cases are tried again.
            Ended::Look(case) if cases[case].handle.try_begin(&mut begun) => {
                return Some(SelectedOperation::new(cases[case], begun));
            }
            Ended::Look(_) | Ended::Due => {}
            Ended::GaveUp => return None,
        }
    }
}

/// Returns the index of a case that can be begun, without beginning it, or `None` if none was ready in time.
fn find_ready(cases: &mut [Case<'_>], limit: WaitLimit, biased: bool) -> Option<usize> {
    if cases.is_empty() {
        wait_for_nothing(limit);
        return None;
    }
    if !biased {
        shuffle(cases);
    }
    let mut nothing = Begun::new();
    loop {
        if let Some(case) = cases.iter().find(|case| case.handle.is_ready()) {
            return Some(case.index);
        }
        if limit.is_over() && cases.len() == 1 {
            return None;
        }
        match wait(cases, limit, true, &mut nothing) {
            Ended::Look(case) => return Some(cases[case].index),
            Ended::GaveUp => return None,
            _ => {}
        }
    }
}

fn wait_for_nothing(limit: WaitLimit) {
    match limit {
        WaitLimit::None => {}
        WaitLimit::Until(deadline) => sleep_until(Some(deadline)),
        WaitLimit::Endless => sleep_until(None),
    }
}

/// The end of a wait.
enum Ended {
    /// The waker has begun the operation of that case.
    Begun(usize),
    /// That case has become ready, or was ready already.
    Look(usize),
    /// A case of a timed channel is due.
    Due,
    /// The deadline has passed, and no case was ready.
    GaveUp,
}

fn wait(cases: &[Case<'_>], limit: WaitLimit, watches: bool, begun: &mut Begun) -> Ended {
    let few = [const { Seat::new() }; FEW];
    let mut many = Vec::new();
    let seats = if cases.len() <= FEW {
        &few[..cases.len()]
    } else {
        many.resize_with(cases.len(), Seat::new);
        &many[..]
    };
    // A select that does not park is not cancelled.
    let over = limit.is_over();
    let (on, cancel) = (On::new(&cases, look), if over { Cancel::Waits } else { Cancel::Ends });
    // SAFETY: `on` and the cases last until this function returns, after the wait.
    let waiting = unsafe { Waiting::begin_on(sched::Why::Select, &on, cancel) };
    let ticket = waiting.ticket();
    let kind = WaiterKind { select: waiting.word(), watches };
    let mut entries = Entries { cases, seats, entered: 0 };
    while entries.entered < cases.len() {
        if !entries.enter(Entrant { ticket, case: entries.entered as u32, kind }) {
            let ready = entries.entered;
            if ticket.decide_own(ready as u32) || broken!("channel_select_takes_both") {
                return Ended::Look(ready);
            }
            // A waker has ended the wait by an earlier case.
            break;
        }
    }
    if over && entries.entered == cases.len() && ticket.give_up() {
        return Ended::GaveUp;
    }
    let due = cases.iter().filter_map(|case| case.handle.due()).min();
    let deadline = limit.deadline();
    let outcome = match earlier(due, deadline) {
        Some(deadline) if entries.entered == cases.len() => waiting.park_until(deadline),
        _ => waiting.park(),
    };
    match outcome {
        Outcome::Woken => {
            let case = ticket.case() as usize;
            if !watches && entries.accept(case, begun) { Ended::Begun(case) } else { Ended::Look(case) }
        }
        // The select was in all queues when the deadline passed, so no case was ready.
        Outcome::TimedOut if deadline.is_some_and(|end| due.is_none_or(|due| end < due)) => Ended::GaveUp,
        Outcome::TimedOut => Ended::Due,
        Outcome::Cancelled => {
            drop(entries);
            park::unwind_if_cancelled();
            Ended::Due
        }
    }
}

/// Tells a dump about the cases. *Runs on: any thread, while the select is parked.*
fn look(cases: &&[Case<'_>]) -> Option<Awaited> {
    Some(Awaited::Select { cases: cases.iter().map(|case| case.handle.awaited()).collect() })
}

/// With at most this many cases, a select allocates nothing.
const FEW: usize = 4;

/// The first `entered` cases are in their queues, with nodes in these seats. Dropping it takes them out.
struct Entries<'w, 'a> {
    cases: &'w [Case<'a>],
    seats: &'w [Seat],
    entered: usize,
}

impl Entries<'_, '_> {
    /// Enters the next case into its queue. Returns `false` if that case is ready.
    fn enter(&mut self, entrant: Entrant) -> bool {
        let next = self.entered;
        // SAFETY: the seat is empty. `seats` is borrowed until each entered case has left (`accept`, `Drop`).
        let entered = unsafe { self.cases[next].handle.enter(&self.seats[next], entrant) };
        self.entered += usize::from(entered);
        entered
    }

    /// Leaves all queues. Returns `true`, with `begun` filled, if the waker of `case` granted something.
    fn accept(&mut self, case: usize, begun: &mut Begun) -> bool {
        let mut accepted = false;
        for at in 0..std::mem::take(&mut self.entered) {
            let (handle, seat) = (self.cases[at].handle, &self.seats[at]);
            // SAFETY: each of these cases was entered, and leaves once. The wait was ended by `case`, whose
            // waker took its node out.
            unsafe {
                if at == case && !broken!("channel_select_forgets_its_message") {
                    accepted = handle.accept(seat, begun);
                } else {
                    handle.leave(seat);
                }
            }
        }
        accepted
    }
}

impl Drop for Entries<'_, '_> {
    fn drop(&mut self) {
        for at in 0..self.entered {
            // SAFETY: the case was entered, and leaves once.
            unsafe { self.cases[at].handle.leave(&self.seats[at]) };
        }
    }
}

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// Makes the order of cases depend on `seed` from now on. A simulation, whose green threads all run on the
/// calling OS thread, begins so.
#[cfg(feature = "sim")]
#[allow(dead_code, reason = "not used where simulations do not work")]
pub(crate) fn set_seed(seed: u64) {
    SEED.set(seed);
}

fn shuffle<T>(cases: &mut [T]) {
    for i in 1..cases.len() {
        cases.swap(i, random_below(i + 1));
    }
}

/// Returns a number below `n`, random enough for fairness.
#[inline(never)]
fn random_below(n: usize) -> usize {
    SEED.with(|seed| {
        let mut random = fastrand::Rng::with_seed(match seed.get() {
            0 => first_seed(),
            seed => seed,
        });
        // `usize(..n)` avoids a bias that does not matter here, for nine more instructions.
        let number = (u64::from(random.u32(..)) * n as u64) >> 32;
        seed.set(random.get_seed());
        number as usize
    })
}

/// Returns with what the thread-locals of a thread begin. A green thread with its own may choose once in its
/// life.
fn first_seed() -> u64 {
    #[cfg(feature = "sim")]
    if let Some(random) = sched::simulation::with(|simulation| simulation.random()) {
        return random;
    }
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only that the numbers differ matters. The generator mixes their bits.
    NEXT.fetch_add(0x9E37_79B9_7F4A_7C15, Relaxed)
}

/// For [`select!`](crate::select) only.
#[doc(hidden)]
pub fn select<'a>(cases: &mut [Case<'a>], biased: bool) -> SelectedOperation<'a> {
    assert!(!cases.is_empty(), "no operations have been added to `Select`");
    choose(cases, WaitLimit::Endless, biased).expect("an endless wait returns an operation")
}

/// For [`select!`](crate::select) only.
#[doc(hidden)]
pub fn try_select<'a>(cases: &mut [Case<'a>], biased: bool) -> Result<SelectedOperation<'a>, TrySelectError> {
    choose(cases, WaitLimit::None, biased).ok_or(TrySelectError)
}

/// For [`select!`](crate::select) only.
#[doc(hidden)]
pub fn select_timeout<'a>(
    cases: &mut [Case<'a>],
    timeout: Duration,
    biased: bool,
) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
    choose(cases, WaitLimit::of(timeout), biased).ok_or(SelectTimeoutError)
}

/// A list of channel operations, of which one is chosen: [`select!`](crate::select) for lists that are made
/// at run time. A list of futures is one case `future(..)` of [`select!`](crate::select), for example a
/// `FuturesUnordered` of the crate `futures`, or
/// [`JoinSet::join_next_async`](crate::thread::JoinSet::join_next_async).
///
/// There are two ways to use it:
///
/// - [`select`](Select::select), `try_select`, `select_timeout` and `select_deadline` choose an operation
///   that *has begun*. It must be completed.
/// - [`ready`](Select::ready), `try_ready`, `ready_timeout` and `ready_deadline` return which operation could
///   be done now. Another thread may be faster, so use them in a loop.
///
/// An operation whose channel is disconnected is ready, too. If several are ready, a random one is chosen,
/// or, with [`new_biased`](Select::new_biased), the first.
///
/// ```
/// use runtime::channel::{Receiver, RecvError, Select, unbounded};
///
/// fn recv_any<T>(receivers: &[Receiver<T>]) -> Result<T, RecvError> {
///     let mut select = Select::new();
///     for receiver in receivers {
///         select.recv(receiver);
///     }
///     let operation = select.select();
///     let index = operation.index();
///     operation.recv(&receivers[index])
/// }
///
/// let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| unbounded()).unzip();
/// runtime::spawn(move || senders[1].send("one").unwrap());
/// assert_eq!(recv_any(&receivers[1..2]), Ok("one"));
/// ```
pub struct Select<'a> {
    cases: Vec<Case<'a>>,
    next_index: usize,
    biased: bool,
}

// SAFETY: another thread can only choose with it. Channels move messages under their locks, and the message
// of a chosen operation comes out through that thread's `Receiver`, or goes back into the channel.
unsafe impl Send for Select<'_> {}
// SAFETY: a shared reference allows cloning only.
unsafe impl Sync for Select<'_> {}

impl<'a> Select<'a> {
    /// Returns an empty list.
    ///
    /// ```
    /// let select = runtime::channel::Select::new();
    /// ```
    pub fn new() -> Self {
        Select { cases: Vec::with_capacity(4), next_index: 0, biased: false }
    }

    /// Returns an empty list that prefers operations that were added first.
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let (s, r) = unbounded();
    /// s.send(1).unwrap();
    /// let mut select = Select::new_biased();
    /// select.recv(&r);
    /// select.send(&s);
    /// let operation = select.select();
    /// assert_eq!(operation.index(), 0);
    /// assert_eq!(operation.recv(&r), Ok(1));
    /// ```
    pub fn new_biased() -> Self {
        Select { biased: true, ..Select::new() }
    }

    /// Adds a send operation. Returns its index.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::unbounded::<i32>();
    /// assert_eq!(runtime::channel::Select::new().send(&s), 0);
    /// ```
    pub fn send<T>(&mut self, s: &'a Sender<T>) -> usize {
        self.add(s)
    }

    /// Adds a receive operation. Returns its index.
    ///
    /// ```
    /// let (_s, r) = runtime::channel::unbounded::<i32>();
    /// assert_eq!(runtime::channel::Select::new().recv(&r), 0);
    /// ```
    pub fn recv<T>(&mut self, r: &'a Receiver<T>) -> usize {
        self.add(r)
    }

    fn add(&mut self, handle: &'a dyn SelectHandle) -> usize {
        let index = self.next_index;
        self.cases.push(Case { handle, index });
        self.next_index += 1;
        index
    }

    /// Removes an operation, for example if its channel is disconnected. The others keep their indices.
    ///
    /// # Panics
    ///
    /// Panics if the list has no operation with this index.
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let ((_, gone), (s, r)) = (unbounded::<i32>(), unbounded::<i32>());
    /// let mut select = Select::new();
    /// let first = select.recv(&gone);
    /// let second = select.recv(&r);
    /// select.remove(first);
    /// s.send(1).unwrap();
    /// assert_eq!(select.ready(), second);
    /// ```
    pub fn remove(&mut self, index: usize) {
        assert!(index < self.next_index, "index out of bounds; {index} >= {}", self.next_index);
        let at = self.cases.iter().position(|case| case.index == index);
        self.cases.swap_remove(at.expect("no operation with this index"));
    }

    /// Chooses an operation that is ready, without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if no operation is ready.
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let (s, r) = unbounded();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert!(select.try_select().is_err());
    /// s.send(1).unwrap();
    /// assert_eq!(select.try_select().unwrap().recv(&r), Ok(1));
    /// ```
    pub fn try_select(&mut self) -> Result<SelectedOperation<'a>, TrySelectError> {
        try_select(&mut self.cases, self.biased)
    }

    /// Waits until an operation is ready, and chooses it.
    ///
    /// # Panics
    ///
    /// Panics if the list is empty.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No operation has then begun.
    ///
    /// ```
    /// use runtime::channel::{Select, bounded};
    /// let (s, r) = bounded(0);
    /// runtime::spawn(move || s.send(1));
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert_eq!(select.select().recv(&r), Ok(1));
    /// ```
    pub fn select(&mut self) -> SelectedOperation<'a> {
        select(&mut self.cases, self.biased)
    }

    /// Waits at most for `timeout` until an operation is ready, and chooses it. With an empty list it only
    /// waits.
    ///
    /// # Errors
    ///
    /// Returns an error if no operation was ready in time.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No operation has then begun.
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let (_s, r) = unbounded::<i32>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert!(select.select_timeout(std::time::Duration::from_millis(1)).is_err());
    /// ```
    pub fn select_timeout(&mut self, timeout: Duration) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        select_timeout(&mut self.cases, timeout, self.biased)
    }

    /// Waits at most until `deadline` for an operation that is ready, and chooses it. With an empty list it
    /// only waits.
    ///
    /// # Errors
    ///
    /// Returns an error if no operation was ready in time.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No operation has then begun.
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let (_s, r) = unbounded::<i32>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert!(select.select_deadline(std::time::Instant::now()).is_err());
    /// ```
    pub fn select_deadline(
        &mut self,
        deadline: Instant,
    ) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        choose(&mut self.cases, WaitLimit::Until(deadline), self.biased).ok_or(SelectTimeoutError)
    }

    /// Returns the index of an operation that is ready, without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if no operation is ready.
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let (s, r) = unbounded();
    /// let mut select = Select::new();
    /// let index = select.recv(&r);
    /// assert!(select.try_ready().is_err());
    /// s.send(1).unwrap();
    /// assert_eq!(select.try_ready(), Ok(index));
    /// ```
    pub fn try_ready(&mut self) -> Result<usize, TryReadyError> {
        find_ready(&mut self.cases, WaitLimit::None, self.biased).ok_or(TryReadyError)
    }

    /// Waits until an operation is ready, and returns its index.
    ///
    /// It may return although the operation is not ready, or no longer. So try the operation in a loop.
    ///
    /// # Panics
    ///
    /// Panics if the list is empty.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let (s, r) = unbounded();
    /// runtime::spawn(move || s.send(1));
    /// let mut select = Select::new();
    /// let index = select.recv(&r);
    /// assert_eq!(select.ready(), index);
    /// assert_eq!(r.recv(), Ok(1));
    /// ```
    pub fn ready(&mut self) -> usize {
        assert!(!self.cases.is_empty(), "no operations have been added to `Select`");
        find_ready(&mut self.cases, WaitLimit::Endless, self.biased)
            .expect("an endless wait returns an operation")
    }

    /// Waits at most for `timeout` until an operation is ready, and returns its index.
    ///
    /// # Errors
    ///
    /// Returns an error if no operation was ready in time.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let (_s, r) = unbounded::<i32>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert!(select.ready_timeout(std::time::Duration::from_millis(1)).is_err());
    /// ```
    pub fn ready_timeout(&mut self, timeout: Duration) -> Result<usize, ReadyTimeoutError> {
        find_ready(&mut self.cases, WaitLimit::of(timeout), self.biased).ok_or(ReadyTimeoutError)
    }

    /// Waits at most until `deadline` for an operation that is ready, and returns its index.
    ///
    /// # Errors
    ///
    /// Returns an error if no operation was ready in time.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let (_s, r) = unbounded::<i32>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert!(select.ready_deadline(std::time::Instant::now()).is_err());
    /// ```
    pub fn ready_deadline(&mut self, deadline: Instant) -> Result<usize, ReadyTimeoutError> {
        find_ready(&mut self.cases, WaitLimit::Until(deadline), self.biased).ok_or(ReadyTimeoutError)
    }
}

impl Clone for Select<'_> {
    fn clone(&self) -> Self {
        Select { cases: self.cases.clone(), next_index: self.next_index, biased: self.biased }
    }
}

impl Default for Select<'_> {
    fn default() -> Self {
        Select::new()
    }
}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Select { .. }")
    }
}

/// An operation that was chosen and has begun. Complete it with [`send`](SelectedOperation::send) or
/// [`recv`](SelectedOperation::recv).
///
/// # Panics
///
/// Panics if it is dropped without being completed, unless the thread unwinds already. What had begun is
/// given back.
///
/// ```
/// use runtime::channel::{Select, bounded};
/// let (s, r) = bounded(1);
/// let mut select = Select::new();
/// let send = select.send(&s);
/// let operation = select.select();
/// assert_eq!(operation.index(), send);
/// operation.send(&s, 5).unwrap();
/// assert_eq!(r.recv(), Ok(5));
/// ```
#[must_use]
pub struct SelectedOperation<'a> {
    case: Case<'a>,
    /// The slot that `try_begin` or `accept` of the handle has filled.
    begun: Begun,
}

impl<'a> SelectedOperation<'a> {
    fn new(case: Case<'a>, begun: Begun) -> Self {
        SelectedOperation { case, begun }
    }

    /// Returns the index that adding the operation returned.
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let (s, r) = unbounded();
    /// s.send(1).unwrap();
    /// let mut select = Select::new();
    /// let index = select.recv(&r);
    /// let operation = select.select();
    /// assert_eq!(operation.index(), index);
    /// operation.recv(&r).unwrap();
    /// ```
    pub fn index(&self) -> usize {
        self.case.index
    }

    /// Completes a send operation.
    ///
    /// It waits in one case only: on a channel of capacity 0, the receiver that it met has left meanwhile.
    /// That receiver was a future that was dropped, or an operation that was not completed. (A thread that
    /// receives stays, even if it is cancelled.)
    ///
    /// # Errors
    ///
    /// Returns the message if all receivers are gone.
    ///
    /// # Panics
    ///
    /// Panics if `s` is not the sender that was added to the list.
    ///
    /// ```
    /// use runtime::channel::{Select, SendError, bounded};
    /// let (s, r) = bounded(0);
    /// drop(r);
    /// let mut select = Select::new();
    /// select.send(&s);
    /// assert_eq!(select.select().send(&s, 5), Err(SendError(5)));
    /// ```
    pub fn send<T>(self, s: &Sender<T>, msg: T) -> Result<(), SendError<T>> {
        assert!(self.is_of(s), "passed a sender that wasn't selected");
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `s` has begun this operation, and the value is taken out once, because `this` is not
        // dropped.
        unsafe { s.finish(&mut this.begun, msg) }
    }

    /// Completes a receive operation, and returns the message.
    ///
    /// On a channel of capacity 0 it may wait until a `select!` on the sending side has evaluated its
    /// message.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel has no message and all senders are gone.
    ///
    /// # Panics
    ///
    /// Panics if `r` is not the receiver that was added to the list.
    ///
    /// ```
    /// use runtime::channel::{RecvError, Select, bounded};
    /// let (s, r) = bounded::<i32>(0);
    /// drop(s);
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert_eq!(select.select().recv(&r), Err(RecvError));
    /// ```
    pub fn recv<T>(self, r: &Receiver<T>) -> Result<T, RecvError> {
        assert!(self.is_of(r), "passed a receiver that wasn't selected");
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `r` has begun this operation, and the value is taken out once, because `this` is not
        // dropped.
        unsafe { r.finish(&mut this.begun) }
    }

    fn is_of<H>(&self, handle: &H) -> bool {
        std::ptr::addr_eq(self.case.handle, handle)
    }
}

impl fmt::Debug for SelectedOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SelectedOperation { .. }")
    }
}

impl Drop for SelectedOperation<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle has begun this operation, and the value has not been taken out, because the
        // operation was not completed.
        unsafe { self.case.handle.abandon(&mut self.begun) };
        if !std::thread::panicking() {
            panic!("dropped `SelectedOperation` without completing the operation");
        }
    }
}
