//! Hogs: reports of green threads that kept their P until sysmon took it, with their stacks, and of wake-ups
//! that came late.
//!
//! ```text
//!   sysmon, or the M that gives its P up       a plain OS thread of `runtime`            the M's thread
//!   take the P; count it (`notes/rescue.rs`)   next_hog: wait for a note
//!   note: a line in the queue, notify     ───> ask the M of the hog, and signal it  ───> the handler copies registers and stack
//!                                              unwind the copy, find the names,     <───
//!                                              tell the user
//! ```
//!
//! Neither sysmon nor the handler allocates stacks, unwinds or runs code of the user. Notes are rare: one a
//! second for each spawn place, and `MOST_NOTES` a second in all. At most `MOST_WAITING` wait. Other rescues
//! are only counted.
//!
//! The handler copies only if the same green thread still runs without its P, on its own stack. The runtime
//! knows the bounds of that stack.
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
use std::time::{Duration, Instant};

use crate::g::GRef;
use crate::m::service::ServiceThread;
use crate::m::{M, MRef};
use crate::notes::capture::Capture;
use crate::notes::rescue::Rescue;
use crate::p::lease::Seen;
use crate::stack::saved::StackCopy;
use crate::sync::{Condvar, Mutex};
use crate::sys;
use crate::sys::preempt::{self, Registers};

/// The most notes in a second.
const MOST_NOTES: u32 = 10;
/// The most notes that wait for the reader. The reader's function may block. Further rescues are only
/// counted.
const MOST_WAITING: usize = 64;

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

/// What the reader gets.
pub enum Noted {
    /// A rescue, and where to find the green thread.
    Hog(Rescue, Hogging),
    /// A wake-up that came late.
    Late(LateWake),
}

/// A green thread that runs without its P.
#[derive(Clone, Copy)]
pub struct Hogging {
    pub(crate) m: MRef,
    g: GRef,
    pub(crate) id: u64,
    /// The word by which it had lent its P, while it has not entered the runtime since. `None` for one that
    /// waits for a P in place.
    lent: Option<Seen>,
    /// True if a signal may interrupt it: no system call of the user's ends by that.
    pub(crate) computes: bool,
}

impl Hogging {
    pub(crate) fn new(m: &M, g: GRef, lent: Option<Seen>, computes: bool) -> Self {
        Hogging { m: MRef::new(m), g, id: g.id(), lent, computes }
    }

    /// Returns `true` if the green thread still runs as it did. *Runs on: any thread.*
    pub(crate) fn is_still_there(&self, m: &M) -> bool {
        let same = m.running().is_some_and(|g| ptr::eq(g, self.g) && g.id() == self.id);
        same && self.lent.is_none_or(|lent| m.lender.has_lent(lent))
    }
}

impl Hogging {
    /// Copies the stack of the green thread if its OS thread is blocked in the kernel. Returns `false` if it
    /// is not, or did not stay so.
    pub(crate) fn copy_blocked(&self, copy: &mut StackCopy) -> bool {
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
pub(crate) struct Copied {
    pub(crate) whose: Option<Hogging>,
    pub(crate) stack: StackCopy,
}

/// The notes of one runtime's hogs and late wake-ups, for their reader.
pub struct Hogs {
    /// False if no thread reads the notes.
    wanted: bool,
    queue: Mutex<Queue>,
    came: Condvar,
    pub(crate) capture: Capture<Copied>,
    /// Held by the thread that asks for a capture.
    pub(crate) asking: Mutex<()>,
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

    /// Leaves the reader a note, unless there were many notes in this second, or many wait. *Runs on: any
    /// thread; the lock is held for some instructions.*
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
