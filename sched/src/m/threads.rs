//! The threads of a runtime: all its Ms, their threads, how many there are, and whether the system refuses
//! more.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::refusal::Refusal;
use super::{M, MRef};
use crate::g::Runtime;
use crate::sync::{Mutex, MutexGuard};

/// How many Ms a look at all of them takes out of the list at a time.
const PORTION: usize = 64;

/// All Ms of a runtime, with their threads.
pub(crate) struct Threads {
    ms: Mutex<Ms>,
    /// How many threads there are. Written under the lock.
    threads: AtomicUsize,
    max_threads: usize,
    /// How many Ms were started as spares and have not parked yet.
    spares_coming: AtomicUsize,
    pub(crate) refusal: Refusal,
}

/// The Ms and their threads, under one lock.
#[derive(Default)]
pub(crate) struct Ms {
    /// All Ms that were ever made, by number. They live as long as the runtime.
    all: Vec<Arc<M>>,
    /// The Ms that have no thread any more.
    free: Vec<Arc<M>>,
    /// The threads of the other Ms, by number.
    joins: HashMap<usize, thread::JoinHandle<()>>,
    /// The thread that ended last, not yet joined.
    ended: Option<thread::JoinHandle<()>>,
    limit_reported: bool,
}

impl Threads {
    pub(crate) fn new(max_threads: usize) -> Self {
        Threads {
            ms: Mutex::new(Ms::default()),
            threads: AtomicUsize::new(0),
            max_threads,
            spares_coming: AtomicUsize::new(0),
            refusal: Refusal::new(),
        }
    }

    /// Locks the list of Ms: no thread starts or ends while it is locked.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Ms> {
        self.ms.lock()
    }

    /// Calls `look` with each M, those without a thread included. The list is not locked during a call, and
    /// only briefly between two portions. So threads start and end while there are many Ms to look at. A
    /// new M may be left out. *Runs on: any thread.*
    pub(crate) fn look_at_all(&self, mut look: impl FnMut(&M)) {
        let mut portion = Vec::with_capacity(PORTION);
        for from in (0..).step_by(PORTION) {
            portion.extend(self.ms.lock().all.iter().skip(from).take(PORTION).map(|m| MRef::new(m)));
            if portion.is_empty() {
                return;
            }
            portion.drain(..).for_each(|m| look(m.m()));
        }
    }

    /// Returns how many threads there are. *Runs on: any thread.*
    pub(crate) fn threads(&self) -> usize {
        // Relaxed: a caller that needs an exact number has the lock.
        self.threads.load(Ordering::Relaxed)
    }

    /// Returns `true` if no further thread is allowed.
    pub(crate) fn is_full(&self) -> bool {
        self.threads() >= self.max_threads
    }

    /// Starts a thread for an M that has none: `start` is called with that M and starts its thread. `ms` is
    /// the lock of this list.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub(crate) fn start_thread(
        &self,
        mut ms: MutexGuard<'_, Ms>,
        runtime: *const Runtime,
        start: impl FnOnce(Arc<M>) -> io::Result<thread::JoinHandle<()>>,
    ) -> io::Result<()> {
        let m = ms.take_free(runtime);
        // Counted before the thread runs, because its user code may ask for the count.
        self.threads.fetch_add(1, Ordering::Relaxed);
        match start(m.clone()) {
            Ok(join) => {
                ms.joins.insert(m.number, join);
                Ok(())
            }
            Err(error) => {
                self.threads.fetch_sub(1, Ordering::Relaxed);
                m.sleep.wish.take();
                ms.free.push(m);
                Err(error)
            }
        }
    }

    /// Frees the M for another thread. Returns the thread that ended before, which the caller joins. *Runs
    /// on: the ending thread of `m`.*
    pub(crate) fn end_thread(&self, m: &M) -> Option<thread::JoinHandle<()>> {
        let mut ms = self.ms.lock();
        self.threads.fetch_sub(1, Ordering::Relaxed);
        // If the handle is gone, the closer has it and joins this thread.
        let mine = ms.joins.remove(&m.number)?;
        let m = ms.all[m.number].clone();
        ms.free.push(m);
        ms.ended.replace(mine)
    }

    /// Returns how many Ms were started as spares and have not parked yet.
    pub(crate) fn spares_coming(&self) -> usize {
        // Relaxed: if a spare is missed here, one too many starts, or one starts in the next round.
        self.spares_coming.load(Ordering::Relaxed)
    }

    /// Counts a spare that is to start. *Runs on: sysmon.*
    pub(crate) fn add_coming_spare(&self) {
        self.spares_coming.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a spare that has parked or did not start. *Runs on: that spare, or sysmon.*
    pub(crate) fn remove_coming_spare(&self) {
        self.spares_coming.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes that the limit of threads is reported. Returns `true` at the first call. *Runs on: the M that is
    /// about to report that no further thread can be had.*
    pub(crate) fn note_limit_reported(&self) -> bool {
        !std::mem::replace(&mut self.ms.lock().limit_reported, true)
    }
}

impl Ms {
    /// Returns all Ms that were ever made, those without a thread included.
    pub(crate) fn all(&self) -> &[Arc<M>] {
        &self.all
    }

    /// Returns an M without a thread, a used one if there is any.
    fn take_free(&mut self, runtime: *const Runtime) -> Arc<M> {
        self.free.pop().unwrap_or_else(|| {
            let m = Arc::new(M::new(runtime, self.all.len()));
            self.all.push(m.clone());
            m
        })
    }

    /// Takes the handles of all threads that were not joined.
    pub(crate) fn take_joins(&mut self) -> Vec<thread::JoinHandle<()>> {
        std::mem::take(&mut self.joins).into_values().chain(self.ended.take()).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_look_at_all_sees_each_m_once_and_leaves_the_list_free() {
        let (threads, made) = (Threads::new(1), 3 * PORTION + 1);
        for _ in 0..made {
            threads.lock().take_free(std::ptr::null());
        }
        let mut seen = Vec::new();
        threads.look_at_all(|m| {
            assert!(threads.ms.try_lock().is_some(), "a thread could not start meanwhile");
            seen.push(m.number);
        });
        assert_eq!(seen, (0..made).collect::<Vec<_>>());
    }
}
