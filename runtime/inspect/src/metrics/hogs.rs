//! `hogs`: the thread that reads what the scheduler notes of hogs and of late wake-ups, finds their stacks,
//! and calls the user.

use std::fmt;
use std::io;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Weak};
use std::thread as os;
use std::time::Duration;

use sched::{Hogging, Noted, Sched, starting};

use super::Rescue;
use super::notes::Notes;
use crate::host;
use crate::stacks::frame::Frame;
use crate::stacks::kept::{addresses_now, frames_at};

/// A green thread that has kept its P until the P was taken from it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hog {
    /// Which green thread, for how long, and whether it computed or was blocked.
    pub rescue: Rescue,
    /// Its stack a moment later, innermost call first. Empty without the feature `dump-stacks`, and if it had
    /// gone on by then. For a green thread that computed, empty in a program with an action of its own for
    /// SIGURG. For a blocked one, empty elsewhere than on x86-64.
    pub stack: Vec<Frame>,
}

impl fmt::Display for Hog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rescue { id, name, spawned_at, away, blocked, .. } = &self.rescue;
        write!(f, "green thread {id}")?;
        if let Some(name) = name {
            write!(f, " '{}'", name.escape_debug())?;
        }
        let did = match blocked {
            Some(true) => "blocked",
            Some(false) => "computed",
            None => "computed or blocked",
        };
        write!(f, " {did} for {away:?}, spawned at {spawned_at}")?;
        for frame in &self.stack {
            write!(f, "\n    {}", frame.function)?;
            if let (Some(file), Some(line)) = (&frame.file, frame.line) {
                write!(f, "\n        at {file}:{line}")?;
            }
        }
        Ok(())
    }
}

/// A green thread that ran a long time after it could have.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LateWake {
    /// The id of the green thread.
    pub id: u64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub spawned_at: String,
    /// How long it waited for a P after it was woken or spawned.
    pub late: Duration,
}

/// A function of the user's for reports.
type Call<R> = Arc<dyn Fn(&R) + Send + Sync>;

/// Functions of the user.
#[derive(Clone, Default)]
pub struct Calls {
    /// Is called for each hog.
    pub hog: Option<Call<Hog>>,
    /// Is called for each late wake-up.
    pub late: Option<Call<LateWake>>,
}

// Only the reader calls the functions, and it catches their panics.
impl UnwindSafe for Calls {}
impl RefUnwindSafe for Calls {}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

impl Calls {
    /// Returns `true` if a thread must read the notes.
    pub fn need_reader(&self) -> bool {
        cfg!(feature = "dump-stacks") || self.hog.is_some() || self.late.is_some()
    }
}

/// The thread that reads the notes of a runtime. The drop ends it.
pub struct Reader {
    notes: Arc<Notes>,
    thread: Option<os::JoinHandle<()>>,
}

/// Starts the thread, which reads `notes`, where the runtime leaves them (`Config::hogs`).
pub fn start_reader(sched: &Arc<Sched>, notes: Arc<Notes>, calls: Calls) -> io::Result<Reader> {
    let name = format!("{}-hogs", sched.config().thread_name);
    let weak = Arc::downgrade(sched);
    let reads = {
        let notes = notes.clone();
        move || read(&notes, &weak, &calls)
    };
    let thread = starting::start(os::Builder::new().name(name), reads)?;
    Ok(Reader { notes, thread: Some(thread) })
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if sched::fork::is_forked() {
            // The thread is not in this process.
            std::mem::forget(self.thread.take());
            return;
        }
        self.notes.close();
        // A call of the user's may drop the runtime, and a thread does not wait for itself.
        let thread = self.thread.take().filter(|thread| thread.thread().id() != os::current().id());
        // The panics of the user's functions were printed.
        let _ = thread.map(|thread| sched::park::blocking(|| thread.join()));
    }
}

fn read(notes: &Notes, sched: &Weak<Sched>, calls: &Calls) {
    while let Some(noted) = notes.next() {
        // The panic hook reports a panic; the next note is reported all the same.
        sched::contain(|| match noted {
            Noted::Hog(rescue, hogging) => {
                let Some(sched) = sched.upgrade() else { return };
                let addresses = look(&sched, &rescue, &hogging);
                drop(sched);
                if let Some(call) = &calls.hog {
                    call(&Hog { rescue, stack: frames_at(&addresses) });
                }
            }
            Noted::Late { id, name, place, late } => {
                if let Some(call) = &calls.late {
                    call(&LateWake { id, name, spawned_at: spawned_at(place), late });
                }
            }
        });
    }
}

/// Keeps the stack of a hog, and returns the addresses on it. Their names are looked up when a reader asks:
/// that takes memory, which a process at its limit does not have.
fn look(sched: &Arc<Sched>, rescue: &Rescue, hogging: &Hogging) -> Box<[usize]> {
    // Without the feature there is no unwinder, and no green thread is interrupted.
    let look = || sched.with_stack_of(hogging, addresses_now);
    let addresses = if cfg!(feature = "dump-stacks") { look() } else { None }.unwrap_or_default();
    if !addresses.is_empty() {
        host::last_stacks(sched)
            .inspect(|stacks| _ = stacks.0.lock().insert(rescue.spawned_at.clone(), addresses.clone()));
    }
    addresses
}

fn spawned_at(place: Option<&'static Location<'static>>) -> String {
    place.map(|place| format!("{}:{}", place.file(), place.line())).unwrap_or_default()
}

/// The hogs of one spawn place.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HogPlace {
    /// The place of the spawn; `None` for green threads that the runtime started for itself.
    pub place: Option<&'static Location<'static>>,
    /// Rescues of green threads that computed, or of which the system does not say what they did.
    pub computing: u64,
    /// Rescues of green threads that were blocked.
    pub blocked: u64,
    /// How long they had kept their Ps in all when these were taken. In JSON it is `away_ms`.
    pub away: Duration,
    /// The last stack that was copied after a rescue, innermost call first; empty if there is none.
    pub stack: Vec<Frame>,
}

/// Returns the hogs of all runtimes, those of one runtime after those of the other.
pub(crate) fn of_all() -> Vec<HogPlace> {
    Sched::all().iter().flat_map(|sched| hogs_of(sched)).collect()
}

/// Returns the hogs of a runtime by spawn place, the most frequent first.
pub fn hogs_of(sched: &Sched) -> Vec<HogPlace> {
    let stacks = host::last_stacks(sched).map(|stacks| stacks.0.lock().clone()).unwrap_or_default();
    let hogs = sched.rescues_by_place().into_iter().map(|at| {
        let stack =
            stacks.get(&spawned_at(at.place)).map(|addresses| frames_at(addresses)).unwrap_or_default();
        HogPlace { place: at.place, computing: at.computing, blocked: at.blocked, away: at.away, stack }
    });
    hogs.collect()
}
