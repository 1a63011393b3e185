//! A snapshot as text: a line for each green thread, below it the frames of its stack, and the deadlocks at
//! the end.

use std::fmt::{self, Display, Formatter, Write};
use std::time::Duration;

use super::{Frame, GreenThread, Object, Snapshot, State, Wait};
use crate::metrics::HogPlace;

pub(super) fn write(snapshot: &Snapshot, f: &mut Formatter<'_>) -> fmt::Result {
    for thread in &snapshot.green_threads {
        writeln!(f, "{}", Line { snapshot, thread })?;
        snapshot.stack(thread).iter().try_for_each(|frame| writeln!(f, "{}", Indented(frame)))?;
        write_spawn_stack(f, snapshot.spawn_stack(thread))?;
    }
    for hog in &snapshot.hogs {
        write_hog(f, hog)?;
    }
    for deadlock in &snapshot.deadlocks {
        writeln!(f, "{deadlock}")?;
    }
    writeln!(f, "{}", count(snapshot.green_threads.len()))
}

/// Writes the stack on which a green thread was spawned, if it is known.
fn write_spawn_stack(f: &mut Formatter<'_>, frames: &[Frame]) -> fmt::Result {
    if !frames.is_empty() {
        writeln!(f, "  spawned by")?;
    }
    frames.iter().try_for_each(|frame| writeln!(f, "{}", Indented(frame)))
}

/// Writes how often green threads of one place were hogs, and the last stack that is known.
fn write_hog(f: &mut Formatter<'_>, hog: &HogPlace) -> fmt::Result {
    let (times, place) = (hog.computing + hog.blocked, hog.place.map(ToString::to_string));
    write!(f, "hogs spawned at {}: kept a P too long ", place.as_deref().unwrap_or("no known place"))?;
    write!(f, "{times} time{}", if times == 1 { "" } else { "s" })?;
    writeln!(f, " ({} computing, {} blocked), {} in all", hog.computing, hog.blocked, InWords(hog.away))?;
    hog.stack.iter().try_for_each(|frame| writeln!(f, "{}", Indented(frame)))
}

/// Returns the number in words: "2 green threads".
pub(super) fn count(n: usize) -> String {
    format!("{n} green thread{}", if n == 1 { "" } else { "s" })
}

/// The line of one green thread.
pub(super) struct Line<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) thread: &'s GreenThread,
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Line { snapshot, thread } = self;
        write!(f, "{}: {}", Named::of(thread), thread.state)?;
        if let Some(wait) = &thread.wait {
            write!(f, " for {}, for {}", wait.reason, InWords(wait.waited))?;
            write_object(f, snapshot, wait)?;
        }
        if let Some(future) = &thread.future {
            write!(f, ", runs {future}")?;
        }
        if let Some(place) = thread.spawned_at {
            write!(f, ", spawned at {place}")?;
        }
        thread.parent.map_or(Ok(()), |parent| write!(f, " by {parent}"))?;
        write_labels(f, &thread.labels)
    }
}

/// Writes labels as `, labels: {"route": "/x"}`; nothing if there are none. `Debug` escapes them as
/// [`Named`] does.
pub(super) fn write_labels(f: &mut impl Write, labels: &[(String, String)]) -> fmt::Result {
    for (i, (key, value)) in labels.iter().enumerate() {
        write!(f, "{}{key:?}: {value:?}", if i == 0 { ", labels: {" } else { ", " })?;
    }
    f.write_str(if labels.is_empty() { "" } else { "}" })
}

impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Ready => "ready to run",
            State::Running => "running",
            State::Waiting => "waits",
        })
    }
}

/// A green thread by id and name: `green thread 7 'reader'`. The name is escaped, because a name may come
/// from a request: line breaks would forge lines, and escape sequences reach the terminal.
pub(super) struct Named<'s> {
    pub(super) id: u64,
    pub(super) name: Option<&'s str>,
}

impl<'s> Named<'s> {
    pub(super) fn of(thread: &'s GreenThread) -> Named<'s> {
        Named { id: thread.id, name: thread.name.as_deref() }
    }
}

impl Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "green thread {}", self.id)?;
        self.name.map_or(Ok(()), |name| write!(f, " '{}'", name.escape_debug()))
    }
}

/// Writes what the wait is for, in brackets; nothing if that is not known.
fn write_object(f: &mut Formatter<'_>, snapshot: &Snapshot, wait: &Wait) -> fmt::Result {
    if let Some(object) = &wait.object {
        write!(f, " ({})", Described { snapshot, object })?;
    }
    wait.due_in.map_or(Ok(()), |due| write!(f, ", due in {}", InWords(due)))
}

/// An object in words.
pub(super) struct Described<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) object: &'s Object,
}

impl Described<'_> {
    /// Writes a thread by its id. A thread that is not in the snapshot has ended, or is a plain OS thread.
    fn thread(&self, id: u64) -> String {
        let found = self.snapshot.get(id);
        found.map_or_else(|| format!("thread {id}"), |thread| Named::of(thread).to_string())
    }
}

impl Display for Described<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let s = |n: &usize| if *n == 1 { "" } else { "s" };
        match self.object {
            Object::Mutex { address, locked, holder } => {
                write!(f, "{address:#x}")?;
                match holder {
                    Some(holder) => write!(f, ", held by {}", self.thread(*holder)),
                    None => f.write_str(if *locked { ", locked" } else { ", free" }),
                }
            }
            Object::RwLock { address, readers, writer, holder, to_write, waiting_readers } => {
                write!(f, "{address:#x} to {}", if *to_write { "write" } else { "read" })?;
                match (holder, writer) {
                    (Some(holder), _) => write!(f, ", held by {}", self.thread(*holder)),
                    (None, true) => f.write_str(", held by a writer"),
                    (None, false) => {
                        write!(f, ", held by {readers} reader{}", s(readers))?;
                        for (i, reader) in waiting_readers.iter().enumerate() {
                            write!(f, "{} {}", if i == 0 { ":" } else { "," }, self.thread(*reader))?;
                        }
                        Ok(())
                    }
                }
            }
            Object::GreenThread { id } => f.write_str(&self.thread(*id)),
            Object::Scope { green_threads } => write!(f, "{} left", count(green_threads.len())),
            Object::Channel { address, senders, receivers, messages, capacity } => {
                write!(
                    f,
                    "{address:#x}, {senders} sender{}, {receivers} receiver{}",
                    s(senders),
                    s(receivers)
                )?;
                match capacity {
                    Some(0) => Ok(()),
                    Some(capacity) => write!(f, ", {messages} of {capacity} message{}", s(capacity)),
                    None => write!(f, ", {messages} message{}", s(messages)),
                }
            }
            Object::Select { cases } => {
                for (i, case) in cases.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { "; " })?;
                    match case {
                        Some(object) => Described { snapshot: self.snapshot, object }.fmt(f)?,
                        None => f.write_str("another event")?,
                    }
                }
                Ok(())
            }
            Object::Descriptor { fd, local, peer, to_write } => {
                write!(f, "descriptor {fd} to {}", if *to_write { "write" } else { "read" })?;
                match (local, peer) {
                    (Some(local), Some(peer)) => write!(f, ", {local} to {peer}"),
                    (Some(local), None) => write!(f, ", {local}"),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// A duration, to within some ms.
pub(super) struct InWords(pub(super) Duration);

impl Display for InWords {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            ms @ 0..1000 => write!(f, "{ms} ms"),
            ms => write!(f, "{} s", ms / 1000),
        }
    }
}

/// A frame in two lines.
pub(super) struct Indented<'f>(pub(super) &'f Frame);

impl Display for Indented<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "    {}", self.0.function)?;
        match (&self.0.file, self.0.line) {
            (Some(file), Some(line)) => write!(f, "\n        at {file}:{line}"),
            _ => Ok(()),
        }
    }
}
