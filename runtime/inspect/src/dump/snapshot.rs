//! The snapshot: the public types, and how they are made of what the scheduler has seen.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use sched::{Awaited, Does, Labels, Sched, SeenThread, StackCopy, Why};

use crate::metrics::hogs::{self, HogPlace};

use super::{Deadlock, Frame, Place};
use super::{deadlock, groups, text, tree};
use crate::stacks::frame;
use crate::stacks::kept::KEPT;
use crate::stacks::walk::Stacks;

/// What each green thread of the process did at the moment of a look.
///
/// [`Snapshot::take`] makes it. [`Display`](fmt::Display) writes it as [`dump()`](crate::dump::dump()) does.
/// The other forms are [`grouped`](Snapshot::grouped) and [`tree`](Snapshot::tree), and with the features
/// `dump-json` and `dump-pprof` `to_json` and `to_pprof`.
///
/// ```
/// use runtime::dump::{Snapshot, State};
///
/// runtime::block_on(|| {
///     let snapshot = Snapshot::take()?;
///     let me = snapshot.get(runtime::thread::current().id().as_u64().get()).unwrap();
///     assert_eq!(me.state, State::Running);
///     assert!(snapshot.to_string().ends_with("1 green thread\n"));
///     std::io::Result::Ok(())
/// })?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// The green threads of all runtimes, in the order of their ids.
    pub green_threads: Vec<GreenThread>,
    /// The stacks that differ. Each is a list of frames, the innermost first. Empty without the feature
    /// `dump-stacks`.
    pub stacks: Vec<Vec<Frame>>,
    /// Green threads that wait for each other. [`Snapshot::take`] leaves it empty;
    /// [`Snapshot::take_with_deadlocks`] fills it.
    pub deadlocks: Vec<Deadlock>,
    /// The green threads that have kept their Ps too long, by spawn place, with the last stack that is known:
    /// see [`metrics::hogs`](../../runtime/metrics/fn.hogs.html).
    pub hogs: Vec<HogPlace>,
    /// The ids of the plain OS threads that have used the runtime and live.
    pub(super) plain_threads: Vec<u64>,
}

/// One green thread in a [`Snapshot`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GreenThread {
    /// Its id, which no other thread of the process ever has.
    pub id: u64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What it did.
    pub state: State,
    /// What it waited for, if it waited.
    pub wait: Option<Wait>,
    /// Where it was spawned.
    pub spawned_at: Option<Place>,
    /// Its labels, by key: see `runtime::profile::labels`.
    pub labels: Vec<(String, String)>,
    /// The id of the green thread that spawned it. `None` if a plain OS thread or a timer did.
    pub parent: Option<u64>,
    /// The id of the green thread that waits for the end of this one in a
    /// [`scope`](../../runtime/fn.scope.html), if one waits.
    pub scope: Option<u64>,
    /// The name of the future's type, if the green thread runs a future and was found parked.
    pub future: Option<String>,
    /// Its stack: an index into [`Snapshot::stacks`]. `None` if it has none, or none is known.
    pub stack: Option<usize>,
    /// The stack of its spawner at the spawn: an index into [`Snapshot::stacks`]. `None` if it was not kept:
    /// see [`Builder::spawn_stacks`](../../runtime/struct.Builder.html#method.spawn_stacks).
    pub spawn_stack: Option<usize>,
    /// The shares of reader-writer locks that it has, if it was found parked: see
    /// [`waits::locks::UPGRADABLE_SHARE`].
    pub(super) shares: Vec<usize>,
    /// More about its wait for a reader-writer lock, if it was found parked in one.
    pub(super) line: Option<RwLine>,
}

/// What is known of a wait for a reader-writer lock beside its [`Object`].
#[derive(Clone, Copy, Debug)]
pub(super) struct RwLine {
    /// True if the green thread waits for the share that may be upgraded.
    pub(super) upgradable: bool,
    /// How many writers wait for the lock: green threads, futures and plain OS threads; `None` if that is not
    /// known.
    pub(super) writers: Option<usize>,
}

impl RwLine {
    fn of(awaited: &Awaited) -> Option<RwLine> {
        match *awaited {
            Awaited::RwLock { upgradable, writers, .. } => Some(RwLine { upgradable, writers }),
            _ => None,
        }
    }
}

/// What a [`GreenThread`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// It was in a run queue.
    Ready,
    /// It ran.
    Running,
    /// It waited.
    Waiting,
}

/// The wait of a [`GreenThread`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Wait {
    /// What kind of wait it is.
    pub reason: Reason,
    /// How long it had lasted, to within some milliseconds. In JSON it is `waited_ms`.
    pub waited: Duration,
    /// When its timer is due, from the moment of the look on. In JSON it is `due_in_ms`.
    pub due_in: Option<Duration>,
    /// True if time alone may end the wait: it has a deadline, or lies in
    /// [`Context::run`](../../runtime/context/struct.Context.html#method.run).
    pub may_end: bool,
    /// The number of the wait. Two snapshots with the same number show the same wait of the green thread.
    /// `None` if the green thread was about to wait or to go on.
    pub number: Option<u32>,
    /// What it waited for, as far as it is known.
    pub object: Option<Object>,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The kind of a [`Wait`]. Its [`Display`](fmt::Display) is in words, as in "waits for a mutex".
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[doc = $doc])* $name,)*
        }

        impl Reason {
            fn of(why: Why) -> Reason {
                match why {
                    $(Why::$name => Reason::$name,)*
                }
            }

            fn why(self) -> Why {
                match self {
                    $(Reason::$name => Why::$name,)*
                }
            }
        }
    };
}

reasons! {
    /// Something without a name.
    Something,
    /// A wake-up of the future that it runs.
    Future,
    /// The end of a sleep.
    Sleep,
    /// An unpark.
    Unpark,
    /// The end of a green thread.
    End,
    /// The end of a scope.
    Scope,
    /// A mutex.
    Mutex,
    /// A reader-writer lock.
    RwLock,
    /// A condition variable.
    Condvar,
    /// Something that is made once.
    Once,
    /// A semaphore.
    Semaphore,
    /// A notification.
    Notification,
    /// A barrier.
    Barrier,
    /// A wait group.
    WaitGroup,
    /// A channel, to send.
    Send,
    /// A channel, to receive.
    Receive,
    /// A case of a select.
    Select,
    /// A channel of time.
    Time,
    /// A socket.
    Socket,
    /// A lock or a condition of std (feature `interpose`).
    StdLock,
}

/// The object of a [`Wait`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Object {
    /// A [`Mutex`](../../runtime/sync/type.Mutex.html).
    #[non_exhaustive]
    Mutex {
        /// The address of its raw mutex.
        address: usize,
        /// True if a thread had it.
        locked: bool,
        /// The id of the thread that took it, if that was recorded: see
        /// [`Builder::track_locks`](../../runtime/struct.Builder.html#method.track_locks).
        holder: Option<u64>,
    },
    /// An [`RwLock`](../../runtime/sync/type.RwLock.html).
    #[non_exhaustive]
    RwLock {
        /// The address of its raw lock.
        address: usize,
        /// How many readers had it.
        readers: usize,
        /// True if a writer had it.
        writer: bool,
        /// The id of the writer, if that was recorded.
        holder: Option<u64>,
        /// The ids of the readers that waited themselves, if they were recorded as for [`Object::Mutex`].
        waiting_readers: Vec<u64>,
        /// True if the green thread waited to write.
        to_write: bool,
    },
    /// A green thread: the wait was for its end.
    #[non_exhaustive]
    GreenThread {
        /// Its id.
        id: u64,
    },
    /// A scope.
    #[non_exhaustive]
    Scope {
        /// The ids of its green threads that had not ended.
        green_threads: Vec<u64>,
    },
    /// A channel.
    #[non_exhaustive]
    Channel {
        /// Its address.
        address: usize,
        /// How many senders it had.
        senders: usize,
        /// How many receivers it had.
        receivers: usize,
        /// How many messages lay in it, about.
        messages: usize,
        /// How many messages it has room for; `None` if there is no limit.
        capacity: Option<usize>,
    },
    /// The cases of a select. A case about which nothing is known is `None`.
    #[non_exhaustive]
    Select {
        /// The cases, in any order.
        cases: Vec<Option<Object>>,
    },
    /// A descriptor of the system.
    #[non_exhaustive]
    Descriptor {
        /// Its number.
        fd: i64,
        /// The address of the socket on this side.
        local: Option<String>,
        /// The address with which it was connected.
        peer: Option<String>,
        /// True if the green thread waited for room to write, or for a connection; false if for something to
        /// read or to accept.
        to_write: bool,
    },
}

/// The time between the two looks that a deadlock needs. A green thread that runs would mostly have gone on
/// by then, so fewer suspicions are left for the second look. The result of that look is right in any case.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Waits between two looks. In a simulation nothing runs between them, so there is no wait.
fn rest_between_looks() {
    if !sched::simulation::is_here() {
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Returns copies of the stacks of the green threads that run, wait in place or are blocked, and whether each
/// was interrupted. The caller does not hold `KEPT`: the reader of hogs locks it during a capture.
fn stacks_of_running() -> HashMap<u64, (StackCopy, bool)> {
    let mut copies = HashMap::new();
    for sched in Sched::all() {
        sched.look_at_running(|id, copy, interrupted| _ = copies.insert(id, (copy.clone(), interrupted)));
    }
    copies
}

impl Snapshot {
    /// Looks at each green thread of the process. The green threads run on during the call, so the looks show
    /// slightly different moments.
    ///
    /// It may be called on any thread. It does not park its caller. [`dump()`](crate::dump::dump()) says what
    /// the looks cost.
    ///
    /// # Errors
    ///
    /// Returns an error of kind `Unsupported` in a [forked child](../../runtime/docs/fork/index.html).
    pub fn take() -> io::Result<Snapshot> {
        sched::park::blocking(Snapshot::take_here)
    }

    /// As `take`, on the calling OS thread.
    pub(super) fn take_here() -> io::Result<Snapshot> {
        let mut snapshot = Snapshot::look(true)?;
        snapshot.hogs = hogs::of_all();
        Ok(snapshot)
    }

    /// As `take_here`, without stacks.
    pub(crate) fn take_without_stacks() -> io::Result<Snapshot> {
        Snapshot::look(false)
    }

    fn look(with_stacks: bool) -> io::Result<Snapshot> {
        sched::fork::check()?;
        let has_stacks = with_stacks && cfg!(feature = "dump-stacks");
        // In a simulation only the caller runs. Other simulations do not count, and time-outs of a wait for
        // them would not end here.
        let looks = has_stacks && !sched::simulation::is_here();
        let mut running = if looks { stacks_of_running() } else { HashMap::new() };
        let mut kept = KEPT.lock();
        let mut unwinder = if with_stacks { Stacks::of_now(&mut kept) } else { None };
        let mut copy = unwinder.is_some().then(StackCopy::default);
        let (mut threads, mut known, mut stacks) =
            (Vec::new(), HashMap::<Box<[usize]>, usize>::new(), Vec::new());
        let tell = |mut seen: SeenThread, copy: Option<&StackCopy>| {
            let on_os_thread = if copy.is_none() { running.remove(&seen.id) } else { None };
            let await_stack = seen.parked.as_mut().map(|parked| std::mem::take(&mut parked.await_stack));
            let await_stack = await_stack.filter(|it| with_stacks && !it.is_empty());
            let addresses = unwinder.as_mut().and_then(|unwinder| match copy {
                Some(off_stack) => Some(unwinder.addresses(off_stack)),
                None => on_os_thread.map(|(copy, interrupted)| unwinder.addresses_of(&copy, interrupted)),
            });
            let mut index = |addresses: Box<[usize]>| {
                *known.entry(addresses).or_insert_with_key(|addresses| {
                    stacks.push(addresses.clone());
                    stacks.len() - 1
                })
            };
            let stack = await_stack.or(addresses).filter(|addresses| !addresses.is_empty()).map(&mut index);
            // Without an unwinder there are no names either.
            let spawn_stack = Some(std::mem::take(&mut seen.spawn_stack));
            let spawn_stack = spawn_stack.filter(|it| with_stacks && !it.is_empty()).map(index);
            threads.push(GreenThread { spawn_stack, ..GreenThread::of(seen, stack) });
        };
        let mut plain_threads = Vec::new();
        sched::look_at_all(copy.as_mut(), tell, |id| plain_threads.push(id))?;
        threads.sort_unstable_by_key(|thread| thread.id);
        let frames = |addresses: Box<[usize]>| {
            let frames = unwinder.as_mut().map(|unwinder| unwinder.frames(&addresses));
            frame::without_ours(frames.unwrap_or_default())
        };
        let stacks = stacks.into_iter().map(frames).collect();
        let mut snapshot = Snapshot { green_threads: threads, stacks, plain_threads, ..Snapshot::default() };
        snapshot.show_ids_of_simulation();
        snapshot.set_scopes();
        snapshot.set_readers();
        Ok(snapshot)
    }

    /// Returns the frames of the stack of `thread`, the innermost first; none if no stack is known.
    pub fn stack(&self, thread: &GreenThread) -> &[Frame] {
        thread.stack.and_then(|stack| self.stacks.get(stack)).map_or(&[], Vec::as_slice)
    }

    /// Returns the frames of the stack on which `thread` was spawned, the innermost first; none if they were
    /// not kept: see [`Builder::spawn_stacks`](../../runtime/struct.Builder.html#method.spawn_stacks).
    pub fn spawn_stack(&self, thread: &GreenThread) -> &[Frame] {
        thread.spawn_stack.and_then(|stack| self.stacks.get(stack)).map_or(&[], Vec::as_slice)
    }

    /// Returns the green thread with this id.
    pub fn get(&self, id: u64) -> Option<&GreenThread> {
        let found = self.green_threads.binary_search_by_key(&id, |thread| thread.id);
        found.ok().map(|index| &self.green_threads[index])
    }

    /// Returns the text in which green threads that do the same stand together: equal states, places of spawn
    /// and stacks. The largest group comes first.
    pub fn grouped(&self) -> String {
        groups::of(self)
    }

    /// Returns the text in which each green thread stands below the one that spawned it.
    pub fn tree(&self) -> String {
        tree::of(self)
    }

    /// Writes the text of the snapshot, as [`dump()`](crate::dump::dump()) does.
    ///
    /// # Errors
    ///
    /// Returns the errors of `w`.
    pub fn write(&self, w: &mut (impl Write + ?Sized)) -> io::Result<()> {
        w.write_all(self.to_string().as_bytes())
    }

    /// Sets which green threads belong to a scope that is waited for.
    fn set_scopes(&mut self) {
        let mut scopes = HashMap::new();
        for thread in &self.green_threads {
            if let Some(Object::Scope { green_threads }) = thread.object() {
                scopes.extend(green_threads.iter().map(|&member| (member, thread.id)));
            }
        }
        if !scopes.is_empty() {
            self.green_threads.iter_mut().for_each(|thread| thread.scope = scopes.get(&thread.id).copied());
        }
    }

    /// Sets which readers a wait for a reader-writer lock is for. The own upgradable share of a waiter does
    /// not count: the waiter upgrades it.
    fn set_readers(&mut self) {
        let mut readers: HashMap<usize, Vec<(u64, bool)>> = HashMap::new();
        for thread in &self.green_threads {
            for share in &thread.shares {
                let upgradable = share & waits::locks::UPGRADABLE_SHARE != 0;
                let address = share & !waits::locks::UPGRADABLE_SHARE;
                readers.entry(address).or_default().push((thread.id, upgradable));
            }
        }
        if readers.is_empty() {
            return;
        }
        for thread in &mut self.green_threads {
            let object = thread.wait.as_mut().and_then(|wait| wait.object.as_mut());
            if let Some(Object::RwLock { address, waiting_readers, .. }) = object {
                let known = readers.get(address).into_iter().flatten();
                let others = known.filter(|&&(id, upgradable)| id != thread.id || !upgradable);
                *waiting_readers = others.map(|&(id, _)| id).collect();
            }
        }
    }

    /// Takes a snapshot as [`take`](Snapshot::take) does, and looks for green threads that wait for each
    /// other. If one may have waited for the others before, it looks a second time after some milliseconds.
    /// It reports only what did not change in between.
    ///
    /// It blocks its OS thread for these milliseconds, as in [`blocking`](../../runtime/fn.blocking.html),
    /// and does not park its caller.
    ///
    /// # Errors
    ///
    /// Those of [`take`](Snapshot::take).
    pub fn take_with_deadlocks() -> io::Result<Snapshot> {
        sched::park::blocking(Snapshot::take_with_deadlocks_here)
    }

    /// As `take_with_deadlocks`, on the calling OS thread.
    pub(super) fn take_with_deadlocks_here() -> io::Result<Snapshot> {
        let first = Snapshot::take_here()?;
        if first.deadlocks_since(&first).is_empty() {
            return Ok(first);
        }
        rest_between_looks();
        let mut second = Snapshot::take_here()?;
        second.deadlocks = second.deadlocks_since(&first);
        Ok(second)
    }

    /// Returns the deadlocks that this snapshot and an `earlier` one both show.
    pub(super) fn deadlocks_since(&self, earlier: &Snapshot) -> Vec<Deadlock> {
        deadlock::find(earlier, self)
    }

    /// Returns the ids of the green threads in the snapshot.
    pub(super) fn ids(&self) -> HashSet<u64> {
        self.green_threads.iter().map(|thread| thread.id).collect()
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(self, f)
    }
}

impl GreenThread {
    fn of(seen: SeenThread, stack: Option<usize>) -> GreenThread {
        let (number, due_in, may_end, on, future, shares) = match seen.parked {
            Some(it) => (Some(it.number), it.due_in, it.may_end, it.on, it.future, it.shares),
            None => (None, None, false, None, None, Vec::new()),
        };
        let line = on.as_ref().and_then(RwLine::of);
        let (state, wait) = match seen.does {
            Does::Ready => (State::Ready, None),
            Does::Runs => (State::Running, None),
            Does::Waits { why, ms } => {
                let waited = Duration::from_millis(ms.into());
                let object = on.map(Object::of);
                (
                    State::Waiting,
                    Some(Wait { reason: Reason::of(why), waited, due_in, may_end, number, object }),
                )
            }
        };
        GreenThread {
            id: seen.id,
            name: seen.name.map(String::from),
            state,
            wait,
            spawned_at: seen.place.map(Place::of),
            labels: seen.labels.map(owned).unwrap_or_default(),
            parent: seen.parent,
            scope: None,
            future: future.map(str::to_owned),
            stack,
            spawn_stack: None,
            shares,
            line,
        }
    }

    /// Returns what it waited for, if that is known.
    pub(super) fn object(&self) -> Option<&Object> {
        self.wait.as_ref()?.object.as_ref()
    }
}

/// Returns a copy of each label.
fn owned(labels: Arc<Labels>) -> Vec<(String, String)> {
    labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

impl Object {
    fn of(awaited: Awaited) -> Object {
        match awaited {
            Awaited::Mutex { address, locked, holder } => Object::Mutex { address, locked, holder },
            Awaited::RwLock { address, readers, writer, holder, to_write, .. } => {
                Object::RwLock { address, readers, writer, holder, to_write, waiting_readers: Vec::new() }
            }
            Awaited::Thread { id } => Object::GreenThread { id },
            Awaited::Scope { threads } => Object::Scope { green_threads: threads },
            Awaited::Channel { address, senders, receivers, messages, capacity } => {
                Object::Channel { address, senders, receivers, messages, capacity }
            }
            Awaited::Select { cases } => {
                Object::Select { cases: cases.into_iter().map(|case| case.map(Object::of)).collect() }
            }
            Awaited::Descriptor { fd, local, peer, to_write } => {
                Object::Descriptor { fd, local, peer, to_write }
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why().words())
    }
}
