//! The thread of the bell in models. What it does is shown by the models of the semaphores.

use std::ffi::c_int;
use std::sync::Arc;

use loom::thread::{self, JoinHandle};

use super::{RINGS, answer};
use crate::futex;
use crate::models::waits::{Kind, be};
use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The thread of the bell.
pub(in super::super) struct Bell {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Bell {
    pub(in super::super) fn start() -> Bell {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = thread::spawn(move || {
            be(Kind::Os);
            answer(|| over.load(SeqCst));
        });
        Bell { is_over, thread }
    }

    /// Ends the thread. *Runs on: a thread that has seen the end of all waits.*
    pub(in super::super) fn stop(self) {
        self.is_over.swap(true, SeqCst);
        RINGS.fetch_add(1, SeqCst);
        futex::wake_in_kernel(RINGS.as_ptr().expose_provenance(), c_int::MAX as usize);
        self.thread.join().unwrap();
    }
}
