//! The template thread: starts the OS threads of Ms from the first `pin` on. So no M inherits what a pinned
//! green thread has done to its OS thread.
//!
//! A new OS thread inherits the signal mask, scheduling attributes, allowed processors and namespaces of the
//! thread that starts it. It also inherits whether that thread shares its working directory with the process
//! (`unshare`). A green thread is pinned to change such things. And a pinned green thread that parks passes
//! its P on, which may start an M. So the first `pin` starts the template thread, before the green thread can
//! change anything. That thread starts all further Ms (Go: `templateThread`).
//!
//! The template thread waits for work as a service thread does (`m/service.rs`). It lives as long as the Ms.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::m::service::ServiceThread;
use crate::sync::{Condvar, Mutex};

type Started = io::Result<JoinHandle<()>>;
type Start = Box<dyn FnOnce() -> Started + Send>;

/// The template thread of a runtime, once it has started.
#[derive(Default)]
pub(crate) struct Template {
    /// True if the thread is there.
    is_there: AtomicBool,
    state: Mutex<TemplateState>,
    changed: Condvar,
}

#[derive(Default)]
struct TemplateState {
    thread: Option<JoinHandle<()>>,
    order: Option<Start>,
    started: Option<Started>,
    over: bool,
    service: ServiceThread,
}

impl Template {
    /// Returns `true` if the template thread is there. *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        // Relaxed: a thread that reads an old value takes the lock, or starts a thread itself. Before that it
        // has not run the code of a pinned green thread.
        self.is_there.load(Ordering::Relaxed)
    }

    /// Starts the thread, by `start` with its body, if it is not there. If the system refuses it, the next
    /// call tries again. *Runs on: the thread of a green thread that is about to be pinned.*
    #[cold]
    pub(crate) fn begin(&self, start: impl FnOnce() -> Started) {
        let mut state = self.state.lock();
        if state.thread.is_none() && !state.over {
            state.thread = start().ok();
            self.is_there.store(state.thread.is_some(), Ordering::Relaxed);
        }
    }

    /// What the template thread does.
    pub(crate) fn run(&self) {
        let mut state = self.state.lock();
        while !state.over {
            if let Some(order) = state.order.take() {
                state.started = Some(order());
                self.changed.notify_all();
            } else {
                state.service.count_asleep();
                self.changed.wait(&mut state);
            }
        }
    }

    /// Starts a thread by `start`, on the template thread if it is there. *Runs on: the holder of the lock
    /// of the threads, so one thread at a time.*
    pub(crate) fn start(&self, start: impl FnOnce() -> Started + Send + 'static) -> Started {
        let mut state = self.state.lock();
        if state.thread.is_none() {
            drop(state);
            return start();
        }
        state.service.count_awake();
        state.order = Some(Box::new(start));
        self.changed.notify_all();
        loop {
            self.changed.wait(&mut state);
            if let Some(started) = state.started.take() {
                return started;
            }
        }
    }

    /// Ends the thread. *Runs on: the closer, after it has taken the handles of the Ms.*
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.over = true;
        state.service.count_awake();
        self.changed.notify_all();
        let thread = state.thread.take();
        drop(state);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
