//! Channels without a buffer: a sender and a receiver meet, and whoever came second does the work for both.
//!
//! One lock, and two queues of those who came first. At most one of them has somebody who waits for more than to watch,
//! but for a select that both sends and receives here and does not meet itself.
//!
//! A select that sends has its message only after it has chosen (the expression is evaluated then). So when it meets a
//! receiver it makes a [`Promise`], for which the receiver waits: as it does when it finds such a select waiting.

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
use sched::queue::{self, Guard, How, Lock, Queue, Wake, Wakes};
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
        match self.offer(message) {
            Ok(()) => Ok(()),
            Err((state, message)) if state.closed => Err(TrySendError::Disconnected(message)),
            Err((_, message)) => Err(TrySendError::Full(message)),
        }
    }

    /// Gives the message to a receiver that waits.
    #[inline]
    fn offer(&self, message: T) -> Result<(), (StateGuard<'_, T>, T)> {
        let mut state = self.0.lock();
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

    pub(super) fn send(&self, mut message: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        loop {
            let mut state = match self.offer(message) {
                Ok(()) => return Ok(()),
                Err((state, back)) => {
                    message = back;
                    state
                }
            };
            if state.closed {
                return Err(SendTimeoutError::Disconnected(message));
            }
            if is_past(deadline) {
                return Err(SendTimeoutError::Timeout(message));
            }
            let watchers = if state.receivers.is_empty() { None } else { state.watching_receivers() };
            let how = How { wakes: watchers, ..How::from(deadline) };
            let offer = Offer::Message(message);
            let (outcome, offer) = match queue::wait(
                state,
                senders,
                Waiting::begin_for(sched::Why::Send, Cancel::Ends),
                how,
                offer,
            ) {
                Ok(offer) => (Outcome::Woken, offer),
                Err(ended) => (ended.outcome, ended.payload),
            };
            let Offer::Message(back) = offer else { return Ok(()) };
            message = back;
            match outcome {
                Outcome::Woken => return Err(SendTimeoutError::Disconnected(message)),
                Outcome::TimedOut => return Err(SendTimeoutError::Timeout(message)),
                Outcome::Cancelled => park::unwind_if_cancelled(),
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

    pub(super) fn recv(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        loop {
            let mut state = self.0.lock();
            if let Some((message, wake)) = state.meet_first() {
                drop(state);
                drop(wake);
                return Ok(message);
            }
            let met = if state.is_deserted() { None } else { state.meet_sender(Who::default()) };
            let given = if let Some((given, wake)) = met {
                drop(state);
                drop(wake);
                given
            } else if state.closed {
                return Err(RecvTimeoutError::Disconnected);
            } else if is_past(deadline) {
                return Err(RecvTimeoutError::Timeout);
            } else {
                let watchers = if state.senders.is_empty() { None } else { state.watching_senders() };
                let how = How { wakes: watchers, ..How::from(deadline) };
                match queue::wait(
                    state,
                    receivers,
                    Waiting::begin_for(sched::Why::Receive, Cancel::Ends),
                    how,
                    Wanted::message(),
                ) {
                    Ok(Wanted { got: Some(given), .. }) => given,
                    Ok(_) => return Err(RecvTimeoutError::Disconnected),
                    Err(ended) if ended.outcome == Outcome::TimedOut => {
                        return Err(RecvTimeoutError::Timeout);
                    }
                    Err(ended) => {
                        drop(ended);
                        park::unwind_if_cancelled();
                        continue;
                    }
                }
            };
            match given {
                Given::Message(message) => return Ok(message),
                Given::Promise(promise) => {
                    if let Some(message) = promise.wait() {
                        return Ok(message);
                    }
                }
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
