//! The threads of a runtime: starts, counts and ends Ms, and hands their Ps on. `run/wake.rs` wakes them.

use std::io;
use std::sync::Arc;
use std::thread;

use crate::asleep::wish::Wish;
use crate::m::binding::Bound;
use crate::m::kept::Keeper;
use crate::m::{M, MRef, OwnM, current, slice};
use crate::notes::events::{Does, Left};
use crate::p::P;
use crate::run::find::Then;
use crate::run::sched::Sched;
use crate::stack::overflow;
use crate::sys;
use crate::sys::message::write_message;
use crate::sys::starting;

/// How many parked Ms are kept beyond one per P, for Gs that block.
const SPARE_MS: usize = 2;
/// How many threads get the order to end at one time: each costs the kernel tens of microseconds.
const ENDED_AT_ONCE: usize = 100;

impl Sched {
    /// Starts the first M. From then on at least one M exists.
    ///
    /// # Errors
    /// Fails with the system's error if it has no thread to give.
    pub fn start(&self) -> io::Result<()> {
        let handed = self.idle.take(|p| self.p(p).lease.set_held()).map(|p| (p, true));
        if handed.is_some() {
            self.idle.count_spinning();
        }
        self.new_m(handed).inspect_err(|_| self.release_handed_p(handed))
    }

    /// Puts a P for which no M could be started into the idle list, and its queue into the global one. The
    /// next M that needs a P takes it.
    fn release_handed_p(&self, handed: Option<(usize, bool)>) {
        let Some((p, spinning)) = handed else { return };
        self.move_queue(p);
        self.put_idle(p);
        if spinning {
            self.idle.stop_spinning();
        }
    }

    /// Starts an M with P `p`, for which no M is parked. Without a thread the P becomes idle. The caller holds
    /// the lease of `p`. *Runs on: any thread.*
    #[cold]
    pub(crate) fn start_m_with(&self, p: usize, spinning: bool) {
        let handed = Some((p, spinning));
        if let Err(error) = self.new_m(handed) {
            self.report_thread_limit(&error);
            self.threads
                .refusal
                .note_after(|| self.release_handed_p(handed), || self.sysmon.try_again_soon());
            // An M that has found no P by now takes this one, and the M in the netpoller looks at once.
            self.pair_up();
            self.serve_those_in_place();
            self.netpoll.break_poll();
            // Perhaps only reserved Ms are left.
            self.wake_reserved_m();
        }
    }

    /// Hands an idle P to a parked M. The P went idle because there was no M, and the M parked because there
    /// was no P.
    fn pair_up(&self) {
        if let Some((p, m)) = self.idle.take_pair(|p| self.p(p).lease.set_held()) {
            m.m().sleep.hand_to_parked(p, false);
        }
    }

    /// Hands idle Ps to Ms that wait for one in place, because no thread is to be had for them. *Runs on: the
    /// thread that has put a P into the idle list because it found no M.*
    fn serve_those_in_place(&self) {
        loop {
            // Pairs with the fence in `make_work`, before which a G that waits in place was put into the
            // queue.
            self.idle.look_again();
            if self.idle.idle_ps() == 0 {
                return;
            }
            let Some(g) = self.global.remove_first(|g| !matches!(g.bound(), Bound::Free)) else {
                return;
            };
            let (Bound::InPlace(m) | Bound::Home(m)) = g.bound() else { unreachable!("the G was bound") };
            match self.idle.take(|p| self.p(p).lease.set_held()) {
                Some(p) => m.sleep.hand(p),
                // Another M has taken the P. That M looks for work, and looks once more when it gives the P
                // up.
                None => self.global.push(g),
            }
        }
    }

    /// Tries again to get a thread after the system has refused one. *Runs on: sysmon, now and then.*
    pub(crate) fn ask_again_for_threads(&self) {
        if self.threads.refusal.take() && self.any_work() {
            self.wake_idle_p();
        }
    }

    /// Starts an M: with a P if `handed` names one, else as a spare that parks.
    pub(crate) fn new_m(&self, handed: Option<(usize, bool)>) -> io::Result<()> {
        // The closer takes all joins under this lock after `Closing::exit`.
        let (ms, exiting) = self.closing.then_check_exit(|| self.threads.lock());
        if exiting {
            return Err(io::Error::other("the runtime has been shut down"));
        }
        if self.threads.is_full() {
            let most = self.config.max_threads;
            return Err(io::Error::other(format!("max_threads is {most}, and all of them are in use")));
        }
        self.threads.start_thread(ms, self.as_runtime(), |m| {
            if let Some((p, spinning)) = handed {
                m.sleep.wish.hand(p, spinning);
            }
            let (name, sched) = (format!("{}-{}", self.config.thread_name, m.number), self.arc());
            self.template.start(move || start_thread(name, sched, m))
        })
    }

    /// Starts the template thread if it is not there. *Runs on: the thread of a green thread that is about to
    /// be pinned.*
    #[inline]
    pub(crate) fn begin_template(&self) {
        if self.is_simulated() {
            return;
        }
        if !self.template.is_there() {
            let (name, sched) = (format!("{}-start", self.config.thread_name), self.arc());
            self.template
                .begin(|| starting::start(thread::Builder::new().name(name), move || sched.template.run()));
        }
    }

    /// Hands on the P of an M that goes on without. The P goes to an M in line, to an M for waiting work,
    /// else to the idle list. *Runs on: the holder of `p`, which then has it no more.*
    pub(crate) fn hand_off(&self, p: &P) {
        p.on_p_left(Left::HandedOff);
        if p.index >= self.procs() {
            return self.retire(p.index);
        }
        self.leave_stacks(p);
        if let Some(m) = self.idle.take_wanting() {
            return m.m().sleep.hand(p.index);
        }
        let due = self.heaps.earliest(p.index) <= timers::clock::now();
        if due || !p.queue.is_empty() || !self.global.is_empty() {
            return self.start_m(p.index, false);
        }
        self.put_idle(p.index);
        if self.idle.withdraw(false, || self.any_work()) {
            self.wake_idle_p();
        }
        // Perhaps no M watched the timers and the network but the P's holder: if no M blocks in the
        // netpoller, this wakes one. And the M in the netpoller has not planned to look for a deadlock,
        // because this P was held.
        self.timer_was_added(self.heaps.time_sleep_until().min(self.look_for_deadlock_at()));
    }

    /// Ends the threads of some Ms that were parked and not needed since the last call. Returns `true` if
    /// there are more. *Runs on: sysmon.*
    pub(crate) fn end_idle_ms(&self) -> bool {
        let (unneeded, more) = self.idle.take_unneeded(self.ms_kept(), ENDED_AT_ONCE, may_end);
        for m in unneeded {
            m.m().sleep.end();
        }
        more
    }

    /// Returns `true` if more Ms are parked than are kept, and some of them may end.
    pub(crate) fn has_surplus_ms(&self) -> bool {
        self.idle.parked_ms() > self.ms_kept() && self.idle.any_parked(may_end)
    }

    /// Returns how many parked Ms are kept: one per P, and some for Gs that block.
    fn ms_kept(&self) -> usize {
        self.procs() + SPARE_MS
    }

    /// Starts a spare M if no M is parked, because starting a thread takes long just when it is needed. *Runs
    /// on: sysmon.*
    pub(crate) fn keep_spare_m(&self) {
        let spares = self.idle.parked_ms() + self.threads.spares_coming();
        if spares > 0 || self.threads.is_full() {
            return;
        }
        self.threads.add_coming_spare();
        // On failure the next hand-off tries to start a thread itself, and reports why it cannot.
        if self.new_m(None).is_err() {
            self.threads.remove_coming_spare();
        }
    }

    fn report_thread_limit(&self, error: &io::Error) {
        if self.threads.note_limit_reported() && !self.is_exiting() {
            write_message(format_args!(
                "runtime: no further thread: {error}. Green threads go on as running ones let them."
            ));
        }
    }
}

impl Sched {
    /// Frees the M for another thread, and joins the thread that ended before. So at most one ended thread
    /// still has its stack, and no other thread waits for user code that runs at a thread's end. *Runs on:
    /// the ending thread of `m`.*
    fn thread_ends(&self, m: OwnM<'_>) {
        if let Some(before) = self.threads.end_thread(m.shared()) {
            // A panic on an M's own stack was reported when it happened.
            let _ = before.join();
        }
    }
}

/// Returns `true` if no G is bound to that M. *Runs on: any thread, under the lock of the idle list that the
/// M is in.*
fn may_end(m: &MRef) -> bool {
    !m.m().homes.is_any()
}

fn start_thread(name: String, sched: Arc<Sched>, m: Arc<M>) -> io::Result<thread::JoinHandle<()>> {
    // The size that std gives a thread.
    const STACK_BYTES: usize = 2 << 20;
    if sys::room() < STACK_BYTES + sys::LEFT_BY_THREADS {
        let text = "there is hardly any memory left for its stack (RLIMIT_AS, RLIMIT_DATA)";
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
    }
    if !is_in_place_of_another(&sched, &m) && !sys::has_mappings() {
        let text = "there are hardly any mappings left for its stack (vm.max_map_count)";
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
    }
    starting::start(thread::Builder::new().name(name), move || begin(&sched, &m))
}

/// How many schedulers with the same parts follow each other without a trial of the mappings.
const BETWEEN_TRIALS: u32 = 32;

/// Returns `true` if the thread takes the place of one that has ended, which has given its mappings back. It
/// is the first thread of a scheduler with parts of another one. The trial costs a third of such a start.
fn is_in_place_of_another(sched: &Sched, m: &M) -> bool {
    m.number == 0 && !sched.reuses.is_multiple_of(BETWEEN_TRIALS)
}

/// *Runs on: the new thread of `m`.*
#[allow(unsafe_code)]
fn begin(sched: &Arc<Sched>, m: &M) {
    // SAFETY: this is the thread of `m`, from here to its end.
    m_main(sched, unsafe { OwnM::new(m) });
}

/// Aborts the process if a panic unwinds into the scheduler's own stack: the P and all Gs that wait for it
/// would be lost.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        if thread::panicking() {
            write_message(format_args!(
                "runtime: the scheduler itself has panicked; this is a bug in it, please report it"
            ));
            std::process::abort();
        }
    }
}

fn m_main(sched: &Arc<Sched>, m: OwnM<'_>) {
    let _guard = AbortOnUnwind;
    sched.config.thread_calls.at_start();
    current::set(m.shared());
    #[cfg(all(feature = "interpose", target_os = "linux"))]
    if !sched.is_simulated() || crate::choices::simulation::are_threads_caught() {
        m.own().std_parker.learn();
    }
    m.set_tid(sys::thread_id());
    slice::begin(m);
    sched.sysmon.take_usual_slack();
    let alternate_stack = overflow::ensure_alternate_stack();
    let keeper = Keeper::of(m, sched);
    let wish = m.sleep.wish.take();
    m.own().is_coming_spare.set(wish == Wish::Nothing);
    // A simulation has its own time, and an OS thread for each of many runs.
    if matches!(wish, Wish::Run { spinning: false, .. }) && !sched.is_simulated() {
        m.shorten_slice();
    }
    sched.events.on_m(m, Does::Starts);
    let mut run = || {
        if sched.fulfil(m, wish) == Then::Look {
            sched.run_m(m);
        }
    };
    match sched.config.around_thread {
        Some(around) => around(&mut run),
        None => run(),
    }
    sched.events.on_m(m, Does::Ends);
    drop(keeper);
    current::set(std::ptr::null());
    sched.config.thread_calls.at_stop();
    drop(alternate_stack);
    debug_assert!(!m.homes.is_any() || sched.is_exiting(), "a thread ends to which a G must return");
    m.end();
    sched.thread_ends(m);
}

#[cfg(test)]
pub(crate) mod tests {
    use std::panic::Location;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use netpoll::net::UdpSocket;
    use timers::clock;

    use super::*;
    use crate::api::join::Join;
    use crate::api::spawn::{self, Spec, Where};
    use crate::api::{park, sleep};
    use crate::m::current::on_m;
    use crate::m::thread_calls::ThreadCalls;
    use crate::run::sched::Config;

    pub(crate) fn config(procs: usize) -> Config {
        Config {
            procs,
            wanted_procs: None,
            stack_bytes: 64 << 10,
            max_threads: 1000,
            thread_name: "thread".to_string(),
            measure_all: false,
            spawn_stacks: None,
            await_stacks: None,
            hogs: None,
            late_wake: None,
            strict: false,
            own_locals: false,
            late_libraries: false,
            around_thread: None,
            thread_calls: ThreadCalls::default(),
            simulation: None,
            attached: Arc::new(()),
        }
    }

    pub(crate) fn scheduler(procs: usize) -> Arc<Sched> {
        started(config(procs))
    }

    pub(crate) fn started(config: Config) -> Arc<Sched> {
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

    /// A spare is counted from the start of its thread on. Until it has parked, no second spare is started.
    #[test]
    fn only_one_spare_is_started_until_it_has_parked() {
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
        let before = sched.threads.threads();
        // Sysmon does this while no P is idle.
        for _ in 0..200 {
            sched.keep_spare_m();
        }
        while sched.idle.parked_ms() == 0 {
            thread::yield_now();
        }
        sched.keep_spare_m();
        let after = sched.threads.threads();
        assert!(after <= before + 1, "{before} threads became {after}");
        stop.store(true, Ordering::Relaxed);
        hog.join().unwrap();
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
    }

    /// The test's thread holds the only P, and has the netpoller if an M is to watch. No M was started
    /// before, so one that is woken for the P or for the network is counted.
    #[test]
    fn a_hand_off_wakes_an_m_for_a_registered_socket_only_if_no_m_watches() {
        for watched in [true, false] {
            let sched = Sched::new(config(1)).unwrap();
            let mut socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let registered = sched.netpoll.register(&mut socket).unwrap();
            let turn = watched.then(|| {
                let mut turn = sched.netpoll.begin_block().unwrap();
                turn.publish(clock::NEVER);
                turn
            });
            let p = sched.idle.take(|p| sched.p(p).lease.set_held()).unwrap();
            sched.hand_off(sched.p(p));
            assert_eq!(sched.threads.threads(), usize::from(!watched), "watched: {watched}");
            drop((turn, socket, registered));
            assert!(sched.begin_closing() && sched.cancel_all(None));
            sched.end_threads();
        }
    }

    /// A wake-up of an M's note may come late, when the M has seen the change itself and sleeps for another
    /// reason.
    #[test]
    fn a_late_wake_up_ends_no_wait_in_place() {
        const TIME: Duration = Duration::from_millis(20);
        let sched = scheduler(2);
        let late_wake_up = || on_m(|m| m.sleep.note.wake()).unwrap();
        let others = sched.clone();
        let pinned = spawn_in(&sched, move || {
            let pinned = park::pin();
            // With a limit, at which the M itself ends the wait.
            let start = Instant::now();
            late_wake_up();
            sleep::sleep(TIME);
            assert!(start.elapsed() >= TIME);
            // Without a limit.
            let start = Instant::now();
            let other = spawn_in(&others, || sleep::sleep(TIME));
            late_wake_up();
            other.join().unwrap();
            assert!(start.elapsed() >= TIME);
            park::unpin(pinned);
        });
        pinned.join().unwrap();
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
    }

    /// Green threads that are pinned while they sleep keep their Ms, so other Ms are needed, and later too
    /// many are parked. Threads end and start all the time, and no green thread waits for ever.
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
                // Repeats for as long as a busy machine needs until enough Ms have got the order to end.
                while round < 100 || told.load(Ordering::Relaxed) < 20 {
                    round += 1;
                    let joins: Vec<_> = (0..20)
                        .map(|i| {
                            let done = done.clone();
                            spawn_in(&sched, move || {
                                let pin = park::pin();
                                sleep::sleep(Duration::from_micros(i * (round % 10)));
                                park::unpin(pin);
                                done.fetch_add(1, Ordering::Relaxed);
                            })
                        })
                        .collect();
                    joins.into_iter().for_each(|join| join.join().unwrap());
                    if round % 10 == 0 {
                        // No M is needed for a moment.
                        thread::sleep(Duration::from_millis(1));
                    }
                }
                stop.store(true, Ordering::Relaxed);
                assert_eq!(done.load(Ordering::Relaxed), 20 * round as usize);
            });
            // Their Ms are reused. An M is not free yet while its thread is about to end. So there may be
            // twice as many Ms as were needed at once. Without reuse there would be some thousand.
            let (made, at_once) = (sched.threads.lock().all().len(), 20 + procs + SPARE_MS + 2);
            assert!(made <= 2 * at_once, "{made} Ms were made, and {at_once} needed at once");
            assert!(sched.begin_closing() && sched.cancel_all(None));
            sched.end_threads();
            assert_eq!(sched.threads.threads(), 0);
        }
    }
}
