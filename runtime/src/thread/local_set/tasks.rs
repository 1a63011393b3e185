//! `Tasks`: the tasks of a `LocalSet`, and the list of those to be polled.
//!
//! ```text
//!   a waker, on any thread                     the driver, on the OS thread of the set
//!   1 sets `listed` and lists the task         1 leaves its own waker in the list
//!   2 takes the driver's waker, and wakes it   2 takes a task off the list and clears `listed`
//!                                              3 polls the job of that task
//! ```
//!
//! One lock guards the list, the driver's waker and each `listed`. A waker either finds the driver's waker of
//! the current poll, or lists its task before the driver's step 2.
//!
//! While a job is polled it is not in its slot. A poll that is nested in it (a task that drives its own set)
//! finds the slot empty. It leaves a mark, and the outer poll lists the task again.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use sched::block_on::within_poll;
use sched::park::unwind_if_cancelled;
use slab::Slab;
use waits::queue::Lock;

use super::fixed::Fixed;
use super::job::{Job, Polled};
use crate::thread_local::TaskLocal;

/// The set into which `spawn_local` spawns.
pub(super) static CURRENT: TaskLocal<Arc<Tasks>> = TaskLocal::new();

/// How many tasks one poll of a set polls at most; tokio's number. Then the driver lets other green threads
/// run.
const AT_ONCE: usize = 61;

pub(super) struct Tasks {
    slots: Fixed<RefCell<Slab<Slot>>>,
    list: Lock<List>,
}

struct Slot {
    task: Arc<LocalTask>,
    /// `None` while the job is polled.
    job: Option<Box<dyn Job>>,
    /// The task was woken while the job was polled, and is no longer in the list.
    woken: bool,
}

#[derive(Default)]
struct List {
    woken: VecDeque<Arc<LocalTask>>,
    driver: Option<Waker>,
    /// The set was dropped. Nothing is listed any more.
    closed: bool,
}

/// What other threads know of a task. It is its own waker.
pub(super) struct LocalTask {
    key: usize,
    tasks: Arc<Tasks>,
    /// The task is in the list. Used under the lock of the list only, which orders it.
    listed: AtomicBool,
    cancelled: AtomicBool,
    ended: AtomicBool,
}

impl LocalTask {
    /// Lists the task, if it is not in the list, and wakes the driver.
    fn list(self: &Arc<Self>) {
        let driver = {
            let mut list = self.tasks.list.lock();
            // Relaxed: the lock orders it.
            if list.closed || self.listed.swap(true, Ordering::Relaxed) {
                return;
            }
            list.woken.push_back(Arc::clone(self));
            list.driver.take()
        };
        // A waker is code of the user, so it is called outside of the lock.
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Asks the set to drop the future of the task.
    pub(super) fn cancel(self: &Arc<Self>) {
        // Relaxed: the lock of the list passes it on to `run`.
        self.cancelled.store(true, Ordering::Relaxed);
        self.list();
    }

    /// Returns `true` once the future is dropped and the result was sent.
    pub(super) fn is_ended(&self) -> bool {
        // Acquire: pairs with the store in `LocalTask::end`.
        self.ended.load(Ordering::Acquire)
    }

    fn end(&self) {
        // Release: pairs with the load in `is_ended`.
        self.ended.store(true, Ordering::Release);
    }
}

impl Wake for LocalTask {
    fn wake(self: Arc<Self>) {
        self.list();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.list();
    }
}

impl Tasks {
    pub(super) fn new() -> Arc<Tasks> {
        Arc::new(Tasks { slots: Fixed::new(RefCell::new(Slab::new())), list: Lock::new(List::default()) })
    }

    /// Adds a task that runs `job`. It is cancelled at once if the set was dropped.
    ///
    /// # Panics
    ///
    /// Panics on another OS thread than that of the set.
    #[track_caller]
    pub(super) fn add(self: &Arc<Self>, job: Box<dyn Job>) -> Arc<LocalTask> {
        let task = self.slots.with(|slots| {
            let mut slots = slots.borrow_mut();
            let entry = slots.vacant_entry();
            let task = Arc::new(LocalTask {
                key: entry.key(),
                tasks: Arc::clone(self),
                listed: AtomicBool::new(false),
                cancelled: AtomicBool::new(false),
                ended: AtomicBool::new(false),
            });
            entry.insert(Slot { task: Arc::clone(&task), job: Some(job), woken: false });
            task
        });
        if self.list.lock().closed {
            self.cancel_all();
        }
        task.list();
        task
    }

    /// Returns `true` if all tasks have ended.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.with(|slots| slots.borrow().is_empty())
    }

    /// Lets wakers of tasks wake `cx` from now on.
    pub(super) fn wakes(&self, cx: &Context<'_>) {
        let waker = cx.waker().clone();
        let before = self.list.lock().driver.replace(waker);
        // Its destructor is code of the user.
        drop(before);
    }

    /// Polls tasks that were woken. Returns `true` if there may be more.
    ///
    /// # Panics
    ///
    /// Panics on another OS thread than that of the set.
    #[track_caller]
    pub(super) fn poll_some(self: &Arc<Self>) -> bool {
        // The OS thread is compared even if there is nothing to poll, so that the mistake shows each time.
        self.slots.with(|_| ());
        for _ in 0..AT_ONCE {
            let Some(task) = self.take_woken() else { return false };
            self.run(&task);
        }
        true
    }

    fn take_woken(&self) -> Option<Arc<LocalTask>> {
        let mut list = self.list.lock();
        let task = list.woken.pop_front()?;
        // Relaxed: the lock orders it.
        task.listed.store(false, Ordering::Relaxed);
        Some(task)
    }

    /// Polls the job of `task` once, or cancels it if that was asked for. Unwinds if the calling thread has
    /// to.
    fn run(self: &Arc<Self>, task: &Arc<LocalTask>) {
        let Some(mut job) = self.take_job(task) else { return };
        let waker = Waker::from(Arc::clone(task));
        let polled = self.inside(|| {
            // Relaxed: see `cancel`.
            if task.cancelled.load(Ordering::Relaxed) {
                job.cancel();
                return Polled::Ended;
            }
            job.poll(&mut Context::from_waker(&waker))
        });
        match polled {
            Polled::Pending => self.put_back(task, job),
            Polled::Ended => self.remove(task),
            Polled::Panicked => {
                self.remove(task);
                unwind_if_cancelled();
            }
            Polled::Unwinds(payload) => {
                self.remove(task);
                resume_unwind(payload);
            }
        }
    }

    /// Runs `f`, which polls or drops a future of this set: in the context of the set, and without leaving
    /// the OS thread, also if `f` parks.
    fn inside<R>(self: &Arc<Self>, f: impl FnOnce() -> R) -> R {
        within_poll(|| CURRENT.enter_if_possible(Arc::clone(self), f))
    }

    fn with_slot<R>(&self, task: &Arc<LocalTask>, f: impl FnOnce(&mut Slab<Slot>) -> R) -> Option<R> {
        self.slots.with(|slots| {
            let mut slots = slots.borrow_mut();
            // A late waker of a task that has ended may find another task under its key.
            let is_there = slots.get(task.key).is_some_and(|slot| Arc::ptr_eq(&slot.task, task));
            is_there.then(|| f(&mut slots))
        })
    }

    /// Takes the job of `task` out of its slot. Returns `None` if the task has ended, or is being polled
    /// further out.
    fn take_job(&self, task: &Arc<LocalTask>) -> Option<Box<dyn Job>> {
        let taken = self.with_slot(task, |slots| {
            let slot = &mut slots[task.key];
            slot.woken = slot.job.is_none();
            slot.job.take()
        });
        taken.flatten()
    }

    /// Puts a job back that is not ready. Its slot is there: a poll borrows the set, which is not dropped then.
    fn put_back(&self, task: &Arc<LocalTask>, job: Box<dyn Job>) {
        let woken = self.with_slot(task, |slots| {
            let slot = &mut slots[task.key];
            slot.job = Some(job);
            mem::take(&mut slot.woken)
        });
        if woken == Some(true) {
            task.list();
        }
    }

    /// Removes `task`, which has ended.
    fn remove(&self, task: &Arc<LocalTask>) {
        drop(self.with_slot(task, |slots| slots.remove(task.key)));
        task.end();
    }

    /// Ends the set: cancels all tasks, and those added from now on.
    ///
    /// # Panics
    ///
    /// Panics on another OS thread than that of the set, unless the caller unwinds. The futures are then
    /// leaked.
    #[track_caller]
    pub(super) fn close(self: &Arc<Self>) {
        let before = {
            let mut list = self.list.lock();
            list.closed = true;
            (mem::take(&mut list.woken), list.driver.take())
        };
        // A waker's destructor is code of the user.
        drop(before);
        if self.slots.is_here() {
            self.cancel_all();
        } else if !std::thread::panicking() {
            panic!(
                "a `LocalSet` is dropped on another OS thread than the one that has made it; its tasks are leaked"
            );
        }
    }

    fn cancel_all(self: &Arc<Self>) {
        loop {
            // The destructors of these may add others.
            let slots = self.slots.with(|slots| mem::take(&mut *slots.borrow_mut()));
            if slots.is_empty() {
                return;
            }
            for (_, slot) in slots {
                // No job is being polled: a poll borrows the set.
                if let Some(mut job) = slot.job {
                    self.inside(|| job.cancel());
                    slot.task.end();
                }
            }
        }
    }
}
