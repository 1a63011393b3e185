//! Hogs: reports of green threads that kept their P until sysmon took it, with their stacks, and of wake-ups
//! that came late.
//!
//! ```text
//!   sysmon, or the M that gives its P up       a plain OS thread of `runtime`            the M's thread
//!   take the P; count it (`run/rescue.rs`)     next_hog: wait for a note
//!   note: a line in the queue, notify     ───> ask the M of the hog, and signal it  ───> the handler copies registers and stack
//!                                              unwind the copy, find the names,     <───
//!                                              tell the user
//! ```
//!
//! Neither sysmon nor the handler allocates stacks, unwinds or runs code of the user. Notes are rare: one a
//! second for each spawn place, and `MOST_NOTES` a second in all. At most `MOST_WAITING` wait. Other rescues
//! are only counted.
//!
//! The handler copies only if the same green thread still runs without its P, on its own stack, whose bounds
//! the runtime knows.
//!
//! A hog that is blocked in the kernel gets no signal, because that would interrupt its system call. The
//! kernel says where it is blocked, and copies its stack. Such a copy counts only if the OS thread stayed
//! blocked (`sys::BlockedAt`).
//!
//! A dump asks in the same way for the stacks of the green threads that run at that moment, or wait in place
//! (`look_at_running`).

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::g::GRef;
use crate::g::binding::Binding;
use crate::m::capture::Capture;
use crate::m::service::ServiceThread;
use crate::m::{M, MRef};
use crate::p::lease::Seen;
use crate::run::crowd;
use crate::run::rescue::{Rescue, RescuesAt};
use crate::run::sched::Sched;
use crate::stack::saved::StackCopy;
use crate::sync::{Condvar, Mutex};
use crate::sys::preempt::{self, Registers};
use crate::sys::{self, Doing};

/// The most notes in a second.
const MOST_NOTES: u32 = 10;
/// The most notes that wait for the reader, whose function may block. Further rescues are only counted.
const MOST_WAITING: usize = 64;
/// How long the reader waits for the handler.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a dump waits for it. It asks one M after the other.
const PATIENCE_OF_DUMPS: Duration = Duration::from_millis(20);

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

/// What the reader is told.
pub enum Noted {
    /// A rescue, and where to find the green thread.
    Hog(Rescue, Hogging),
    /// A wake-up that came late.
    Late(LateWake),
}

/// A green thread that runs without its P.
#[derive(Clone, Copy)]
pub struct Hogging {
    m: MRef,
    g: GRef,
    id: u64,
    /// The word by which it had lent its P, while it has not entered the runtime since. `None` for one that
    /// waits for a P in place.
    lent: Option<Seen>,
    /// True if a signal may interrupt it: no system call of the user's ends by that.
    computes: bool,
}

impl Hogging {
    pub(crate) fn new(m: &M, g: GRef, lent: Option<Seen>, computes: bool) -> Self {
        Hogging { m: MRef::new(m), g, id: g.id(), lent, computes }
    }

    /// Returns `true` if the green thread still runs as it did. *Runs on: any thread.*
    fn is_still_there(&self, m: &M) -> bool {
        let same = m.running().is_some_and(|g| ptr::eq(g, self.g) && g.id() == self.id);
        same && self.lent.is_none_or(|lent| m.lender.has_lent(lent))
    }
}

impl Hogging {
    /// Copies the stack of the green thread if its OS thread is blocked in the kernel. Returns `false` if it
    /// is not, or did not stay so.
    fn copy_blocked(&self, copy: &mut StackCopy) -> bool {
        // On Arm the link register is not known, which the innermost function may need.
        if cfg!(not(target_arch = "x86_64")) {
            return false;
        }
        let (m, tid) = (self.m.m(), self.m.m().tid());
        let Some(at) = sys::blocked_at(tid) else { return false };
        // While the thread is blocked, neither what it runs nor the stack changes.
        self.is_still_there(m) && copy.fill_blocked(self.g, at.pc, at.sp) && sys::blocked_at(tid) == Some(at)
    }
}

/// What the handler fills.
struct Copied {
    whose: Option<Hogging>,
    stack: StackCopy,
}

/// The notes of one runtime's hogs and late wake-ups, for their reader.
pub struct Hogs {
    /// False if no thread reads the notes.
    wanted: bool,
    queue: Mutex<Queue>,
    came: Condvar,
    capture: Capture<Copied>,
    /// Held by the thread that asks for a capture.
    asking: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    notes: VecDeque<Noted>,
    /// How many notes came in the second that began then.
    second: Option<(Instant, u32)>,
    closed: bool,
    reader: ServiceThread,
}

impl Hogs {
    pub(crate) fn new(wanted: bool) -> Self {
        let copied = Copied { whose: None, stack: StackCopy::empty() };
        let (queue, came, asking) = (Mutex::default(), Condvar::new(), Mutex::default());
        Hogs { wanted, queue, came, capture: Capture::new(copied), asking }
    }

    /// Tells the reader, unless there were many notes in this second, or many wait. *Runs on: any thread; the
    /// lock is held for some instructions.*
    pub(crate) fn note(&self, noted: impl FnOnce() -> Noted) {
        if !self.wanted || !self.queue.lock().has_room() {
            return;
        }
        let noted = noted();
        self.queue.lock().push(noted);
        self.came.notify_one();
    }

    /// Waits for the next note; returns `None` after `close`. While it waits, the reader hides no deadlock.
    /// *Runs on: the reader.*
    pub fn next(&self) -> Option<Noted> {
        let mut queue = self.queue.lock();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(noted) = queue.notes.pop_front() {
                return Some(noted);
            }
            queue.reader.count_asleep();
            self.came.wait(&mut queue);
        }
    }

    /// Ends the reader.
    pub fn close(&self) {
        self.queue.lock().close();
        self.came.notify_all();
    }

    /// Copies the stack of `m`'s green thread if the reader has asked for it. *Runs on: `m`, in the handler
    /// of the signal: it allocates nothing and takes no lock.*
    pub(crate) fn fill(&self, m: &M, registers: &Registers) {
        let filled = self.capture.fill(m.number, |copied| {
            let still = copied.whose.is_some_and(|whose| whose.is_still_there(m));
            // SAFETY: the green thread runs on this thread, which is interrupted and so uses neither the
            // stack nor the coroutine.
            still && m.running().is_some_and(|g| unsafe { copied.stack.fill_running(g.coro(), registers) })
        });
        if filled {
            self.capture.wake_reader(preempt::wake);
        }
    }
}

/// Returns `true` if a signal ends no system call of the user's on `m`, which runs `g`: the G computes, is
/// the caller, or waits in place, which goes on after a signal. *Runs on: any thread.*
fn may_interrupt(m: &M, g: GRef) -> bool {
    let (in_place, mine) = (g.binding.get() == Binding::InPlace, m.tid() == sys::thread_id());
    in_place || mine || sys::doing(m.tid()) == Doing::Computing
}

impl Queue {
    fn push(&mut self, noted: Noted) {
        self.reader.count_awake();
        self.notes.push_back(noted);
    }

    fn close(&mut self) {
        self.reader.count_awake();
        self.closed = true;
    }

    /// Counts a note. Returns `false` if there were too many in this second, or too many wait.
    fn has_room(&mut self) -> bool {
        if self.notes.len() >= MOST_WAITING {
            return false;
        }
        let now = Instant::now();
        let (began, before) =
            self.second.filter(|(began, _)| now - *began < Duration::from_secs(1)).unwrap_or((now, 0));
        self.second = Some((began, before + 1));
        before < MOST_NOTES
    }
}

impl Sched {
    /// Returns what tells of hogs.
    pub fn hogs(&self) -> &Arc<Hogs> {
        &self.hogs
    }

    /// Calls `read` with a copy of the stack of `hogging`, if it can be had, and says whether it was
    /// interrupted. *Runs on: the reader.*
    pub fn with_stack_of<R>(&self, hogging: &Hogging, read: impl FnOnce(&StackCopy, bool) -> R) -> Option<R> {
        if hogging.computes {
            return self.capture(hogging, PATIENCE, |copy| read(copy, true));
        }
        let mut copy = StackCopy::default();
        hogging.copy_blocked(&mut copy).then(|| read(&copy, false))
    }

    /// Calls `tell` with the id and a copy of the stack of each green thread that computes now, waits in
    /// place, or is blocked in a system call. The flag is `true` if a signal interrupted the G for the copy.
    /// A G that is blocked in a system call is copied without a signal. *Runs on: any thread.*
    pub fn look_at_running(&self, mut tell: impl FnMut(u64, &StackCopy, bool)) {
        let mut blocked = StackCopy::default();
        let ms: Vec<MRef> = self.threads.lock().all().iter().map(|m| MRef::new(m)).collect();
        for m in ms.iter().map(MRef::m) {
            let Some(g) = m.running().filter(|_| m.tid() != 0) else { continue };
            let hogging = Hogging::new(m, g, None, may_interrupt(m, g));
            if hogging.computes {
                self.capture(&hogging, PATIENCE_OF_DUMPS, |copy| tell(hogging.id, copy, true));
            } else if hogging.copy_blocked(&mut blocked) {
                tell(hogging.id, &blocked, false);
            }
        }
    }

    /// Calls `read` with a copy of the stack of `hogging`, unless the M does not answer within `patience`.
    /// *Runs on: any thread.*
    fn capture<R>(
        &self,
        hogging: &Hogging,
        patience: Duration,
        read: impl FnOnce(&StackCopy) -> R,
    ) -> Option<R> {
        let (m, capture) = (hogging.m.m(), &self.hogs.capture);
        let here = || hogging.is_still_there(m) && m.tid() != 0;
        if !hogging.computes || !here() || !crowd::watches_signal() {
            return None;
        }
        let _one = self.hogs.asking.lock();
        capture.ask(m.number, |copied| {
            copied.whose = Some(*hogging);
            copied.stack.make_room();
        });
        preempt::interrupt(m.tid());
        let end = Instant::now() + patience;
        let wait = |word: &_, value| {
            let left = end.saturating_duration_since(Instant::now());
            preempt::sleep_while(word, value, left.min(Duration::from_millis(10)));
            !left.is_zero()
        };
        capture.read(m.number, wait, |copied| read(&copied.stack))
    }

    /// Tells the reader of a rescue that is to be reported. *Runs on: sysmon, or the M that gives its P up.*
    pub(crate) fn note_hog(
        &self,
        rescue: Option<(GRef, Rescue)>,
        m: Option<&M>,
        lent: Option<Seen>,
        computes: bool,
    ) {
        if let Some(((g, rescue), m)) = rescue.zip(m) {
            self.hogs.note(|| Noted::Hog(rescue, Hogging::new(m, g, lent, computes)));
        }
    }

    /// Returns the rescues by spawn place, the most frequent first.
    pub fn rescues_by_place(&self) -> Vec<RescuesAt> {
        self.rescues.by_place()
    }

    /// Tells the reader that `g` ran `waited` ns after it could have, if that is too late. *Runs on: the M
    /// that runs `g`.*
    pub(crate) fn judge_wake(&self, g: GRef, waited: u64) {
        let Some(bound) = self.config.late_wake else { return };
        let late = Duration::from_nanos(waited);
        if late >= bound {
            self.hogs.note(|| {
                Noted::Late(LateWake {
                    id: g.id(),
                    name: g.name().map(Into::into),
                    spawned_at: g.place().map(|p| format!("{}:{}", p.file(), p.line())).unwrap_or_default(),
                    late,
                })
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late() -> Noted {
        Noted::Late(LateWake { id: 1, name: None, spawned_at: String::new(), late: Duration::ZERO })
    }

    #[test]
    fn a_reader_that_blocks_finds_a_bounded_number_of_notes() {
        let hogs = Hogs::new(true);
        for _ in 0..2 * MOST_WAITING {
            // Each note comes in a second of its own.
            hogs.queue.lock().second = None;
            hogs.note(late);
        }
        hogs.close();
        assert_eq!(hogs.queue.lock().notes.len(), MOST_WAITING);
    }

    /// The reader may not run for a while, and then calls a function of the user's, which may wake a green
    /// thread.
    #[test]
    fn a_note_counts_the_reader_as_woken() {
        let hogs = Hogs::new(true);
        let sleep = || hogs.queue.lock().reader.count_asleep();
        sleep();
        hogs.note(late);
        assert!(!hogs.queue.lock().reader.is_asleep());
        assert!(hogs.next().is_some());
        sleep();
        hogs.close();
        assert!(!hogs.queue.lock().reader.is_asleep());
        assert!(hogs.next().is_none());
    }
}
