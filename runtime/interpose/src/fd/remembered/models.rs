//! Models of what is remembered: after a change no one trusts an answer from before it.

use std::sync::Arc;

use loom::thread;

use super::{ask, changed, forget, remembered};
use crate::models::helpers::explore;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A file of two descriptors, or of one.
struct File {
    /// What the system knows.
    mode: AtomicU32,
    places: [AtomicU64; 2],
    /// The descriptors that were waited for.
    waited: [AtomicU32; 2],
    is_shared: bool,
}

impl File {
    fn new(is_shared: bool) -> Arc<File> {
        let places = [AtomicU64::new(0), AtomicU64::new(0)];
        let waited = [AtomicU32::new(0), AtomicU32::new(0)];
        Arc::new(File { mode: AtomicU32::new(1), places, waited, is_shared })
    }

    /// Returns the mode as a call on a descriptor finds it.
    fn find(&self, at: usize) -> u32 {
        // What is remembered is that of this file once it was waited for.
        let known = self.waited[at].load(Ordering::Acquire) == 1;
        if let Some(mode) = remembered(&self.places[at]).filter(|_| known) {
            return mode;
        }
        // As `fd::note_wait`.
        let note = || {
            if self.waited[at].load(Ordering::Relaxed) == 0 {
                forget(std::slice::from_ref(&self.places[at]));
                self.waited[at].fetch_or(1, Ordering::AcqRel);
            }
        };
        ask(&self.places[at], note, || {
            // The kernel's own locks order this.
            let mode = self.mode.load(Ordering::SeqCst);
            (mode, Some(mode))
        })
    }

    /// Changes the mode by the first descriptor.
    fn change(&self) {
        self.mode.store(2, Ordering::SeqCst);
        changed(|| !self.is_shared && self.waited[0].load(Ordering::Relaxed) == 0);
    }
}

/// One thread waits, twice, while another one changes the mode: what comes after both finds the new one.
fn a_change_is_found(is_shared: bool, at: usize) {
    explore(3, move || {
        let file = File::new(is_shared);
        let waits = thread::spawn({
            let file = file.clone();
            move || (file.find(at), file.find(at))
        });
        file.change();
        let (first, second) = waits.join().unwrap();
        assert!(first <= second, "{first}, {second}");
        assert_eq!(file.find(at), 2);
    });
}

#[test]
fn a_change_by_the_descriptor_itself_is_found() {
    a_change_is_found(false, 0);
}

#[test]
fn a_change_by_another_descriptor_is_found() {
    a_change_is_found(true, 1);
}

/// A file ends while a thread asks about it. The next file of the number has another mode.
#[test]
fn an_answer_about_an_earlier_file_is_not_remembered() {
    explore(3, || {
        let file = File::new(false);
        file.find(0);
        let waits = thread::spawn({
            let file = file.clone();
            move || file.find(0)
        });
        file.waited[0].store(0, Ordering::Release);
        file.mode.store(2, Ordering::SeqCst);
        // It is noted as new.
        file.waited[0].store(0, Ordering::Release);
        assert_eq!((file.find(0), file.find(0)), (2, 2));
        waits.join().unwrap();
        assert_eq!(file.find(0), 2);
    });
}
