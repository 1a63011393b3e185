//! Channels without a buffer: a sender and a receiver meet, and whoever came second does the work for both.
//!
//! One lock, and two queues of those who came first. At most one of them has somebody who waits for more than to watch,
//! but for a select that both sends and receives here and does not meet itself.
//!
//! A select that sends has its message only after it has chosen (the expression is evaluated then). So when it meets a
//! receiver it makes a [`Promise`], for which the receiver waits: as it does when it finds such a select waiting.

#![allow(unsafe_code)]

mod cases;
#[cfg(not(loom))]
mod futures;
#[cfg(all(test, loom))]
mod models;

pub(super) use cases::Right;

use std::collections::VecDeque;
use std::mem::replace;
use std::time::Instant;

use sched::park::{self, Waiting};
use sched::queue::{self, Guard, How, Lock, Queue, Spot, Wake, Wakes};
use sched::{Cancel, Outcome};

use super::error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
use super::model::broken;
use super::promise::Promise;
use super::shared::Disconnect;
use super::waiters::{Given, Wanted, Who, hand_over, is_past, wake_all};

/// See the file's head.
pub(super) struct Rendezvous<T>(Lock<State<T>>);

pub(super) struct State<T> {
    senders: Queue<Offer<T>>,
    receivers: Queue<Wanted<T>>,
    /// One side is gone.
    closed: bool,
    /// Messages that had been given to receivers who went away.
    returned: VecDeque<T>,
}

/// What a sender waits with.
pub(super) enum Offer<T> {
    Message(T),
    /// The receiver has it.
    Taken,
    Select(Who),
    /// The receiver wants it.
    Promised(Promise<T>),
}

fn senders<T>(state: &mut State<T>) -> &mut Queue<Offer<T>> {
    &mut state.senders
}

fn receivers<T>(state: &mut State<T>) -> &mut Queue<Wanted<T>> {
    &mut state.receivers
}

type StateGuard<'c, T> = Guard<'c, State<T>>;

impl<T> Offer<T> {
    fn who(&self) -> Who {
        if let Offer::Select(who) = self { *who } else { Who::default() }
    }
}

impl<T> State<T> {
    /// There is nothing that a receiver could take.
    #[inline]
    fn is_deserted(&self) -> bool {
        self.senders.is_empty() && self.returned.is_empty()
    }

    /// Takes the message of the sender that has waited longest: the usual case of `meet_sender`.
    #[inline]
    fn meet_first(&mut self) -> Option<(T, Wake)> {
        let mut sender = self.senders.first()?;
        if !self.returned.is_empty() || !matches!(sender.payload(), Offer::Message(_)) {
            return None;
        }
        let Offer::Message(message) = replace(sender.payload(), Offer::Taken) else {
            unreachable!("that is what it was")
        };
        match sender.wake() {
            Ok(wake) => Some((message, wake)),
            Err(mut over) => {
                if !broken!("channel_message_not_given_back") {
                    *over.payload() = Offer::Message(message);
                }
                None
            }
        }
    }

    /// Takes what a sender that waits has, for the receiver `me`.
    #[inline(never)]
    fn meet_sender(&mut self, me: Who) -> Option<(Given<T>, Option<Wake>)> {
        if let Some(message) = self.returned.pop_front() {
            return Some((Given::Message(message), None));
        }
        while let Some(mut sender) = self.senders.find(|offer| meets(me, offer.who())) {
            let offer = sender.payload();
            if let Offer::Select(_) = offer {
                let promise = Promise::new();
                *offer = Offer::Promised(promise.other());
                if let Ok(wake) = sender.wake() {
                    return Some((Given::Promise(promise), Some(wake)));
                }
                continue;
            }
            let message = replace(offer, Offer::Taken);
            match (sender.wake(), message) {
                (Ok(wake), Offer::Message(message)) => return Some((Given::Message(message), Some(wake))),
                (Ok(_), _) => unreachable!("a sender waits with a message"),
                (Err(mut over), message) => {
                    if !broken!("channel_message_not_given_back") {
                        *over.payload() = message;
                    }
                }
            }
        }
        None
    }

    /// A receiver waits that `me` would meet.
    fn has_receiver(&mut self, me: Who) -> bool {
        self.receivers.find(|wanted| meets(me, wanted.who)).is_some()
    }

    fn has_sender(&mut self, me: Who) -> bool {
        !self.returned.is_empty() || self.senders.find(|offer| meets(me, offer.who())).is_some()
    }

    /// A receiver enters: those who only watch for one are to be woken.
    #[inline]
    fn watching_senders(&mut self) -> Option<Wakes> {
        let mut wakes = None;
        while let Some(sender) = self.senders.find(|offer| offer.who().watches) {
            wakes.get_or_insert_with(Wakes::new).extend(sender.wake());
        }
        wakes
    }

    /// A sender enters: likewise.
    #[inline]
    fn watching_receivers(&mut self) -> Option<Wakes> {
        let mut wakes = None;
        while let Some(receiver) = self.receivers.find(|wanted| wanted.who.watches) {
            wakes.get_or_insert_with(Wakes::new).extend(receiver.wake());
        }
        wakes
    }
}

/// Whether the one who comes meets the one who waits.
#[inline]
fn meets(comes: Who, waits: Who) -> bool {
    !waits.watches && (waits.select == 0 || waits.select != comes.select)
}

/// What becomes of one who comes to send or to receive.
enum Come<R> {
    Done(R),
    /// It is in the queue, and is to park.
    Waits(Waiting),
}

/// Gives the message to a receiver that waits, or enters the queue with it.
///
/// # Safety
/// As for [`Spot::enter`], if it is to wait.
#[inline(never)]
unsafe fn come_to_send<'c, T>(
    spot: &mut Spot<'c, State<T>, Offer<T>, impl Fn(&mut State<T>) -> &mut Queue<Offer<T>>>,
    message: &mut Option<T>,
    deadline: Option<Instant>,
) -> Come<Result<(), SendTimeoutError<T>>> {
    let message = message.take().expect("it comes with a message");
    let (mut state, message) = match offer(spot.lock(), message) {
        Ok(()) => return Come::Done(Ok(())),
        Err(refused) => refused,
    };
    if state.closed {
        return Come::Done(Err(SendTimeoutError::Disconnected(message)));
    }
    if is_past(deadline) {
        return Come::Done(Err(SendTimeoutError::Timeout(message)));
    }
    let watchers = if state.receivers.is_empty() { None } else { state.watching_receivers() };
    debug_assert!(!state.has_receiver(Who::default()), "a sender and a receiver wait that could meet");
    let how = How { wakes: watchers, ..How::from(deadline) };
    let waiting = Waiting::begin_for(sched::Why::Send, Cancel::Ends);
    // SAFETY: by this contract.
    unsafe { spot.enter(state, &waiting, how, Offer::Message(message)) };
    Come::Waits(waiting)
}

/// The message was taken, or why not; the message again, if it is to come anew.
///
/// # Safety
/// As for [`Spot::leave`].
#[inline(never)]
unsafe fn gave<T>(
    spot: &mut Spot<'_, State<T>, Offer<T>, impl Fn(&mut State<T>) -> &mut Queue<Offer<T>>>,
    outcome: Outcome,
) -> Result<Result<(), SendTimeoutError<T>>, T> {
    // SAFETY: by this contract.
    let offer = match unsafe { spot.leave(outcome) } {
        Ok(offer) => offer,
        Err(ended) => ended.payload,
    };
    let Offer::Message(message) = offer else { return Ok(Ok(())) };
    match outcome {
        Outcome::Woken => Ok(Err(SendTimeoutError::Disconnected(message))),
        Outcome::TimedOut => Ok(Err(SendTimeoutError::Timeout(message))),
        Outcome::Cancelled => {
            park::unwind_if_cancelled();
            Err(message)
        }
    }
}

/// Takes a message from a sender that waits, or enters the queue.
///
/// # Safety
/// As for [`Spot::enter`], if it is to wait.
#[inline(never)]
unsafe fn come_to_receive<'c, T>(
    spot: &mut Spot<'c, State<T>, Wanted<T>, impl Fn(&mut State<T>) -> &mut Queue<Wanted<T>>>,
    deadline: Option<Instant>,
) -> Come<Result<T, RecvTimeoutError>> {
    loop {
        let mut state = spot.lock().lock();
        if let Some((message, wake)) = state.meet_first() {
            drop(state);
            drop(wake);
            return Come::Done(Ok(message));
        }
        let met = if state.is_deserted() { None } else { state.meet_sender(Who::default()) };
        if let Some((given, wake)) = met {
            drop(state);
            drop(wake);
            match fetch(given) {
                Some(message) => return Come::Done(Ok(message)),
                None => continue,
            }
        }
        if state.closed {
            return Come::Done(Err(RecvTimeoutError::Disconnected));
        }
        if is_past(deadline) {
            return Come::Done(Err(RecvTimeoutError::Timeout));
        }
        let watchers = if state.senders.is_empty() { None } else { state.watching_senders() };
        debug_assert!(!state.has_sender(Who::default()), "a receiver and a sender wait that could meet");
        let how = How { wakes: watchers, ..How::from(deadline) };
        let waiting = Waiting::begin_for(sched::Why::Receive, Cancel::Ends);
        // SAFETY: by this contract.
        unsafe { spot.enter(state, &waiting, how, Wanted::message()) };
        return Come::Waits(waiting);
    }
}

/// What it was given, or why nothing; `None`: it is to come anew.
///
/// # Safety
/// As for [`Spot::leave`].
#[inline(never)]
unsafe fn got<T>(
    spot: &mut Spot<'_, State<T>, Wanted<T>, impl Fn(&mut State<T>) -> &mut Queue<Wanted<T>>>,
    outcome: Outcome,
) -> Option<Result<T, RecvTimeoutError>> {
    // SAFETY: by this contract.
    match unsafe { spot.leave(outcome) } {
        Ok(Wanted { got: Some(given), .. }) => fetch(given).map(Ok),
        Ok(_) => Some(Err(RecvTimeoutError::Disconnected)),
        Err(ended) if ended.outcome == Outcome::TimedOut => Some(Err(RecvTimeoutError::Timeout)),
        Err(ended) => {
            drop(ended);
            park::unwind_if_cancelled();
            None
        }
    }
}

/// The message; `None`: it was promised, and the promise was not kept.
#[inline]
fn fetch<T>(given: Given<T>) -> Option<T> {
    match given {
        Given::Message(message) => Some(message),
        Given::Promise(promise) => promise.wait(),
    }
}

/// Gives the message to a receiver that waits.
#[inline]
fn offer<T>(lock: &Lock<State<T>>, message: T) -> Result<(), (StateGuard<'_, T>, T)> {
    let mut state = lock.lock();
    if state.receivers.is_empty() {
        return Err((state, message));
    }
    match hand_over(&mut state.receivers, message) {
        Ok(wake) => {
            drop(state);
            drop(wake);
            Ok(())
        }
        Err(message) => Err((state, message)),
    }
}

impl<T> Rendezvous<T> {
    pub(super) fn new() -> Self {
        Rendezvous(Lock::new(State {
            senders: Queue::new(),
            receivers: Queue::new(),
            closed: false,
            returned: VecDeque::new(),
        }))
    }

    pub(super) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        match offer(&self.0, message) {
            Ok(()) => Ok(()),
            Err((state, message)) if state.closed => Err(TrySendError::Disconnected(message)),
            Err((_, message)) => Err(TrySendError::Full(message)),
        }
    }

    // Inlined, and all but the switch itself out of line: see `Receiver::recv`.
    #[inline(always)]
    pub(super) fn send(&self, message: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        let mut spot = Spot::new(&self.0, senders);
        let mut message = Some(message);
        loop {
            // SAFETY: the spot stays in this frame, and is left as soon as the wait has ended; a park does not unwind.
            let waiting = match unsafe { come_to_send(&mut spot, &mut message, deadline) } {
                Come::Waits(waiting) => waiting,
                Come::Done(result) => return result,
            };
            let outcome = queue::park(waiting, deadline);
            // SAFETY: so ended the wait that it came with.
            match unsafe { gave(&mut spot, outcome) } {
                Ok(result) => return result,
                Err(back) => message = Some(back),
            }
        }
    }

    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.lock();
        let Some((given, wake)) = state.meet_sender(Who::default()) else {
            return Err(if state.closed { TryRecvError::Disconnected } else { TryRecvError::Empty });
        };
        drop(state);
        drop(wake);
        match given {
            Given::Message(message) => Ok(message),
            Given::Promise(promise) => promise.wait().ok_or(TryRecvError::Empty),
        }
    }

    // As `send`.
    #[inline(always)]
    pub(super) fn recv(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut spot = Spot::new(&self.0, receivers);
        loop {
            // SAFETY: as in `send`.
            let waiting = match unsafe { come_to_receive(&mut spot, deadline) } {
                Come::Waits(waiting) => waiting,
                Come::Done(result) => return result,
            };
            let outcome = queue::park(waiting, deadline);
            // SAFETY: as in `send`.
            if let Some(result) = unsafe { got(&mut spot, outcome) } {
                return result;
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        0
    }

    pub(super) fn is_full(&self) -> bool {
        true
    }

    /// Takes a message back that was given to somebody who went away: for the first who waits, or the next to come.
    fn take_back(&self, mut state: StateGuard<'_, T>, message: T) {
        match hand_over(&mut state.receivers, message) {
            Ok(wake) => {
                drop(state);
                drop(wake);
            }
            Err(message) => {
                state.returned.push_back(message);
                let watchers = state.watching_receivers();
                drop(state);
                drop(watchers);
            }
        }
    }

    fn close(&self) {
        let mut wakes = Wakes::new();
        let mut state = self.0.lock();
        state.closed = true;
        wake_all(&mut state.senders, &mut wakes);
        wake_all(&mut state.receivers, &mut wakes);
        drop(state);
    }
}

impl<T> Disconnect for Rendezvous<T> {
    fn senders_gone(&self) {
        self.close();
    }

    fn receivers_gone(&self) {
        self.close();
        // Nobody receives what was returned.
        while let Ok(message) = self.try_recv() {
            drop(message);
        }
    }
}
