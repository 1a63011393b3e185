//! How many large answers are made and sent at once: a dump of a million green threads takes some hundred
//! megabytes, until its client has read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MOST: usize = 2;

/// The large answers of one server.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    // Relaxed, throughout: the number alone counts.
    used: AtomicUsize,
}

/// Room for one answer. The drop gives it back.
#[derive(Debug)]
pub(super) struct Room(Arc<Rooms>);

impl Rooms {
    /// Returns room for one more answer. If there is none, it tries again each time `wait` has returned
    /// `true`, and returns `None` otherwise.
    pub(super) fn enter(self: &Arc<Self>, mut wait: impl FnMut() -> bool) -> Option<Room> {
        let more = |used: usize| (used < MOST).then_some(used + 1);
        while self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            if !wait() {
                return None;
            }
        }
        Some(Room(self.clone()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_answer_waits_for_one_of_two() {
        let rooms = Arc::new(Rooms::default());
        let enter = || rooms.enter(|| false);
        let (first, second) = (enter().unwrap(), enter().unwrap());
        assert!(enter().is_none());
        let mut held = Some(first);
        let third = rooms.enter(|| held.take().is_some());
        assert!(third.is_some() && held.is_none() && enter().is_none());
        drop((second, third));
        assert!(enter().is_some());
    }
}
