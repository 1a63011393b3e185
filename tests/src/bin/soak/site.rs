//! A site: a runtime under test, with the soak's own counts of its green threads, which the runtime's counts
//! must match.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use runtime::{Entry, Handle, JoinHandle, Runtime};
use tests::{Drops, Token, wait_until};

use crate::mode::{self, Mode};
use crate::watch;

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) handle: Handle,
    pub(crate) mode: &'static Mode,
    began: AtomicU64,
    ended: AtomicU64,
    closing: AtomicBool,
}

impl Site {
    /// Returns the site of a runtime in which no spawned thread still runs.
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

    /// Spawns `task`, which must own its [`Life`].
    #[track_caller]
    pub(crate) fn spawn<M, E>(&self, task: E) -> JoinHandle<E::Output>
    where
        E: Entry<M> + Send + 'static,
        E::Output: Send + 'static,
    {
        self.handle.spawn(task)
    }

    /// Marks the runtime as about to end. Its green threads are cancelled from now on.
    pub(crate) fn closes(&self) {
        self.closing.store(true, SeqCst);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(SeqCst)
    }

    /// Returns the number of lives that have begun.
    pub(crate) fn began(&self) -> u64 {
        self.began.load(SeqCst)
    }

    /// Returns the number of lives that have begun and not ended.
    pub(crate) fn live(&self) -> u64 {
        // Reads `ended` first: each ended thread is then among the threads that `began` counts.
        let ended = self.ended.load(SeqCst);
        self.began() - ended
    }

    /// Waits until every thread of the site has ended. With `exactly`, the runtime must have spawned at least
    /// as many threads as the site began. It spawns a further thread for each foreign waker that a timer
    /// calls.
    pub(crate) fn comes_out_even(&self, exactly: bool) {
        wait_until("all green threads have ended", || self.live() == 0);
        wait_until("the runtime counts no green thread either", || {
            let now = self.handle.metrics();
            now.spawned == now.ended && now.runnable + now.running + now.waiting == 0
        });
        let now = self.handle.metrics();
        assert!(
            !exactly || now.spawned >= self.began(),
            "{} were spawned, and the runtime counts {}",
            self.began(),
            now.spawned
        );
        assert_eq!((now.global_queue, now.local_queues.iter().sum::<usize>()), (0, 0), "queues");
    }
}

/// The life of a green thread, counted from before its spawn until its captures are dropped.
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
