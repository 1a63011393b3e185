//! Channels without a buffer: a sender and a receiver meet, and the second to come does the work of both.
//!
//! One lock guards two queues, of waiting senders and of waiting receivers. At most one queue has a waiter
//! that can be met. The other may have watchers. (A select that both sends and receives here may be in both,
//! because it does not meet itself.)
//!
//! A select that sends evaluates its message only after it has chosen. So when it meets a receiver, it makes
//! a [`Promise`], and the receiver waits for the message. The same happens when a receiver finds such a
//! select waiting.

#![allow(unsafe_code)]

mod cases;
#[cfg(not(loom))]
mod futures;
#[cfg(all(test, loom))]
mod models;

pub(super) use cases::BegunSend;

use std::collections::VecDeque;
use std::mem::replace;
use std::time::Instant;

use sched::park::{self, Waiting};
use sched::{Cancel, Outcome};
use waits::queue::{self, Guard, Lock, Queue, Spot, WaitOptions, Wake, Wakes};

#[cfg(not(loom))]
use super::closings::wait_closed_async;
use super::closings::{Closing, wait_closed};
use super::error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
use super::model::broken;
use super::promise::Promise;
use super::shared::{Disconnect, Ends};
use super::waiters::{Grant, WaiterKind, Wanted, hand_over, is_past, wake_all};

/// A channel without a buffer; the protocol is in the head of this file.
pub(super) struct Rendezvous<T>(Lock<RendezvousState<T>>, Ends);

pub(super) struct RendezvousState<T> {
    senders: Queue<Offer<T>>,
    receivers: Queue<Wanted<T>>,
    /// Set when one side is gone, or a receiver has closed the channel.
    closed: bool,
    /// Senders that wait for `closed`.
    closings: Queue<()>,
    /// Messages that were given to receivers which then left.
    returned: VecDeque<T>,
}

/// The payload of a waiting sender.
pub(super) enum Offer<T> {
    Message(T),
    /// A receiver has taken the message.
    Taken,
    Select(WaiterKind),
    /// A receiver wants the message, which is promised.
    Promised(Promise<T>),
}

fn senders<T>(state: &mut RendezvousState<T>) -> &mut Queue<Offer<T>> {
    &mut state.senders
}

fn receivers<T>(state: &mut RendezvousState<T>) -> &mut Queue<Wanted<T>> {
    &mut state.receivers
}

type StateGuard<'c, T> = Guard<'c, RendezvousState<T>>;

impl<T> Offer<T> {
    fn kind(&self) -> WaiterKind {
        if let Offer::Select(kind) = self { *kind } else { WaiterKind::default() }
    }
}

impl<T> RendezvousState<T> {
    /// Returns `true` if there is nothing that a receiver could take.
    #[inline]
    fn has_nothing_to_receive(&self) -> bool {
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
            unreachable!("the sender was matched by its message")
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

    /// Takes the message or the promise of a waiting sender, for the receiver `me`.
    #[inline(never)]
    fn meet_sender(&mut self, me: WaiterKind) -> Option<(Grant<T>, Option<Wake>)> {
        if let Some(message) = self.returned.pop_front() {
            return Some((Grant::Message(message), None));
        }
        while let Some(mut sender) = self.senders.find(|offer| meets(me, offer.kind())) {
            let offer = sender.payload();
            if let Offer::Select(_) = offer {
                let promise = Promise::new();
                *offer = Offer::Promised(promise.other());
                if let Ok(wake) = sender.wake() {
                    return Some((Grant::Promise(promise), Some(wake)));
                }
                continue;
            }
            let message = replace(offer, Offer::Taken);
            match (sender.wake(), message) {
                (Ok(wake), Offer::Message(message)) => return Some((Grant::Message(message), Some(wake))),
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

    /// Returns `true` if a receiver waits that `me` would meet.
    fn has_receiver(&mut self, me: WaiterKind) -> bool {
        self.receivers.find(|wanted| meets(me, wanted.kind)).is_some()
    }

    fn has_sender(&mut self, me: WaiterKind) -> bool {
        !self.returned.is_empty() || self.senders.find(|offer| meets(me, offer.kind())).is_some()
    }

    /// A receiver enters the queue: returns the wake-ups of senders that only watch for one.
    #[inline]
    fn watching_senders(&mut self) -> Option<Wakes> {
        let mut wakes = None;
        while let Some(sender) = self.senders.find(|offer| offer.kind().watches) {
            wakes.get_or_insert_with(Wakes::new).extend(sender.wake());
        }
        wakes
    }

    /// A sender enters the queue: returns the wake-ups of receivers that only watch for one.
    #[inline]
    fn watching_receivers(&mut self) -> Option<Wakes> {
        let mut wakes = None;
        while let Some(receiver) = self.receivers.find(|wanted| wanted.kind.watches) {
            wakes.get_or_insert_with(Wakes::new).extend(receiver.wake());
        }
        wakes
    }
}

/// Returns `true` if a waiter is met by a sender or receiver that comes: not if it only watches, or is the
/// same select.
#[inline]
fn meets(comes: WaiterKind, waits: WaiterKind) -> bool {
    !waits.watches && (waits.select == 0 || waits.select != comes.select)
}

/// The result of coming to send or to receive.
enum Start<R> {
    Done(R),
    /// The waiter is in the queue and must park.
    Waits(Waiting),
}

/// Gives the message to a waiting receiver, or enters the queue with it.
///
/// # Safety
/// The contract of [`Spot::enter`] holds.
#[inline(never)]
unsafe fn send_or_enqueue<'c, T>(
    spot: &mut Spot<
        'c,
        RendezvousState<T>,
        Offer<T>,
        impl Fn(&mut RendezvousState<T>) -> &mut Queue<Offer<T>>,
    >,
    ends: &'c Ends,
    message: &mut Option<T>,
    deadline: Option<Instant>,
) -> Start<Result<(), SendTimeoutError<T>>> {
    let message = message.take().expect("the sender has a message");
    let (mut state, message) = match offer(spot.lock(), message) {
        Ok(()) => return Start::Done(Ok(())),
        Err(refused) => refused,
    };
    if state.closed {
        return Start::Done(Err(SendTimeoutError::Disconnected(message)));
    }
    if is_past(deadline) {
        return Start::Done(Err(SendTimeoutError::Timeout(message)));
    }
    let watchers = if state.receivers.is_empty() { None } else { state.watching_receivers() };
    debug_assert!(!state.has_receiver(WaiterKind::default()), "a sender and a receiver wait that could meet");
    let how = WaitOptions { wakes: watchers, ..WaitOptions::from(deadline) };
    // SAFETY: `ends` lies in the channel of the spot, which the caller borrows until it has left the spot.
    let waiting = unsafe { Waiting::begin_on(sched::Why::Send, ends.on(), Cancel::Ends) };
    // SAFETY: the caller keeps the contract of `Spot::enter`.
    unsafe { spot.enter(state, &waiting, how, Offer::Message(message)) };
    Start::Waits(waiting)
}

/// Leaves the queue after a wait. Returns the result of the send. The error is the message again if the
/// caller must send anew.
///
/// # Safety
/// The contract of [`Spot::leave`] holds.
#[inline(never)]
unsafe fn finish_send<T>(
    spot: &mut Spot<
        '_,
        RendezvousState<T>,
        Offer<T>,
        impl Fn(&mut RendezvousState<T>) -> &mut Queue<Offer<T>>,
    >,
    outcome: Outcome,
) -> Result<Result<(), SendTimeoutError<T>>, T> {
    // SAFETY: the caller keeps the contract of `Spot::leave`.
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

/// Takes a message from a waiting sender, or enters the queue.
///
/// # Safety
/// The contract of [`Spot::enter`] holds.
#[inline(never)]
unsafe fn receive_or_enqueue<'c, T>(
    spot: &mut Spot<
        'c,
        RendezvousState<T>,
        Wanted<T>,
        impl Fn(&mut RendezvousState<T>) -> &mut Queue<Wanted<T>>,
    >,
    ends: &'c Ends,
    deadline: Option<Instant>,
) -> Start<Result<T, RecvTimeoutError>> {
    loop {
        let mut state = spot.lock().lock();
        if let Some((message, wake)) = state.meet_first() {
            drop(state);
            drop(wake);
            return Start::Done(Ok(message));
        }
        let met =
            if state.has_nothing_to_receive() { None } else { state.meet_sender(WaiterKind::default()) };
        if let Some((given, wake)) = met {
            drop(state);
            drop(wake);
            match fetch(given) {
                Some(message) => return Start::Done(Ok(message)),
                None => continue,
            }
        }
        if state.closed {
            return Start::Done(Err(RecvTimeoutError::Disconnected));
        }
        if is_past(deadline) {
            return Start::Done(Err(RecvTimeoutError::Timeout));
        }
        let watchers = if state.senders.is_empty() { None } else { state.watching_senders() };
        debug_assert!(
            !state.has_sender(WaiterKind::default()),
            "a receiver and a sender wait that could meet"
        );
        let how = WaitOptions { wakes: watchers, ..WaitOptions::from(deadline) };
        // SAFETY: `ends` lies in the channel of the spot, which the caller borrows until it has left the
        // spot.
        let waiting = unsafe { Waiting::begin_on(sched::Why::Receive, ends.on(), Cancel::Ends) };
        // SAFETY: the caller keeps the contract of `Spot::enter`.
        unsafe { spot.enter(state, &waiting, how, Wanted::message()) };
        return Start::Waits(waiting);
    }
}

/// Leaves the queue after a wait. Returns the result of the receive, or `None` if the caller must receive
/// anew.
///
/// # Safety
/// The contract of [`Spot::leave`] holds.
#[inline(never)]
unsafe fn finish_receive<T>(
    spot: &mut Spot<
        '_,
        RendezvousState<T>,
        Wanted<T>,
        impl Fn(&mut RendezvousState<T>) -> &mut Queue<Wanted<T>>,
    >,
    outcome: Outcome,
) -> Option<Result<T, RecvTimeoutError>> {
    // SAFETY: the caller keeps the contract of `Spot::leave`.
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

/// Returns the message. Waits for a promised one, and returns `None` if that promise was broken.
#[inline]
fn fetch<T>(given: Grant<T>) -> Option<T> {
    match given {
        Grant::Message(message) => Some(message),
        Grant::Promise(promise) => promise.wait(),
    }
}

/// Gives the message to a waiting receiver. Returns the message and the lock if none waits.
#[inline]
fn offer<T>(lock: &Lock<RendezvousState<T>>, message: T) -> Result<(), (StateGuard<'_, T>, T)> {
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
        let state = RendezvousState {
            senders: Queue::new(),
            receivers: Queue::new(),
            closed: false,
            closings: Queue::new(),
            returned: VecDeque::new(),
        };
        Rendezvous(Lock::new(state), Ends::new())
    }

    pub(super) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        match offer(&self.0, message) {
            Ok(()) => Ok(()),
            Err((state, message)) if state.closed => Err(TrySendError::Disconnected(message)),
            Err((_, message)) => Err(TrySendError::Full(message)),
        }
    }

    // Inlined, and all but the switch is out of line: see `Receiver::recv`.
    #[inline(always)]
    pub(super) fn send(&self, message: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        let mut spot = Spot::new(&self.0, senders);
        let mut message = Some(message);
        loop {
            // SAFETY: the spot stays in this frame. It is left as soon as the wait has ended, and a park does
            // not unwind.
            let waiting = match unsafe { send_or_enqueue(&mut spot, &self.1, &mut message, deadline) } {
                Start::Waits(waiting) => waiting,
                Start::Done(result) => return result,
            };
            let outcome = queue::park(waiting, deadline);
            // SAFETY: `outcome` is the end of the wait with which the spot was entered.
            match unsafe { finish_send(&mut spot, outcome) } {
                Ok(result) => return result,
                Err(back) => message = Some(back),
            }
        }
    }

    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.lock();
        let Some((given, wake)) = state.meet_sender(WaiterKind::default()) else {
            return Err(if state.closed { TryRecvError::Disconnected } else { TryRecvError::Empty });
        };
        drop(state);
        drop(wake);
        match given {
            Grant::Message(message) => Ok(message),
            Grant::Promise(promise) => promise.wait().ok_or(TryRecvError::Empty),
        }
    }

    // Inlined as `send` is.
    #[inline(always)]
    pub(super) fn recv(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut spot = Spot::new(&self.0, receivers);
        loop {
            // SAFETY: the spot stays in this frame. It is left as soon as the wait has ended, and a park does
            // not unwind.
            let waiting = match unsafe { receive_or_enqueue(&mut spot, &self.1, deadline) } {
                Start::Waits(waiting) => waiting,
                Start::Done(result) => return result,
            };
            let outcome = queue::park(waiting, deadline);
            // SAFETY: `outcome` is the end of the wait with which the spot was entered.
            if let Some(result) = unsafe { finish_receive(&mut spot, outcome) } {
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

    /// Takes back a message that was given to a receiver which left: for the first waiting receiver, or the
    /// next to come.
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
        wake_all(&mut state.closings, &mut wakes);
        drop(state);
    }

    /// Closes the channel for a receiver that wants no more messages.
    pub(super) fn end_sending(&self) {
        self.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    pub(super) fn wait_closed(&self) {
        wait_closed(&self.0, self.1.on());
    }

    #[cfg(not(loom))]
    pub(super) async fn wait_closed_async(&self) {
        wait_closed_async(&self.0).await;
    }
}

impl<T> Closing for RendezvousState<T> {
    fn is_closed(&self) -> bool {
        self.closed
    }

    fn closings(&mut self) -> &mut Queue<()> {
        &mut self.closings
    }
}

impl<T> Disconnect for Rendezvous<T> {
    fn ends(&self) -> &Ends {
        &self.1
    }

    fn ends_mut(&mut self) -> &mut Ends {
        &mut self.1
    }

    fn fill(&self) -> (usize, Option<usize>) {
        (0, Some(0))
    }

    fn senders_gone(&self) {
        self.close();
    }

    fn receivers_gone(&self) {
        self.close();
        // No receiver is left for the returned messages.
        while let Ok(message) = self.try_recv() {
            drop(message);
        }
    }
}
