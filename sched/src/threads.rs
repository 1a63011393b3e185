//! Ms made, started, woken and counted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use crate::find::Then;
use crate::g::coro::{Bound, Coro};
use crate::m::{M, MRef, Wish, current};
use crate::p::P;
use crate::sched::{Ms, Sched};
use crate::stack::overflow;
use crate::sys;

/// So many Ms more than there are Ps are kept, parked, for those who block.
const SPARE_MS: usize = 2;
/// So many threads are told to end at the same moment: each costs the kernel some tens of microseconds.
const ENDED_AT_ONCE: usize = 100;

impl Sched {
    /// Starts the first M: from here on there always is one.
    ///
    /// # Errors
    /// What the system says if it has no thread to give.
    pub fn start(&self) -> io::Result<()> {
        let handed = self.idle.take(|p| self.p(p).lease.set_held()).map(|p| (p, true));
        if handed.is_some() {
            self.idle.count_spinning();
        }
        self.new_m(handed).inspect_err(|_| self.take_back(handed))
    }

    /// No M could be started for that P. An M that comes back from its user code will take it.
    fn take_back(&self, handed: Option<(usize, bool)>) {
        let Some((p, spinning)) = handed else { return };
        self.move_queue(p);
        self.put_idle(p);
        if spinning {
            self.idle.stop_spinning();
        }
    }

    /// Gives P `p`, whose lease the caller holds, to an M: a parked one, else a new one (Go: `startm`).
    /// *Runs on: any thread.*
    pub(crate) fn start_m(&self, p: usize, spinning: bool) {
        if let Some(m) = self.idle.unpark() {
            return self.hand_to(m.m(), p, spinning);
        }
        let handed = Some((p, spinning));
        if let Err(error) = self.new_m(handed) {
            self.report_thread_limit(&error);
            self.take_back(handed);
            // Whoever had found no P meanwhile takes this one, and the M in the netpoller looks at once.
            self.pair_up();
            self.serve_those_in_place();
            self.netpoll.break_poll();
            if self.no_thread.load(Ordering::Relaxed) {
                self.watch.wake_if_asleep();
            }
        }
    }

    /// A P that went idle for want of an M, and an M that parked for want of a P.
    fn pair_up(&self) {
        if let Some((p, m)) = self.idle.take_pair(|p| self.p(p).lease.set_held()) {
            m.m().hand(p, false);
            m.m().note.wake();
        }
    }

    /// No thread is to be had: an idle P goes to an M that waits for one in place, which needs no other. *Runs on: the
    /// thread that has put a P into the idle list for want of an M.*
    fn serve_those_in_place(&self) {
        loop {
            // The partner is the fence in `make_work`, before which a G that waits in place is put into the queue.
            self.idle.look_again();
            if self.idle.idle_ps() == 0 {
                return;
            }
            let Some(g) = self.global.remove_first(|g| !matches!(Coro::bound(g), Bound::Free)) else {
                return;
            };
            let (Bound::InPlace(m) | Bound::Home(m)) = Coro::bound(g) else { unreachable!("it was bound") };
            match self.idle.take(|p| self.p(p).lease.set_held()) {
                Some(p) => self.hand_to(m, p, false),
                // Another M has taken the P: it looks for work, and looks once more when it gives the P up.
                None => self.global.push(g),
            }
        }
    }

    /// The system may have threads again. *Runs on: sysmon, now and then after it had none.*
    pub(crate) fn ask_again_for_threads(&self) {
        if self.no_thread.swap(false, Ordering::Relaxed) && self.any_work() {
            self.wake_idle_p();
        }
    }

    /// Gives P `p`, whose lease the caller holds, to an M that it has taken out of the idle lists.
    pub(crate) fn hand_to(&self, m: &M, p: usize, spinning: bool) {
        m.hand(p, spinning);
        m.note.wake();
    }

    /// Starts an M, with a P or to be parked as a spare.
    pub(crate) fn new_m(&self, handed: Option<(usize, bool)>) -> io::Result<()> {
        // The thread that shuts down takes all joins under this lock after `Closing::exit`.
        let (mut ms, exiting) = self.closing.look_after(|| self.ms.lock());
        if exiting {
            return Err(io::Error::other("the runtime has been shut down"));
        }
        if self.threads.load(Ordering::Relaxed) >= self.config.max_threads {
            let most = self.config.max_threads;
            return Err(io::Error::other(format!("max_threads is {most}, and all of them are in use")));
        }
        let m = ms.take_free(self);
        if let Some((p, spinning)) = handed {
            m.hand(p, spinning);
        }
        let name = format!("{}-{}", self.config.thread_name, m.number);
        // Before it runs: what it runs may ask how many there are.
        self.threads.fetch_add(1, Ordering::Relaxed);
        match start_thread(name, self.arc(), m.clone()) {
            Ok(join) => {
                ms.joins.insert(m.number, join);
                Ok(())
            }
            Err(error) => {
                self.threads.fetch_sub(1, Ordering::Relaxed);
                m.take_wish();
                ms.free.push(m);
                // Relaxed: sysmon asks again sooner or later.
                self.no_thread.store(true, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// The M goes on without its P: whoever needs it gets it. *Runs on: the holder of `p`, which it no longer is.*
    pub(crate) fn hand_off(&self, p: &P) {
        if p.index >= self.procs() {
            return self.retire(p.index);
        }
        self.leave_stacks(p);
        if let Some(m) = self.idle.take_wanting() {
            return self.hand_to(m.m(), p.index, false);
        }
        let due = self.heaps.earliest(p.index) <= timers::clock::now();
        if due || !p.queue.is_empty() || !self.global.is_empty() || self.netpoll.has_sources() {
            return self.start_m(p.index, false);
        }
        self.put_idle(p.index);
        if self.idle.withdraw(false, || self.any_work()) {
            self.wake_idle_p();
        }
        // Its timers were perhaps watched by nobody but their P; and who waits in the netpoller has not planned to look for a
        // deadlock while this P was held.
        self.timer_was_added(self.heaps.time_sleep_until().min(self.look_for_deadlock_at()));
    }

    /// Ends the threads of some Ms that have been parked since the last call without being needed; true if there are more.
    /// *Runs on: sysmon.*
    pub(crate) fn end_idle_ms(&self) -> bool {
        let (unneeded, more) = self.idle.take_unneeded(self.ms_kept(), ENDED_AT_ONCE, may_end);
        for m in unneeded {
            m.m().hand_end();
            m.m().note.wake();
        }
        more
    }

    /// True if more Ms are parked than are worth keeping, and some of them may end.
    pub(crate) fn has_surplus_ms(&self) -> bool {
        self.idle.parked_ms() > self.ms_kept() && self.idle.any_parked(may_end)
    }

    /// One for each P, and some for those who block.
    fn ms_kept(&self) -> usize {
        self.procs() + SPARE_MS
    }

    /// One parked M in reserve: starting a thread takes long just when it is needed. *Runs on: sysmon.*
    pub(crate) fn keep_spare_m(&self) {
        // Relaxed: a spare that is missed here is one too many, or is started in the next round.
        let spares = self.idle.parked_ms() + self.spares_coming.load(Ordering::Relaxed);
        if spares > 0 || self.threads.load(Ordering::Relaxed) >= self.config.max_threads {
            return;
        }
        self.spares_coming.fetch_add(1, Ordering::Relaxed);
        // Without a spare the next hand-off starts a thread itself, or reports why it cannot.
        if self.new_m(None).is_err() {
            self.spares_coming.fetch_sub(1, Ordering::Relaxed);
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

impl Sched {
    /// The M is free for another thread. Whoever ended before is joined: so at most one thread that has ended is left with
    /// its stack, and neither sysmon nor anybody else waits for what user code does at a thread's end.
    /// *Runs on: the ending thread of `m`.*
    fn thread_ends(&self, m: &M) {
        let before = {
            let mut ms = self.ms.lock();
            self.threads.fetch_sub(1, Ordering::Relaxed);
            // Not there: who shuts down has it, and joins this thread.
            let Some(mine) = ms.joins.remove(&m.number) else { return };
            let m = ms.all[m.number].clone();
            ms.free.push(m);
            ms.ended.replace(mine)
        };
        if let Some(before) = before {
            // A panic on an M's own stack was reported when it happened.
            let _ = before.join();
        }
    }
}

impl Ms {
    /// An M without a thread.
    fn take_free(&mut self, sched: &Sched) -> Arc<M> {
        self.free.pop().unwrap_or_else(|| {
            let m = Arc::new(M::new(sched, self.all.len()));
            self.all.push(m.clone());
            m
        })
    }

    /// The threads that somebody must still join.
    pub(crate) fn take_joins(&mut self) -> Vec<thread::JoinHandle<()>> {
        std::mem::take(&mut self.joins).into_values().chain(self.ended.take()).collect()
    }
}

/// True if no G must return to that M. *Runs on: any thread, under the lock of the idle list that the M is in.*
fn may_end(m: &MRef) -> bool {
    !m.m().homes.is_any()
}

fn start_thread(name: String, sched: Arc<Sched>, m: Arc<M>) -> io::Result<thread::JoinHandle<()>> {
    // What std gives a thread.
    const STACK_BYTES: usize = 2 << 20;
    if sys::room() < STACK_BYTES + sys::LEFT_BY_THREADS {
        let text = "there is hardly any memory left for its stack (RLIMIT_AS, RLIMIT_DATA)";
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
    }
    if !sys::has_mappings(sys::MAPPINGS_LEFT) {
        let text = "there are hardly any mappings left for its stack (vm.max_map_count)";
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
    }
    thread::Builder::new().name(name).spawn(move || m_main(&sched, &m))
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
    sched.watch.take_usual_slack();
    let alternate_stack = overflow::ensure_alternate_stack();
    let wish = m.take_wish();
    m.is_coming_spare.set(wish == Wish::Nothing);
    if sched.fulfil(m, wish) == Then::Look {
        sched.run_m(m);
    }
    current::set(std::ptr::null());
    drop(alternate_stack);
    m.end();
    sched.thread_ends(m);
}

#[cfg(test)]
pub(crate) mod tests {
    use std::panic::Location;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::sched::Config;
    use crate::spawn::{self, Spec, Where};
    use crate::{Join, lend, park, time};

    pub(crate) fn scheduler(procs: usize) -> Arc<Sched> {
        let config = Config {
            procs,
            stack_bytes: 64 << 10,
            max_threads: 1000,
            thread_name: "thread".to_string(),
            strict: false,
        };
        let sched = Sched::new(config).unwrap();
        sched.start().unwrap();
        sched
    }

    #[track_caller]
    #[allow(unsafe_code)]
    pub(crate) fn spawn_in(sched: &Arc<Sched>, f: impl FnOnce() + Send + 'static) -> Join<()> {
        // SAFETY: the closure borrows nothing.
        unsafe { spawn::closure(Where::In(sched), Spec::at(Location::caller()), f, ()) }.unwrap()
    }

    /// A spare is counted from the moment at which its thread is started: until it has parked no second one is started.
    #[test]
    fn one_spare_is_started_however_often_it_is_asked_for() {
        let sched = scheduler(1);
        let (begun, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let hog = spawn_in(&sched, {
            let (begun, stop) = (begun.clone(), stop.clone());
            move || {
                begun.store(true, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {}
            }
        });
        while !begun.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let before = sched.threads.load(Ordering::Relaxed);
        // As sysmon does while no P is idle.
        for _ in 0..200 {
            sched.keep_spare_m();
        }
        while sched.idle.parked_ms() == 0 {
            thread::yield_now();
        }
        sched.keep_spare_m();
        let after = sched.threads.load(Ordering::Relaxed);
        assert!(after <= before + 1, "{before} threads became {after}");
        stop.store(true, Ordering::Relaxed);
        hog.join().unwrap();
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
    }

    /// A wake-up of an M's note may come late, when the M has found out by itself and sleeps for another reason.
    #[test]
    fn a_late_wake_up_ends_no_wait_in_place() {
        const TIME: Duration = Duration::from_millis(20);
        let sched = scheduler(2);
        let late_wake_up = || lend::on_m(|m| m.note.wake()).unwrap();
        let others = sched.clone();
        let pinned = spawn_in(&sched, move || {
            let pinned = park::pin();
            // With a limit, which the M watches itself.
            let start = Instant::now();
            late_wake_up();
            time::sleep(TIME);
            assert!(start.elapsed() >= TIME);
            // Without a limit.
            let start = Instant::now();
            let other = spawn_in(&others, || time::sleep(TIME));
            late_wake_up();
            other.join().unwrap();
            assert!(start.elapsed() >= TIME);
            park::unpin(pinned);
        });
        pinned.join().unwrap();
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
    }

    /// Green threads that are pinned while they sleep keep their Ms, so others are needed, and then too many are parked:
    /// threads end and start all the time, and nobody is left waiting.
    #[test]
    fn threads_end_while_others_are_started() {
        for procs in [1, 2, 4] {
            let sched = scheduler(procs);
            let (stop, told) = (AtomicBool::new(false), AtomicUsize::new(0));
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let before = sched.idle.parked_ms();
                        sched.end_idle_ms();
                        told.fetch_add(before.saturating_sub(sched.idle.parked_ms()), Ordering::Relaxed);
                        thread::yield_now();
                    }
                });
                let (done, mut round) = (Arc::new(AtomicUsize::new(0)), 0);
                // For as long as it takes on a busy machine until enough of them have been told.
                while round < 100 || told.load(Ordering::Relaxed) < 20 {
                    round += 1;
                    let joins: Vec<_> = (0..20)
                        .map(|i| {
                            let done = done.clone();
                            spawn_in(&sched, move || {
                                let pin = park::pin();
                                time::sleep(Duration::from_micros(i * (round % 10)));
                                park::unpin(pin);
                                done.fetch_add(1, Ordering::Relaxed);
                            })
                        })
                        .collect();
                    joins.into_iter().for_each(|join| join.join().unwrap());
                    if round % 10 == 0 {
                        // Nobody is needed for a moment.
                        thread::sleep(Duration::from_millis(1));
                    }
                }
                stop.store(true, Ordering::Relaxed);
                assert_eq!(done.load(Ordering::Relaxed), 20 * round as usize);
            });
            // Their Ms are used again: there are no more than were needed at once.
            assert!(sched.ms.lock().all.len() <= 20 + procs + SPARE_MS + 2, "{}", sched.ms.lock().all.len());
            assert!(sched.begin_closing() && sched.cancel_all(None));
            sched.end_threads();
            assert_eq!(sched.threads.load(Ordering::Relaxed), 0);
        }
    }
}
