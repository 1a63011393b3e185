//! The notes of hogs and of late wake-ups, on their way from the scheduler to the thread that reads them.
//!
//! There are `MOST_NOTES` a second at most, and `MOST_WAITING` wait. Other rescues are only counted.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use sched::sync::{Condvar, Mutex};
use sched::{HogNotes, Noted, ServiceThread};

/// The most notes in a second.
const MOST_NOTES: u32 = 10;
/// The most notes that wait for the reader. The reader's function may block. Further rescues are only
/// counted.
const MOST_WAITING: usize = 64;

/// The notes of one runtime, for their reader.
#[derive(Default)]
pub struct Notes {
    queue: Mutex<Queue>,
    came: Condvar,
}

#[derive(Default)]
struct Queue {
    notes: VecDeque<Noted>,
    /// How many notes came in the second that began then.
    second: Option<(Instant, u32)>,
    closed: bool,
    reader: ServiceThread,
}

// No function of the user's runs under the lock.
impl UnwindSafe for Notes {}
impl RefUnwindSafe for Notes {}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes").finish_non_exhaustive()
    }
}

impl HogNotes for Notes {
    /// Leaves the reader a note, unless there were many notes in this second, or many wait. *Runs on: any
    /// thread; the lock is held for some instructions.*
    fn note(&self, noted: &dyn Fn() -> Noted) {
        if !self.queue.lock().has_room() {
            return;
        }
        let noted = noted();
        self.queue.lock().push(noted);
        self.came.notify_one();
    }
}

impl Notes {
    /// Waits for the next note; returns `None` after `close`. While it waits, the reader hides no deadlock.
    /// *Runs on: the reader.*
    pub(super) fn next(&self) -> Option<Noted> {
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
    pub(super) fn close(&self) {
        self.queue.lock().close();
        self.came.notify_all();
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
        Noted::Late { id: 1, name: None, place: None, late: Duration::ZERO }
    }

    #[test]
    fn a_reader_that_blocks_finds_a_bounded_number_of_notes() {
        let notes = Notes::default();
        for _ in 0..2 * MOST_WAITING {
            // Each note comes in a second of its own.
            notes.queue.lock().second = None;
            notes.note(&late);
        }
        notes.close();
        assert_eq!(notes.queue.lock().notes.len(), MOST_WAITING);
    }

    /// The reader may not run for a while, and then calls a function of the user's, which may wake a green
    /// thread.
    #[test]
    fn a_note_counts_the_reader_as_woken() {
        let notes = Notes::default();
        let sleep = || notes.queue.lock().reader.count_asleep();
        sleep();
        notes.note(&late);
        assert!(!notes.queue.lock().reader.is_asleep());
        assert!(notes.next().is_some());
        sleep();
        notes.close();
        assert!(!notes.queue.lock().reader.is_asleep());
        assert!(notes.next().is_none());
    }
}
