//! Waiting for the first of several operations.
//!
//! ```text
//!   try each case, in random order ──one is ready──> it is chosen
//!        │ none
//!        v
//!   begin one wait; enter the queue of each case (one turns out to be ready: end the wait oneself)
//!   park
//!   leave all queues but the winner's; what the winner was given is in its node, or it is tried again
//! ```
//!
//! A select without patience enters all queues too, if there are several, and gives up at once: only when it was in all of
//! them has there been a moment at which no case was ready. (Looking at one after the other, it could miss a message that
//! went from one channel to another.)
//!
//! What is chosen has begun: a receive has its message (or the promise of one), a send has its room or its receiver.

#![allow(unsafe_code)]

#[cfg(all(test, loom))]
mod models;

use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use sched::due::earlier;
use sched::park::{self, Waiting};
use sched::{Cancel, Outcome};

use super::case::{Case, SelectHandle};
use super::error::{
    ReadyTimeoutError, RecvError, SelectTimeoutError, SendError, TryReadyError, TrySelectError,
};
use super::model::broken;
use super::place::{Begun, Seat};
use super::receiver::Receiver;
use super::sender::Sender;
use super::timed::sleep_until;
use super::waiters::{Entrant, Who};

/// How long to wait.
#[derive(Clone, Copy)]
enum Patience {
    None,
    Until(Instant),
    Endless,
}

impl Patience {
    fn of(timeout: Duration) -> Self {
        // Beyond the clock's range is never.
        Instant::now().checked_add(timeout).map_or(Patience::Endless, Patience::Until)
    }

    fn is_over(self) -> bool {
        match self {
            Patience::None => true,
            Patience::Until(deadline) => deadline <= Instant::now(),
            Patience::Endless => false,
        }
    }

    fn deadline(self) -> Option<Instant> {
        if let Patience::Until(deadline) = self { Some(deadline) } else { None }
    }
}

/// Chooses a case, and begins it.
fn choose<'a>(cases: &mut [Case<'a>], patience: Patience, biased: bool) -> Option<SelectedOperation<'a>> {
    if cases.is_empty() {
        wait_for_nothing(patience);
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
        if patience.is_over() && (cases.len() == 1 || broken!("channel_select_gives_up_between")) {
            return None;
        }
        match wait(cases, patience, false, &mut begun) {
            Ended::Begun(case) => return Some(SelectedOperation::new(cases[case], begun)),
            // It is likely to be ready; if somebody was faster, all are tried again.
            Ended::Look(case) if cases[case].handle.try_begin(&mut begun) => {
                return Some(SelectedOperation::new(cases[case], begun));
            }
            Ended::Look(_) | Ended::Due => {}
            Ended::GaveUp => return None,
        }
    }
}

/// Finds a case that can be begun, without beginning it.
fn find_ready(cases: &mut [Case<'_>], patience: Patience, biased: bool) -> Option<usize> {
    if cases.is_empty() {
        wait_for_nothing(patience);
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
        if patience.is_over() && cases.len() == 1 {
            return None;
        }
        match wait(cases, patience, true, &mut nothing) {
            Ended::Look(case) => return Some(cases[case].index),
            Ended::GaveUp => return None,
            _ => {}
        }
    }
}

fn wait_for_nothing(patience: Patience) {
    match patience {
        Patience::None => {}
        Patience::Until(deadline) => sleep_until(Some(deadline)),
        Patience::Endless => sleep_until(None),
    }
}

/// What came of a wait.
enum Ended {
    /// That case was begun by the one who ended the wait.
    Begun(usize),
    /// That case has become ready, or was so already.
    Look(usize),
    /// Something is due.
    Due,
    /// Patience was over, and no case was ready.
    GaveUp,
}

fn wait(cases: &[Case<'_>], patience: Patience, watches: bool, begun: &mut Begun) -> Ended {
    let few = [const { Seat::new() }; FEW];
    let mut many = Vec::new();
    let seats = if cases.len() <= FEW {
        &few[..cases.len()]
    } else {
        many.resize_with(cases.len(), Seat::new);
        &many[..]
    };
    // Who does not park is not cancelled.
    let over = patience.is_over();
    let waiting = Waiting::begin_for(sched::Why::Select, if over { Cancel::Waits } else { Cancel::Ends });
    let ticket = waiting.ticket();
    let who = Who { select: waiting.word(), watches };
    let mut entries = Entries { cases, seats, entered: 0 };
    while entries.entered < cases.len() {
        if !entries.enter(Entrant { ticket, case: entries.entered as u32, who }) {
            let ready = entries.entered;
            if ticket.decide_own(ready as u32) || broken!("channel_select_takes_both") {
                return Ended::Look(ready);
            }
            // Somebody has ended the wait by an earlier case.
            break;
        }
    }
    if over && entries.entered == cases.len() && ticket.give_up() {
        return Ended::GaveUp;
    }
    let due = cases.iter().filter_map(|case| case.handle.due()).min();
    let deadline = patience.deadline();
    let outcome = match earlier(due, deadline) {
        Some(deadline) if entries.entered == cases.len() => waiting.park_until(deadline),
        _ => waiting.park(),
    };
    match outcome {
        Outcome::Woken => {
            let case = ticket.case() as usize;
            if !watches && entries.accept(case, begun) { Ended::Begun(case) } else { Ended::Look(case) }
        }
        // It was in all queues when the time was up, so there was nothing.
        Outcome::TimedOut if deadline.is_some_and(|end| due.is_none_or(|due| end < due)) => Ended::GaveUp,
        Outcome::TimedOut => Ended::Due,
        Outcome::Cancelled => {
            drop(entries);
            park::unwind_if_cancelled();
            Ended::Due
        }
    }
}

/// So many cases need no allocation.
const FEW: usize = 4;

/// The first `entered` cases are in their queues, by nodes in these seats; dropping it takes them out.
struct Entries<'w, 'a> {
    cases: &'w [Case<'a>],
    seats: &'w [Seat],
    entered: usize,
}

impl Entries<'_, '_> {
    /// Enters the next case; `false` if that is ready.
    fn enter(&mut self, entrant: Entrant) -> bool {
        let next = self.entered;
        // SAFETY: the seat is empty, and is borrowed in its place until `leave` or `accept`.
        let entered = unsafe { self.cases[next].handle.enter(&self.seats[next], entrant) };
        self.entered += usize::from(entered);
        entered
    }

    /// Leaves all queues; the case that won begins with what it was given, if it was.
    fn accept(&mut self, case: usize, begun: &mut Begun) -> bool {
        let mut accepted = false;
        for at in 0..std::mem::take(&mut self.entered) {
            let (handle, seat) = (self.cases[at].handle, &self.seats[at]);
            // SAFETY: it has entered, and is taken out once; the wait was ended by `case`, whose node is in no queue.
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
            // SAFETY: it has entered, and is taken out once.
            unsafe { self.cases[at].handle.leave(&self.seats[at]) };
        }
    }
}

fn shuffle<T>(cases: &mut [T]) {
    for i in 1..cases.len() {
        cases.swap(i, random_below(i + 1));
    }
}

/// A number below `n`, good enough for fairness (xorshift32).
#[inline(never)]
fn random_below(n: usize) -> usize {
    thread_local! {
        static SEED: Cell<u32> = const { Cell::new(0x9E37_79B9) };
    }
    SEED.with(|seed| {
        let mut x = seed.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        seed.set(x);
        ((u64::from(x) * n as u64) >> 32) as usize
    })
}

/// For [`select!`](crate::select).
#[doc(hidden)]
pub fn select<'a>(cases: &mut [Case<'a>], biased: bool) -> SelectedOperation<'a> {
    assert!(!cases.is_empty(), "no operations have been added to `Select`");
    choose(cases, Patience::Endless, biased).expect("it waits without end")
}

/// For [`select!`](crate::select).
#[doc(hidden)]
pub fn try_select<'a>(cases: &mut [Case<'a>], biased: bool) -> Result<SelectedOperation<'a>, TrySelectError> {
    choose(cases, Patience::None, biased).ok_or(TrySelectError)
}

/// For [`select!`](crate::select).
#[doc(hidden)]
pub fn select_timeout<'a>(
    cases: &mut [Case<'a>],
    timeout: Duration,
    biased: bool,
) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
    choose(cases, Patience::of(timeout), biased).ok_or(SelectTimeoutError)
}

/// A list of operations, one of which is chosen and done: [`select!`](crate::select) for lists made at run time.
///
/// There are two ways to use it. `select`, `try_select`, `select_timeout` and `select_deadline` choose an operation that
/// *has begun* and must be completed. `ready`, `try_ready`, `ready_timeout` and `ready_deadline` only say which one could be
/// done now; somebody else may be faster, so that is for loops. An operation that would say that the channel is disconnected
/// is ready too. If several are ready, a random one is chosen, or with [`new_biased`](Select::new_biased) the first.
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

// SAFETY: all that can be done with it on another thread is to choose: the channels move messages under their locks, and a
// message that was chosen comes out through a `Receiver` of that thread, or goes back into the channel.
unsafe impl Send for Select<'_> {}
// SAFETY: nothing can be done with a shared reference but to clone it.
unsafe impl Sync for Select<'_> {}

impl<'a> Select<'a> {
    /// An empty list.
    ///
    /// ```
    /// let select = runtime::channel::Select::new();
    /// ```
    pub fn new() -> Self {
        Select { cases: Vec::with_capacity(4), next_index: 0, biased: false }
    }

    /// An empty list that prefers what was added first.
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

    /// Adds a send operation and gives its index.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::unbounded::<i32>();
    /// assert_eq!(runtime::channel::Select::new().send(&s), 0);
    /// ```
    pub fn send<T>(&mut self, s: &'a Sender<T>) -> usize {
        self.add(s)
    }

    /// Adds a receive operation and gives its index.
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

    /// Takes an operation out, such as one whose channel is disconnected. The others keep their indices.
    ///
    /// # Panics
    ///
    /// If there is no operation of that index.
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

    /// Chooses an operation without waiting.
    ///
    /// # Errors
    ///
    /// None is ready.
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
    /// If the list is empty.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread unwinds from here if it has to wait; nothing has begun.
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

    /// [`select`](Select::select) that waits no longer than that; with an empty list it waits just so long.
    ///
    /// # Errors
    ///
    /// None was ready in time.
    ///
    /// # Cancellation
    ///
    /// As for [`select`](Select::select).
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

    /// [`select`](Select::select) that waits no longer than until then.
    ///
    /// # Errors
    ///
    /// None was ready in time.
    ///
    /// # Cancellation
    ///
    /// As for [`select`](Select::select).
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
        choose(&mut self.cases, Patience::Until(deadline), self.biased).ok_or(SelectTimeoutError)
    }

    /// The index of an operation that is ready, without waiting.
    ///
    /// # Errors
    ///
    /// None is ready.
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
        find_ready(&mut self.cases, Patience::None, self.biased).ok_or(TryReadyError)
    }

    /// Waits until an operation is ready, and gives its index. It may return although the operation is not ready (any
    /// more), so try it in a loop.
    ///
    /// # Panics
    ///
    /// If the list is empty.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread unwinds from here if it has to wait.
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
        find_ready(&mut self.cases, Patience::Endless, self.biased).expect("it waits without end")
    }

    /// [`ready`](Select::ready) that waits no longer than that.
    ///
    /// # Errors
    ///
    /// None was ready in time.
    ///
    /// # Cancellation
    ///
    /// As for [`ready`](Select::ready).
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let (_s, r) = unbounded::<i32>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert!(select.ready_timeout(std::time::Duration::from_millis(1)).is_err());
    /// ```
    pub fn ready_timeout(&mut self, timeout: Duration) -> Result<usize, ReadyTimeoutError> {
        find_ready(&mut self.cases, Patience::of(timeout), self.biased).ok_or(ReadyTimeoutError)
    }

    /// [`ready`](Select::ready) that waits no longer than until then.
    ///
    /// # Errors
    ///
    /// None was ready in time.
    ///
    /// # Cancellation
    ///
    /// As for [`ready`](Select::ready).
    ///
    /// ```
    /// use runtime::channel::{Select, unbounded};
    /// let (_s, r) = unbounded::<i32>();
    /// let mut select = Select::new();
    /// select.recv(&r);
    /// assert!(select.ready_deadline(std::time::Instant::now()).is_err());
    /// ```
    pub fn ready_deadline(&mut self, deadline: Instant) -> Result<usize, ReadyTimeoutError> {
        find_ready(&mut self.cases, Patience::Until(deadline), self.biased).ok_or(ReadyTimeoutError)
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

/// An operation that was chosen and has begun: complete it with [`send`](SelectedOperation::send) or
/// [`recv`](SelectedOperation::recv).
///
/// # Panics
///
/// Dropped without that, it takes back what had begun, and panics, unless the thread unwinds already.
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
    /// What the handle's `try_begin` or `accept` put in.
    begun: Begun,
}

impl<'a> SelectedOperation<'a> {
    fn new(case: Case<'a>, begun: Begun) -> Self {
        SelectedOperation { case, begun }
    }

    /// The index that adding the operation gave.
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
    /// It waits only in one case: who was to receive on a channel of capacity 0 has gone meanwhile, being a future that was
    /// dropped or an operation that was not completed. (A thread stays, also if it is cancelled.)
    ///
    /// # Errors
    ///
    /// All receivers are gone; with the message.
    ///
    /// # Panics
    ///
    /// If `s` is not the sender that was added to the list.
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
        // SAFETY: that sender began it, and it is taken out once.
        unsafe { s.finish(&mut this.begun, msg) }
    }

    /// Completes a receive operation.
    ///
    /// On a channel of capacity 0 it may wait until a `select!` on the other side has computed its message.
    ///
    /// # Errors
    ///
    /// There is no message, and all senders are gone.
    ///
    /// # Panics
    ///
    /// If `r` is not the receiver that was added to the list.
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
        // SAFETY: that receiver began it, and it is taken out once.
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
        // SAFETY: the handle began it, and nobody takes it out any more.
        unsafe { self.case.handle.abandon(&mut self.begun) };
        if !std::thread::panicking() {
            panic!("dropped `SelectedOperation` without completing the operation");
        }
    }
}
