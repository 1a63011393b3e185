//! The events of a snapshot, as users read them.

use std::time::Duration;

/// One event of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When, since the start of the recording.
    pub at: Duration,
    /// In which runtime: an index into [`Snapshot::runtimes`](super::Snapshot::runtimes).
    pub runtime: usize,
    /// On which P; `None` if the thread had none.
    pub proc: Option<usize>,
    /// The number of the OS thread in its runtime, which is the number in the name of that thread. `None` if
    /// it is no thread of the runtime, or if that is not known.
    pub os_thread: Option<usize>,
    /// The user's [task](fn.task.html) in which the green thread was, if the begin of that task is recorded.
    pub task: Option<u64>,
    /// The [labels](../../runtime/profile/fn.labels.html) of the green thread, as a text for
    /// [`Snapshot::text`](super::Snapshot::text) such as `{"route": "/x"}`. `None` if it has none, or if the
    /// event that has set them was overwritten and the green thread has ended.
    pub labels: Option<Text>,
    /// What has happened.
    pub what: What,
}

/// What has happened. An `id` is that of a green thread, as
/// [`ThreadId`](../../runtime/thread/struct.ThreadId.html) shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A green thread was spawned.
    Spawned {
        /// The new green thread.
        id: u64,
        /// The green thread that spawned it, if one did.
        by: Option<u64>,
        /// True if it runs a future.
        future: bool,
    },
    /// A green thread begins or goes on to run.
    Runs {
        /// The green thread.
        id: u64,
        /// True if this is a poll of its future.
        poll: bool,
    },
    /// The running green thread parks.
    Parks {
        /// The green thread.
        id: u64,
        /// What it waits for, in the words of a [dump](crate::dump::dump()).
        why: &'static str,
    },
    /// The running green thread stops and stays ready.
    Yields {
        /// The green thread.
        id: u64,
    },
    /// A green thread that has lost its P waits for another, on its OS thread.
    WaitsForProc {
        /// The green thread.
        id: u64,
    },
    /// The running green thread has ended.
    Ends {
        /// The green thread.
        id: u64,
    },
    /// A parked green thread was made ready.
    Ready {
        /// The green thread.
        id: u64,
        /// What made it ready.
        by: Cause,
    },
    /// The P has taken a green thread, and perhaps others with it, from the queue of another P.
    Stolen {
        /// The green thread that runs next.
        id: u64,
        /// The other P.
        from: usize,
    },
    /// An OS thread has taken the P.
    ProcTaken,
    /// The OS thread has found no work, and the P is idle.
    ProcIdle,
    /// The OS thread has handed the P to another one, or to the idle ones.
    ProcHandedOff,
    /// The P was taken out of use, because there are fewer Ps now.
    ProcRetired,
    /// The P was taken from a green thread that runs on without it.
    Preempted {
        /// The green thread; 0 if that is not known.
        id: u64,
        /// True if it is in [`blocking`](../../runtime/fn.blocking.html), so the P was handed off as
        /// announced.
        declared: bool,
        /// True if it was blocked in the kernel.
        blocked: bool,
    },
    /// A green thread arms a timer: it sleeps, or waits with a deadline.
    TimerArmed {
        /// The green thread; 0 if that is not known.
        id: u64,
    },
    /// Timers have fired.
    TimersFired {
        /// How many.
        count: u16,
        /// How late the first of them was, in whole microseconds.
        late: Duration,
        /// The P that had the timers, if this P has stolen them.
        stolen_from: Option<usize>,
    },
    /// The network has woken green threads.
    NetworkPolled {
        /// How many.
        woken: u16,
    },
    /// A green thread enters [`blocking`](../../runtime/fn.blocking.html).
    BlockingBegins {
        /// The green thread.
        id: u64,
    },
    /// An OS thread has started.
    ThreadStarts,
    /// An OS thread ends.
    ThreadEnds,
    /// An OS thread without a P goes to sleep.
    ThreadParks,
    /// An OS thread was woken.
    ThreadWakes,
    /// An OS thread without a P begins to wait for the network and the timers.
    NetworkWaitBegins,
    /// It has stopped to wait.
    NetworkWaitEnds,
    /// A [task](fn.task.html) of the user begins.
    TaskBegins {
        /// The green thread.
        id: u64,
        /// The task. No other one has this number.
        task: u64,
        /// Its name, for [`Snapshot::text`](super::Snapshot::text).
        name: Text,
    },
    /// It ends.
    TaskEnds {
        /// The green thread.
        id: u64,
        /// The task.
        task: u64,
        /// Its name.
        name: Text,
    },
    /// A [region](fn.region.html) of the user begins.
    RegionBegins {
        /// The green thread.
        id: u64,
        /// Its name, for [`Snapshot::text`](super::Snapshot::text).
        name: Text,
    },
    /// It ends.
    RegionEnds {
        /// The green thread.
        id: u64,
        /// Its name.
        name: Text,
    },
    /// The green thread has other [labels](../../runtime/profile/fn.labels.html) from now on. This event has
    /// the new ones.
    LabelsChange {
        /// The green thread.
        id: u64,
    },
    /// The P has overwritten events before the [stream](fn.stream.html) has read them. What ran there is not
    /// known until the next event of the P. A snapshot has no such event: see
    /// [`Snapshot::lost`](super::Snapshot::lost).
    EventsLost {
        /// How many.
        count: u64,
    },
    /// The green thread has [logged](fn.log.html) a message.
    Logs {
        /// The green thread.
        id: u64,
        /// The category of the message.
        category: Text,
        /// The message. Its text is empty if it is older than the newest 4,096 messages.
        message: Text,
    },
}

/// Names a text of the user in a [`Snapshot`](super::Snapshot), which has it:
/// [`Snapshot::text`](super::Snapshot::text).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text(pub(super) Place);

/// The table of a text, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Name(u16),
    Message(u64),
}

/// What has made a green thread ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The code of this green thread.
    GreenThread(u64),
    /// A timer.
    Timer,
    /// The network.
    Network,
    /// A plain OS thread, or the scheduler.
    Other,
}

impl What {
    /// Returns the id of the green thread that the event is about, if it is about one.
    ///
    /// ```
    /// use runtime::trace::What;
    ///
    /// assert_eq!(What::Ends { id: 7 }.green_thread(), Some(7));
    /// assert_eq!(What::ProcIdle.green_thread(), None);
    /// ```
    pub fn green_thread(&self) -> Option<u64> {
        match *self {
            What::Spawned { id, .. }
            | What::Runs { id, .. }
            | What::Parks { id, .. }
            | What::Yields { id }
            | What::WaitsForProc { id }
            | What::Ends { id }
            | What::Ready { id, .. }
            | What::Stolen { id, .. }
            | What::Preempted { id, .. }
            | What::TimerArmed { id }
            | What::BlockingBegins { id }
            | What::LabelsChange { id }
            | What::TaskBegins { id, .. }
            | What::TaskEnds { id, .. }
            | What::RegionBegins { id, .. }
            | What::RegionEnds { id, .. }
            | What::Logs { id, .. } => Some(id).filter(|&id| id != 0),
            _ => None,
        }
    }
}
