//! The flight recorder: records what the scheduler does in the last moments, cheaply enough to leave it on.
//! The page of `runtime::trace` says what users see.
//!
//! - `recording.rs`: starts, stops and collects.
//! - `merge.rs`: one order of the events of all rings. `event.rs`: what users see of an event.
//! - `timeline.rs`: slices of time, for `html.rs` and `perfetto.rs`, which write them.
//! - `user.rs`: the user's tasks, regions and messages.
//! - `trigger.rs`, `files.rs`: traces that are written by themselves.
//! - `perfetto/stream.rs`: all events, into files.

mod event;
mod files;
mod html;
mod merge;
#[cfg(feature = "perfetto")]
pub mod perfetto;
mod recording;
mod timeline;
#[doc(hidden)]
pub mod trigger;
mod user;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::panic::Location;
use std::path::Path;
use std::time::Duration;

use event::Place;
pub use event::{Cause, Event, Text, What};
use merge::Merge;
use recording::{Collected, Known};
use sched::user_events::Texts;
use timeline::Timeline;
pub use user::{log, region, task};

/// How many events the ring of a P has if the program does not say: a megabyte.
const EVENTS: usize = 1 << 16;

/// Starts a recording in all runtimes of the process, those to come included. Returns `false` if one is on
/// already. That recording goes on as it is until [`stop`], also if a request of the debug page has started
/// it.
///
/// The ring of each P has 65,536 places, which is 1 MiB; [`start_with`] takes another size. An earlier
/// recording is forgotten.
///
/// # Panics
///
/// Panics in a [forked child](../../runtime/docs/fork/index.html).
///
/// ```
/// assert!(runtime::trace::start());
/// assert!(!runtime::trace::start());
/// assert!(runtime::trace::stop());
/// ```
pub fn start() -> bool {
    start_with(EVENTS).unwrap_or_else(|error| panic!("{error}"))
}

/// As [`start`]. The ring of each P has places for `events` events or up to twice as many; an event has 16
/// bytes.
///
/// A ring that a P once had stays allocated as long as its runtime, and is used again by a recording of the
/// same size.
///
/// # Errors
///
/// `InvalidInput`: fewer than 64 or more than 16,777,216 events. `Unsupported`: this is a [forked
/// child](../../runtime/docs/fork/index.html).
///
/// ```
/// runtime::trace::start_with(1000)?;
/// assert!(runtime::trace::stop());
/// assert!(runtime::trace::start_with(1).is_err());
/// # std::io::Result::Ok(())
/// ```
pub fn start_with(events: usize) -> io::Result<bool> {
    recording::start(events)
}

/// Takes part in the recording, or starts one that lasts as long as such shares in it. If the program calls
/// [`start`] during that time, the recording is the program's, and goes on until [`stop`].
#[doc(hidden)]
pub fn share() -> io::Result<recording::Share> {
    recording::share(EVENTS)
}

/// Stops the recording. What it has recorded can be read until the next start. Returns `false` if none was
/// on.
///
/// ```
/// assert!(!runtime::trace::stop());
/// ```
pub fn stop() -> bool {
    recording::stop()
}

/// Returns `true` while a recording is on.
///
/// ```
/// assert!(!runtime::trace::is_on());
/// ```
pub fn is_on() -> bool {
    sched::recorder::is_on()
}

/// Returns what the current or the last recording has: the newest events of each P. Without a recording it is
/// empty.
///
/// The green threads go on during the call. An event that is overwritten while it is read is left out. An
/// event takes 120 to 150 ns and, until the end of this call, about 150 bytes; the snapshot keeps about 100.
/// The names of green threads come on top.
///
/// ```
/// assert!(runtime::trace::snapshot().events().is_empty());
/// ```
pub fn snapshot() -> Snapshot {
    let Some(collected) = sched::park::blocking(recording::collect) else { return Snapshot::default() };
    let Collected { tracks, ns, known: Known { names, mut places, labels }, texts } = collected;
    let (mut merge, mut lost) = (Merge::new(labels), 0);
    for track in tracks {
        lost += track.lost;
        merge.add(track);
    }
    let events = merge.take_until(u64::MAX);
    places.extend(merge.places);
    let duration = Duration::from_nanos(ns);
    Snapshot { events, runtimes: merge.runtimes, names, places, texts, lost, duration }
}

/// What was recorded; see [`snapshot`].
#[derive(Clone, Default)]
pub struct Snapshot {
    events: Vec<Event>,
    runtimes: Vec<String>,
    names: HashMap<u64, Box<str>>,
    places: HashMap<u64, &'static Location<'static>>,
    texts: Texts,
    lost: u64,
    duration: Duration,
}

impl Snapshot {
    /// Returns the events in order: causes come before effects, and times never go back.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the names of the recorded runtimes' OS threads, by [`Event::runtime`].
    pub fn runtimes(&self) -> &[String] {
        &self.runtimes
    }

    /// Returns the text that an event names: of a region, a task, a message or labels.
    ///
    /// ```
    /// use runtime::trace::{self, What};
    ///
    /// runtime::block_on(|| {
    ///     trace::start();
    ///     trace::region("db", || ());
    ///     let all = trace::snapshot();
    ///     trace::stop();
    ///     let is_db = |what| matches!(what, What::RegionEnds { name, .. } if all.text(name) == "db");
    ///     assert!(all.events().iter().any(|event| is_db(event.what)));
    /// });
    /// ```
    pub fn text(&self, text: Text) -> &str {
        self.message(text).unwrap_or_default()
    }

    /// As `text`; `None` if newer messages have the place of the text.
    fn message(&self, text: Text) -> Option<&str> {
        match text.0 {
            Place::Name(number) => Some(self.texts.name(number)),
            Place::Message(number) => self.texts.message(number),
        }
    }

    /// Returns the time from the start of the recording to this snapshot.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns how many older events were overwritten.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the name of a green thread, if it had one and it is known.
    pub fn name(&self, id: u64) -> Option<&str> {
        self.names.get(&id).map(|name| &**name)
    }

    /// Returns where a green thread was spawned, if that is known: it lives, or it was spawned during the
    /// recording.
    pub fn spawned_at(&self, id: u64) -> Option<&'static Location<'static>> {
        self.places.get(&id).copied()
    }

    /// Returns how exporters call a green thread: its name, or its id and where it was spawned.
    fn label(&self, id: u64) -> String {
        match (self.name(id), self.spawned_at(id)) {
            (Some(name), _) => format!("{} ({id})", name.escape_debug()),
            (None, Some(place)) => {
                let file = place.file().rsplit(['/', '\\']).next().unwrap_or_default();
                format!("green thread {id} ({file}:{})", place.line())
            }
            (None, None) => format!("green thread {id}"),
        }
    }

    /// Writes the trace as Perfetto reads it (protobuf): open the file at <https://ui.perfetto.dev>.
    ///
    /// It has a track for each P and for each OS thread. Slices are green threads by name, and arrows lead
    /// from the waker to the woken green thread. Needs the feature `perfetto`.
    ///
    /// # Errors
    ///
    /// Returns the errors of `w`.
    ///
    /// ```
    /// let mut bytes = Vec::new();
    /// runtime::trace::snapshot().write_perfetto(&mut bytes)?;
    /// # std::io::Result::Ok(())
    /// ```
    #[cfg(feature = "perfetto")]
    pub fn write_perfetto(&self, w: &mut impl Write) -> io::Result<()> {
        w.write_all(&perfetto::encode(self, &Timeline::of(self)))
    }

    /// Writes the last second of the trace as an HTML page that needs nothing else. It has a row for each P
    /// and each OS thread, the names of green threads, and arrows from wakers.
    ///
    /// # Errors
    ///
    /// Returns the errors of `w`.
    ///
    /// ```
    /// let mut page = Vec::new();
    /// runtime::trace::snapshot().write_html(&mut page)?;
    /// assert!(page.starts_with(b"<!doctype html>"));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn write_html(&self, w: &mut impl Write) -> io::Result<()> {
        html::write(self, &Timeline::of(self), w)
    }

    /// Writes the trace to a new file: as HTML if its name ends with `.html`, else as Perfetto reads it.
    ///
    /// Only the user of the process may read the file (mode 600 on Unix): a trace has names and places of the
    /// program.
    ///
    /// # Errors
    ///
    /// - `AlreadyExists`: there is a file or a symbolic link of this name. It is left as it is.
    /// - `Unsupported`: the file is not for HTML, and the feature `perfetto` is off.
    /// - Another kind: the error of the file system. A part of the trace may have been written.
    ///
    /// ```
    /// let path = std::env::temp_dir().join(format!("trace-{}.html", std::process::id()));
    /// runtime::trace::snapshot().save(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        check_format(path)?;
        sched::park::blocking(|| self.write_to(create_new(path)?, path))
    }

    /// Writes the trace to `file` in the format of a file called `path`, which `check_format` has checked.
    fn write_to(&self, file: File, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(file);
        match is_html(path) {
            true => self.write_html(&mut file)?,
            #[cfg(feature = "perfetto")]
            false => self.write_perfetto(&mut file)?,
            #[cfg(not(feature = "perfetto"))]
            false => unreachable!("`check_format` has refused it"),
        }
        file.flush()
    }
}

/// Creates a file that only this user may read. Follows no symbolic link.
///
/// # Errors
/// Returns the errors of the file system, `AlreadyExists` also for a symbolic link.
fn create_new(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn is_html(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html"))
}

/// Returns an error if a trace cannot be written to a file of this name.
fn check_format(path: &Path) -> io::Result<()> {
    if is_html(path) || cfg!(feature = "perfetto") {
        return Ok(());
    }
    let text = format!(
        "{}: without the feature `perfetto` of the runtime, a trace is written as HTML, to a file whose name ends with .html",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("runtimes", &self.runtimes)
            .field("events", &self.events.len())
            .field("lost", &self.lost)
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}
