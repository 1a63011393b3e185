//! A stream of events to files: a plain OS thread reads the rings before they are overwritten.
//!
//! - `files.rs`: the files.
//! - `parts.rs`: reads the rings part by part.
//! - `writer.rs`: from the rings to the bytes of a file.

mod files;
mod parts;
mod writer;

use std::ops::Range;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io, mem};

use sched::sync::{Condvar, Mutex};
use sched::{fork, simulation, starting, write_message};

use crate::trace::{EVENTS, recording};
use files::{Files, Limits};
use writer::Writer;

/// The longest and the shortest time between two reads of the rings.
const LONGEST: Duration = Duration::from_millis(100);
const SHORTEST: Duration = Duration::from_millis(1);
/// How many events a part is to have. A larger part takes a processor for longer at a time: with up to 2,000
/// events, and larger first parts, woken threads waited for up to three milliseconds.
const WANTED: Range<usize> = 100..400;
/// The time after which a stream that could not write tries again.
const PAUSE: Duration = Duration::from_secs(1);
/// The smallest file, and the shortest age, that a program may ask for.
const LEAST_BYTES: u64 = 64 << 10;
const LEAST_AGE: Duration = Duration::from_millis(100);

/// Prepares a stream of all events of the scheduler into files in `folder`, for as long as the program runs.
/// [`StreamBuilder::start`] starts it.
///
/// A [`snapshot`](crate::trace::snapshot) has the last moments only, because the rings are overwritten. A
/// stream reads the rings all the time. So the files show also what happened minutes ago, and after a crash
/// what came before it. Each file can be opened alone, at <https://ui.perfetto.dev>. Needs the feature
/// `perfetto`.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("stream-example-{}", std::process::id()));
/// use std::time::Duration;
///
/// let stream = runtime::trace::stream(&folder)
///     .max_file_bytes(16 << 20)
///     .max_file_age(Duration::from_secs(60))
///     .keep(20)
///     .start()?;
/// runtime::block_on(|| runtime::spawn(|| runtime::yield_now()).join().unwrap());
/// stream.finish()?;
/// # std::fs::remove_dir_all(&folder)?;
/// # std::io::Result::Ok(())
/// ```
pub fn stream(folder: impl AsRef<Path>) -> StreamBuilder {
    let limits = Limits { max_file_bytes: 64 << 20, max_file_age: Duration::from_secs(600), keep: 10 };
    StreamBuilder { folder: folder.as_ref().to_path_buf(), events: EVENTS, limits }
}

/// The settings of a [`stream`].
#[derive(Clone, Debug)]
#[must_use = "`start` starts the stream"]
pub struct StreamBuilder {
    folder: PathBuf,
    events: usize,
    limits: Limits,
}

impl StreamBuilder {
    /// Sets how many events the ring of each P has: 65,536 unless said otherwise. See
    /// [`start_with`](crate::trace::start_with). A recording that is on already keeps its rings.
    ///
    /// ```
    /// let _ = runtime::trace::stream("/tmp/traces").events(1 << 18);
    /// ```
    pub fn events(mut self, events: usize) -> StreamBuilder {
        self.events = events;
        self
    }

    /// Sets how many bytes a file has at most, and then some for the events since the last write. Default: 64
    /// MiB.
    ///
    /// ```
    /// let _ = runtime::trace::stream("/tmp/traces").max_file_bytes(1 << 20);
    /// ```
    pub fn max_file_bytes(mut self, bytes: u64) -> StreamBuilder {
        self.limits.max_file_bytes = bytes;
        self
    }

    /// Sets for how long a file is written. Default: ten minutes.
    ///
    /// ```
    /// let _ = runtime::trace::stream("/tmp/traces").max_file_age(std::time::Duration::from_secs(60));
    /// ```
    pub fn max_file_age(mut self, age: Duration) -> StreamBuilder {
        self.limits.max_file_age = age;
        self
    }

    /// Sets how many files of streams the folder has at most, the current one included. Default: 10. Older
    /// ones are removed, also those of earlier processes. So two processes use two folders.
    ///
    /// ```
    /// let _ = runtime::trace::stream("/tmp/traces").keep(100);
    /// ```
    pub fn keep(mut self, files: usize) -> StreamBuilder {
        self.limits.keep = files;
        self
    }

    /// Starts a recording, unless one is on, and the stream. Creates the folder, unless it is there, and the
    /// first file in it. Only the user of the process may read the files, and a folder that it creates.
    ///
    /// The names of the files begin with `stream-`, and later files have greater names. Tasks, regions and
    /// slices that are open at the end of a file end there, and go on in the next. An OS thread of the stream
    /// writes up to ten times a second, and more often if there is much to write. If the process is killed, the
    /// file lacks the last tenth of a second; a reader sees which slices were open.
    ///
    /// An event costs the program what it costs in any recording, and the thread of the stream takes a part of
    /// a processor. If that thread cannot keep up, the Ps do not wait: events are overwritten, the file says
    /// where and how many, and [`Stream::lost`] counts them. Between two reads, the texts of the newest 4,096
    /// messages are kept.
    ///
    /// If a file cannot be written, a line on standard error says why. The stream tries again each second,
    /// with a new file; what comes in between is not written.
    ///
    /// May be called on any thread, also outside of a runtime. Several streams may be on.
    ///
    /// # Errors
    ///
    /// - `InvalidInput`: a number of events that [`start_with`](crate::trace::start_with) does not allow, files
    ///   of less than 64 KiB or 100 ms, or no file to keep.
    /// - `Unsupported`: this is a [forked child](../../runtime/docs/fork/index.html) or a simulation.
    /// - Another kind: the folder or the first file cannot be created, or no OS thread can be started.
    ///
    /// ```
    /// let none = runtime::trace::stream("/tmp/traces").keep(0).start();
    /// assert_eq!(none.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    pub fn start(self) -> io::Result<Stream> {
        self.check()?;
        let share = recording::share(self.events)?;
        let files = sched::park::blocking(|| Files::create(&self.folder, self.limits))?;
        let shared = Arc::new(Shared::default());
        let write = {
            let shared = shared.clone();
            let mut writer = Writer::new(files);
            move || {
                // The recording lasts as long as the stream.
                let _share = share;
                write_all(&shared, &mut writer);
            }
        };
        let thread = starting::start(thread::Builder::new().name("trace-stream".into()), write)?;
        Ok(Stream { shared, thread: Some(thread) })
    }

    fn check(&self) -> io::Result<()> {
        let wrong = |text: &str| {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("a stream of events: {text}")))
        };
        if self.limits.max_file_bytes < LEAST_BYTES {
            return wrong("a file has 64 KiB at least");
        }
        if self.limits.max_file_age < LEAST_AGE {
            return wrong("a file is written for 100 ms at least");
        }
        if self.limits.keep == 0 {
            return wrong("at least one file is kept");
        }
        if simulation::is_here() {
            let text = "a stream of events is not simulated: take a `trace::snapshot` in the simulation";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(())
    }
}

/// A stream of events into files; see [`stream()`]. The drop ends it as [`finish`](Stream::finish) does, and
/// forgets the error.
#[must_use = "the stream ends with this value"]
pub struct Stream {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread of a stream shares with its handle.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when `ends` is set.
    changed: Condvar,
    lost: AtomicU64,
}

#[derive(Default)]
struct State {
    ends: bool,
    /// Why the last write has failed; `None` after one that succeeded.
    error: Option<io::Error>,
}

// A panic leaves nothing half changed: each section under the lock is one assignment.
impl UnwindSafe for Stream {}
impl RefUnwindSafe for Stream {}

impl Stream {
    /// Writes what was recorded until now, closes the file, and ends the stream. The recording ends, unless
    /// the program has started it, or others need it. Parks the green thread until the file is written; a
    /// cancellation does not interrupt that.
    ///
    /// # Errors
    ///
    /// - The error of the last write, if it has failed.
    /// - `Unsupported`: this is a [forked child](../../runtime/docs/fork/index.html), which has no such
    ///   thread.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("stream-finish-{}", std::process::id()));
    /// let stream = runtime::trace::stream(&folder).start()?;
    /// stream.finish()?;
    /// assert_eq!(std::fs::read_dir(&folder)?.count(), 1);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn finish(mut self) -> io::Result<()> {
        fork::check()?;
        if let Some(Err(_)) = self.end() {
            return Err(io::Error::other(
                "the thread of a stream of events has panicked: its message says why",
            ));
        }
        self.shared.state.lock().error.take().map_or(Ok(()), Err)
    }

    /// Returns how many events were overwritten before the stream has read them. A larger ring has room for
    /// more: [`StreamBuilder::events`].
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("stream-lost-{}", std::process::id()));
    /// let stream = runtime::trace::stream(&folder).start()?;
    /// assert_eq!(stream.lost(), 0);
    /// # drop(stream);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Relaxed)
    }

    /// Ends the thread, if it is there, and returns what it has returned.
    fn end(&mut self) -> Option<thread::Result<()>> {
        let thread = self.thread.take()?;
        if fork::is_forked() {
            // The thread is not in this process. It may have held the lock at the fork.
            mem::forget(thread);
            return None;
        }
        self.shared.state.lock().ends = true;
        self.shared.changed.notify_all();
        Some(sched::park::blocking(|| thread.join()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // A panic of the thread was printed when it happened.
        let _ = self.end();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("lost", &self.lost()).finish_non_exhaustive()
    }
}

/// Writes what is recorded until the stream ends.
fn write_all(shared: &Shared, writer: &mut Writer) {
    // The first parts are small, too, if there is much to write.
    let (mut pause, mut failed, mut has_ended) = (SHORTEST, None::<Instant>, false);
    while !has_ended {
        has_ended = sched::at_rest(|| ends(shared, pause));
        let may_write = has_ended || failed.is_none_or(|at| at.elapsed() >= PAUSE);
        let round = writer.round(has_ended, may_write);
        shared.lost.fetch_add(round.lost, Relaxed);
        pause = match round.events {
            _ if round.lost > 0 => pause / 8,
            events if events >= WANTED.end => pause / 2,
            events if events < WANTED.start => pause * 2,
            _ => pause,
        };
        pause = pause.clamp(SHORTEST, LONGEST);
        match round.written {
            Some(Ok(())) => {
                failed = None;
                shared.state.lock().error = None;
            }
            Some(Err(error)) => {
                failed = Some(Instant::now());
                note_error(shared, error);
            }
            None => {}
        }
    }
}

/// Waits for `pause`, or for the end of the stream. Returns `true` if it ends.
fn ends(shared: &Shared, pause: Duration) -> bool {
    let mut state = shared.state.lock();
    if !state.ends {
        shared.changed.wait_for(&mut state, pause);
    }
    state.ends
}

/// Notes why a write has failed. Says so, unless the write before has failed for the same reason.
fn note_error(shared: &Shared, error: io::Error) {
    let mut state = shared.state.lock();
    let text = error.to_string();
    let is_new = state.error.replace(error).is_none_or(|before| before.to_string() != text);
    drop(state);
    if is_new {
        write_message(format_args!(
            "runtime: a stream of events cannot be written: {text}; events are left out until it can"
        ));
    }
}
