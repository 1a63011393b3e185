//! A runtime under test, and what was spawned in it: its own counts and ours must agree.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use runtime::{Entry, Handle, JoinHandle, Runtime};
use tests::{Drops, Token, wait_until};

use crate::mode::{self, Mode};
use crate::watch;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) handle: Handle,
    pub(crate) mode: &'static Mode,
    began: AtomicU64,
    ended: AtomicU64,
    closing: AtomicBool,
}

impl Site {
    /// Of a runtime that has spawned nothing yet, or nothing that still runs.
    pub(crate) fn of(handle: Handle, mode: &'static Mode) -> Arc<Site> {
        let before = handle.metrics().spawned;
        let [began, ended] = [before; 2].map(AtomicU64::new);
        let site = Arc::new(Site { handle, mode, began, ended, closing: AtomicBool::new(false) });
        watch::show(&site);
        site
    }

    /// Starts a runtime.
    pub(crate) fn start(procs: usize, mode: &'static Mode) -> io::Result<(Runtime, Arc<Site>)> {
        let runtime = mode::builder(procs, mode).build()?;
        let site = Site::of(runtime.handle(), mode);
        Ok((runtime, site))
    }

    /// Spawns what has its `Life` within itself.
    #[track_caller]
    pub(crate) fn spawn<M, E>(&self, task: E) -> JoinHandle<E::Output>
    where
        E: Entry<M> + Send + 'static,
        E::Output: Send + 'static,
    {
        self.handle.spawn(task)
    }

    /// Its runtime is about to be ended, with what runs in it.
    pub(crate) fn closes(&self) {
        self.closing.store(true, SeqCst);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(SeqCst)
    }

    /// How many have begun.
    pub(crate) fn began(&self) -> u64 {
        self.began.load(SeqCst)
    }

    /// How many have begun and not ended.
    pub(crate) fn live(&self) -> u64 {
        // The ended first: none of them is missing among those that began.
        let ended = self.ended.load(SeqCst);
        self.began() - ended
    }

    /// Waits until every thread of the site has ended. With `exactly`, the runtime has spawned what we did
    /// (and one more for each foreign waker that a timer called).
    pub(crate) fn comes_out_even(&self, exactly: bool) {
        wait_until("all green threads have ended", || self.live() == 0);
        wait_until("the runtime says so too", || {
            let now = self.handle.metrics();
            now.spawned == now.ended && now.runnable + now.running + now.waiting == 0
        });
        let now = self.handle.metrics();
        assert!(
            !exactly || now.spawned >= self.began(),
            "{} were spawned, and it says {}",
            self.began(),
            now.spawned
        );
        assert_eq!((now.global_queue, now.local_queues.iter().sum::<usize>()), (0, 0), "queues");
    }
}

/// One green thread's life, counted from before it is spawned until its captures are dropped.
#[derive(Debug)]
pub(crate) struct Life {
    site: Arc<Site>,
    _token: Token,
}

impl Life {
    pub(crate) fn begin(site: &Arc<Site>, drops: &Drops) -> Life {
        site.began.fetch_add(1, SeqCst);
        Life { site: site.clone(), _token: drops.token() }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.site.ended.fetch_add(1, SeqCst);
    }
}
