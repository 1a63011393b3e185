//! The events of the flight recorder, and how one event fits into two words.
//!
//! ```text
//!   first word    stamp 56 | kind 8
//!   second word   id of a green thread, or a number, 48 | argument 16
//! ```
//!
//! The event `SpawnPlace` is an exception: its second word is the address of a source location, and it has no
//! stamp. It follows its `Spawn` directly.

use crate::p::ring::Words;

/// What has happened. The id of a waker or spawner is not stored: it is the green thread that runs on the P
/// at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
    /// Not written yet.
    None,
    /// A green thread begins to run. The argument says how the last one stopped at the same moment, if it did
    /// ([`Stopped`]), and has the bit [`POLLS`].
    Run,
    /// The running green thread has stopped. The argument is a [`Stopped`].
    Stop,
    /// A green thread was spawned. The argument is 1 for a future.
    Spawn,
    /// Where.
    SpawnPlace,
    /// A parked green thread was made ready. The argument is a [`By`].
    Ready,
    /// The green thread was stolen from the P of the argument.
    Steal,
    /// An M takes the P. The argument is the number of the M, and the number says how it has slept since it
    /// gave a P up (`asleep/nap.rs`).
    Take,
    /// The M gives the P up, and the P is idle. The argument is the number of the M.
    Idle,
    /// The M hands the P to another M.
    HandOff,
    /// The P is taken out of use.
    Retire,
    /// Sysmon takes the P. The argument is 0 if the G is in `blocking`, 1 if it computes, 2 if it blocks, 3
    /// if that is not known.
    Retake,
    /// The G gives the P up, because sysmon has asked for it.
    Asked,
    /// The G arms its timer.
    TimerArmed,
    /// Timers of the P have fired. The number is how late the first of them was, in us; the argument is how
    /// many.
    TimersFired,
    /// The same for the timers of another P. Its index is in the upper 16 bits of the number.
    TimersStolen,
    /// The network was polled, and the argument is how many green threads that woke.
    NetPoll,
    /// The G enters `blocking`.
    Blocking,
    /// An M's thread has started.
    MStart,
    /// An M's thread ends.
    MStop,
    /// An M parks. If it has just given a P up, the reader makes this event, and the three below, from the
    /// events of Ps (`asleep/nap.rs`).
    MPark,
    /// An M has been woken.
    MWake,
    /// An M begins to block in the netpoller.
    NetBlock,
    /// An M has left the netpoller.
    NetReturn,
    /// A region of the user begins in the running green thread. The argument is its name
    /// (`watch/user_events.rs`).
    RegionBegin,
    /// It ends.
    RegionEnd,
    /// A task of the user begins in the running green thread. The number is the task, the argument its name.
    TaskBegin,
    /// It ends.
    TaskEnd,
    /// A message of the running green thread. The number is the message, the argument its category.
    Message,
    /// The green thread has other labels from now on. The argument is the name that stands for them
    /// (`notes/texts.rs`).
    Labels,
}

/// What has made a green thread ready, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum By {
    /// The green thread that runs at that time; without one, a plain OS thread.
    Caller,
    /// A timer.
    Timer,
    /// The network.
    Network,
    /// The scheduler.
    Scheduler,
}

impl By {
    /// Returns what `argument` says.
    pub fn of(argument: u16) -> By {
        [By::Caller, By::Timer, By::Network].get(usize::from(argument)).copied().unwrap_or(By::Scheduler)
    }
}

/// In the argument of `Run`: the green thread runs a poll of a future.
pub const POLLS: u16 = 1 << 15;

/// How a green thread has stopped, as an argument: a kind of [`Stopped`] in 4 bits, and the reason of a wait
/// above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Stopped {
    /// It parked, and waits for this.
    Park(u8),
    /// It yielded, or its wait was decided before it was committed: it stays ready.
    Yield,
    End,
    /// It keeps its OS thread while it waits for a P.
    ForP,
}

impl Stopped {
    const REASON: u16 = 4;

    #[inline]
    pub(crate) const fn argument(self) -> u16 {
        match self {
            Stopped::Park(why) => 1 | (why as u16) << Stopped::REASON,
            Stopped::Yield => 2,
            Stopped::End => 3,
            Stopped::ForP => 4,
        }
    }

    /// Returns what `argument` says; `None` if no green thread stopped.
    pub fn of(argument: u16) -> Option<Stopped> {
        match argument & 0xF {
            1 => Some(Stopped::Park((argument >> Stopped::REASON) as u8)),
            2 => Some(Stopped::Yield),
            3 => Some(Stopped::End),
            4 => Some(Stopped::ForP),
            _ => None,
        }
    }
}

/// Each kind, at its number.
const KINDS: [Kind; Kind::Labels as usize + 1] = [
    Kind::None,
    Kind::Run,
    Kind::Stop,
    Kind::Spawn,
    Kind::SpawnPlace,
    Kind::Ready,
    Kind::Steal,
    Kind::Take,
    Kind::Idle,
    Kind::HandOff,
    Kind::Retire,
    Kind::Retake,
    Kind::Asked,
    Kind::TimerArmed,
    Kind::TimersFired,
    Kind::TimersStolen,
    Kind::NetPoll,
    Kind::Blocking,
    Kind::MStart,
    Kind::MStop,
    Kind::MPark,
    Kind::MWake,
    Kind::NetBlock,
    Kind::NetReturn,
    Kind::RegionBegin,
    Kind::RegionEnd,
    Kind::TaskBegin,
    Kind::TaskEnd,
    Kind::Message,
    Kind::Labels,
];

const KIND_BITS: u32 = 8;
const ARGUMENT_BITS: u32 = 16;
const STAMP: u64 = u64::MAX >> KIND_BITS;

/// Packs one event. Drops the highest bits of `stamp` and of `id`.
#[inline]
pub(crate) fn pack(kind: Kind, stamp: u64, id: u64, argument: u16) -> Words {
    [stamp << KIND_BITS | kind as u64, id << ARGUMENT_BITS | u64::from(argument)]
}

/// Packs a `SpawnPlace`.
#[inline]
pub(crate) fn pack_place(address: usize) -> Words {
    [Kind::SpawnPlace as u64, address as u64]
}

/// Returns the kind of an event.
pub(crate) fn kind(words: Words) -> Kind {
    KINDS.get((words[0] & 0xFF) as usize).copied().unwrap_or(Kind::None)
}

/// Returns the stamp of an event; `near` is a whole stamp from about its time.
pub(crate) fn stamp(words: Words, near: u64) -> u64 {
    let behind = near.wrapping_sub(words[0] >> KIND_BITS) & STAMP;
    // A stamp slightly after `near` is as far "behind" as can be.
    if behind > STAMP / 2 { near.wrapping_add(STAMP + 1 - behind) } else { near.wrapping_sub(behind) }
}

/// Returns the id or number, and the argument.
pub(crate) fn rest(words: Words) -> (u64, u16) {
    (words[1] >> ARGUMENT_BITS, words[1] as u16)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_kind_stands_at_its_number() {
        for (number, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }

    #[test]
    fn an_event_is_read_as_it_was_written() {
        for near in [1 << 20, 1 << 56, 5 << 56 | 17, u64::MAX - 1000] {
            for at in [near - 1000, near, near + 1000] {
                let words = pack(Kind::Ready, at, 123_456, 789);
                assert_eq!((kind(words), stamp(words, near), rest(words)), (Kind::Ready, at, (123_456, 789)));
            }
        }
        for stopped in [Stopped::Park(19), Stopped::Yield, Stopped::End, Stopped::ForP] {
            assert_eq!(Stopped::of(stopped.argument() | POLLS), Some(stopped));
        }
        assert_eq!(Stopped::of(POLLS), None);
        for by in [By::Caller, By::Timer, By::Network, By::Scheduler] {
            assert_eq!(By::of(by as u16), by);
        }
    }
}
