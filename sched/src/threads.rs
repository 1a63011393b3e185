//! Ms made, started, woken and counted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use crate::m::{M, current};
use crate::p::P;
use crate::sched::Sched;
use crate::stack::overflow;
use crate::sys;

impl Sched {
    /// Gives P `p`, whose lease the caller holds, to an M: a parked one, else a new one (Go: `startm`).
    /// *Runs on: any thread.*
    pub(crate) fn start_m(&self, p: usize, spinning: bool) {
        if let Some(m) = self.idle.unpark() {
            m.m().hand(p, spinning);
            m.m().note.wake();
            return;
        }
        if let Err(error) = self.new_m(Some((p, spinning))) {
            self.report_thread_limit(&error);
            // An M that comes back from its user code will take this P; so will the one in the netpoller, at once.
            self.put_idle(p);
            if spinning {
                self.idle.stop_spinning();
            }
            self.netpoll.break_poll();
        }
    }

    /// Starts an M, with a P or to be parked as a spare.
    pub(crate) fn new_m(&self, handed: Option<(usize, bool)>) -> io::Result<()> {
        let mut ms = self.ms.lock();
        if self.is_exiting() {
            return Err(io::Error::other("the runtime has been shut down"));
        }
        if self.threads.load(Ordering::Relaxed) >= self.config.max_threads {
            let most = self.config.max_threads;
            return Err(io::Error::other(format!("max_threads is {most}, and all of them are in use")));
        }
        let m = Arc::new(M::new(self));
        if let Some((p, spinning)) = handed {
            m.hand(p, spinning);
        }
        let name = format!("{}-{}", self.config.thread_name, ms.all.len());
        let sched = self.arc();
        let own = m.clone();
        let join = thread::Builder::new().name(name).spawn(move || m_main(&sched, &own))?;
        self.threads.fetch_add(1, Ordering::Relaxed);
        ms.all.push(m);
        ms.joins.push(join);
        Ok(())
    }

    /// The M goes on without its P: whoever needs it gets it. *Runs on: the holder of `p`, which it no longer is.*
    pub(crate) fn hand_off(&self, p: &P) {
        if p.index >= self.procs() {
            return self.retire(p.index);
        }
        let due = self.heaps.earliest(p.index) <= timers::clock::now();
        if due || !p.queue.is_empty() || !self.global.is_empty() || self.netpoll.has_sources() {
            return self.start_m(p.index, false);
        }
        self.put_idle(p.index);
        self.idle.look_again();
        if self.any_work() {
            self.wake_idle_p();
        }
        // Its timers were perhaps watched by nobody but their P.
        self.timer_was_added(self.heaps.time_sleep_until());
    }

    /// One parked M in reserve: starting a thread takes long just when it is needed. *Runs on: sysmon.*
    pub(crate) fn keep_spare_m(&self) {
        if self.idle.parked_ms() == 0 && self.threads.load(Ordering::Relaxed) < self.config.max_threads {
            // Without a spare the next hand-off starts a thread itself, or reports why it cannot.
            let _ = self.new_m(None);
        }
    }

    fn report_thread_limit(&self, error: &io::Error) {
        let mut ms = self.ms.lock();
        if !std::mem::replace(&mut ms.limit_reported, true) && !self.is_exiting() {
            eprintln!("runtime: no further thread: {error}. Green threads go on as running ones let them.");
        }
    }

    /// Says something to whoever reads stderr, once per runtime.
    #[cold]
    pub(crate) fn report_once(&self, text: &str) {
        if !self.reported.swap(true, Ordering::Relaxed) {
            eprintln!("runtime: {text}");
        }
    }
}

/// Nothing that unwinds may reach the scheduler's own stack: the P, and all that waits for it, would be lost.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("runtime: the scheduler itself has panicked; this is a bug in it, please report it");
            std::process::abort();
        }
    }
}

fn m_main(sched: &Arc<Sched>, m: &M) {
    let _guard = AbortOnUnwind;
    current::set(m);
    m.note.adopt();
    m.tid.store(sys::thread_id(), Ordering::Relaxed);
    sys::shorten_slice();
    let _alternate_stack = overflow::ensure_alternate_stack();
    if let Some((p, spinning)) = m.take_handed() {
        sched.adopt(m, p);
        m.spinning.set(spinning);
    }
    sched.run_m(m);
    current::set(std::ptr::null());
    m.give_all_gs();
    sched.threads.fetch_sub(1, Ordering::Relaxed);
}
