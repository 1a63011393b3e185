//! Loom models of `idle.rs`: work that becomes ready while Ms become idle, and Ps that become idle while they
//! are looked at.

use super::*;
use crate::asleep::rest::Homes;
use crate::sync::models::Reached;
use loom::sync::Arc;
use loom::thread;

/// Two Ps with a queue each, and the global queue; each counts its Gs.
struct Machine {
    idle: Idle<()>,
    queues: [AtomicUsize; 2],
    global: AtomicUsize,
    /// How many Ms makers of work have started. Each of them will look.
    started: AtomicUsize,
}

/// Both Ps are held.
fn machine() -> Arc<Machine> {
    let m = Machine {
        idle: Idle::new(),
        queues: [AtomicUsize::new(0), AtomicUsize::new(0)],
        global: AtomicUsize::new(0),
        started: AtomicUsize::new(0),
    };
    (0..2).for_each(|p| m.hold(p));
    Arc::new(m)
}

impl Machine {
    /// A thread takes P `p` from the idle list, as it must before it makes work there.
    fn hold(&self, p: usize) {
        let _ = self.idle.give_up(p, || true, || ());
        assert!(self.idle.remove(p, || ()));
    }

    /// Models `Sched::make_work`.
    fn make_work(&self, queue: &AtomicUsize) {
        // Only Release, like the push of a queue: the fence of `make_work` does the rest.
        self.idle.make_work(|| _ = queue.fetch_add(1, Ordering::Release), || self.wake_idle_p());
    }

    /// Models `Sched::wake_idle_p`.
    fn wake_idle_p(&self) {
        let wake = || {
            if self.idle.take_to_look(|_| ()).is_some() {
                self.started.fetch_add(1, Ordering::SeqCst);
            }
        };
        self.idle.wake_for_work(|| (), wake);
    }

    fn take_work(&self) -> bool {
        let take = |q: &AtomicUsize| {
            q.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok()
        };
        take(&self.queues[0]) || take(&self.queues[1]) || take(&self.global)
    }

    /// Models `Sched::awake_ps`.
    fn awake_queues(&self) -> impl Iterator<Item = usize> {
        self.idle.awake_ps(0).map(|p| self.queues[p].load(Ordering::Acquire))
    }

    /// Models `Sched::any_g_waits`.
    fn any_g_waits(&self) -> bool {
        self.awake_queues().chain([self.global.load(Ordering::Acquire)]).any(|gs| gs > 0)
    }

    /// Models `Sched::any_work`.
    fn any_work(&self) -> bool {
        match self.idle.is_watched() {
            true => self.awake_queues().any(|gs| gs > 1),
            false => self.any_g_waits(),
        }
    }

    /// As `make_work`, by the holder of the P, which may leave a lone G to a watch.
    fn make_own_work(&self, queue: &AtomicUsize) {
        let wake = || {
            if self.idle.take_to_look(|_| ()).is_some() {
                self.started.fetch_add(1, Ordering::SeqCst);
            }
        };
        let is_lone = || queue.load(Ordering::Relaxed) == 1;
        let publish = || _ = queue.fetch_add(1, Ordering::Release);
        self.idle.make_work(publish, || self.idle.wake_for_one(is_lone, || (), wake));
    }

    /// An M that holds P `p` and spins has found no work and goes to sleep. Returns `true` if it stays
    /// awake.
    fn rest(&self, p: usize) -> bool {
        let _ = self.idle.give_up(p, || true, || ());
        self.rest_without_p()
    }

    /// Models `Sched::rest_without_p`, for an M that spins.
    fn rest_without_p(&self) -> bool {
        self.idle.withdraw(true, || self.any_work()) && self.idle.take(|_| ()).is_some()
    }

    /// An M that has a P wakes another to wait for the network without a P. Returns `true` if that M
    /// stays awake, with a P.
    fn wakes_one_to_watch(&self) -> bool {
        if !self.idle.no_m_spins() || !self.idle.start_spinning_alone() {
            return false;
        }
        assert!(self.idle.unpark().is_some());
        self.rest_without_p()
    }
}

fn stranded(m: &Machine, awake: bool) -> bool {
    let gs = m.queues.iter().chain([&m.global]).map(|queue| queue.load(Ordering::SeqCst));
    // A watch sees to a lone G.
    let most = usize::from(m.idle.is_watched());
    gs.max() > Some(most) && !awake && m.started.load(Ordering::SeqCst) == 0
}

/// An M begins a watch when it goes to sleep, and ends it.
#[test]
fn a_lone_g_is_not_stranded_when_a_watch_begins_or_ends() {
    static WATCHED: Reached = Reached::new();
    static ASLEEP: Reached = Reached::new();
    loom::model(|| {
        let m = machine();
        m.idle.count_spinning();
        let watcher = m.clone();
        let watcher = thread::spawn(move || {
            assert!(watcher.idle.begin_watch());
            let awake = watcher.rest(1);
            awake || watcher.idle.end_watch(|| watcher.any_g_waits())
        });
        m.make_own_work(&m.queues[0]);
        WATCHED.note(m.idle.is_watched());
        m.make_own_work(&m.queues[0]);
        let awake = watcher.join().unwrap();
        ASLEEP.note(!awake);
        m.idle.end_watch(|| false);
        assert!(!stranded(&m, awake), "a G waits while every M sleeps");
    });
    WATCHED.assert();
    ASLEEP.assert();
}

/// The M that goes to sleep leaves the lone G to the other one, which ends its watch.
#[test]
fn a_lone_g_is_not_stranded_between_a_watch_and_an_m_that_goes_to_sleep() {
    loom::model(|| {
        let m = machine();
        m.idle.count_spinning();
        assert!(m.idle.begin_watch());
        let sleeper = m.clone();
        let sleeper = thread::spawn(move || sleeper.rest(1));
        let watcher = m.clone();
        let watcher = thread::spawn(move || watcher.idle.end_watch(|| watcher.any_g_waits()));
        m.make_own_work(&m.queues[0]);
        let awake = [sleeper.join().unwrap(), watcher.join().unwrap()].contains(&true);
        assert!(!stranded(&m, awake), "a G waits while every M sleeps");
    });
}

#[test]
fn work_in_a_ps_queue_is_not_stranded() {
    loom::model(|| {
        let m = machine();
        m.idle.count_spinning();
        let sleeper = m.clone();
        let sleeper = thread::spawn(move || sleeper.rest(1));
        // The maker holds P 0 and may run its code for ever, so another M must run this work.
        m.make_work(&m.queues[0]);
        let awake = sleeper.join().unwrap();
        assert!(!stranded(&m, awake), "work lies in a queue while every M sleeps");
    });
}

/// A thread takes an idle P and makes work there, while the other M goes to sleep.
#[test]
fn work_of_a_p_that_was_idle_is_not_stranded() {
    static ASLEEP: Reached = Reached::new();
    loom::model(|| {
        let m = machine();
        let _ = m.idle.give_up(0, || true, || ());
        m.idle.count_spinning();
        let sleeper = m.clone();
        let sleeper = thread::spawn(move || sleeper.rest(1));
        if m.idle.take(|p| assert!(p == 0 || p == 1)) == Some(0) {
            m.make_work(&m.queues[0]);
        }
        let awake = sleeper.join().unwrap();
        ASLEEP.note(!awake);
        assert!(!stranded(&m, awake), "work lies in a queue while every M sleeps");
    });
    ASLEEP.assert();
}

#[test]
fn work_in_the_global_queue_is_not_stranded() {
    loom::model(|| {
        let m = machine();
        m.idle.count_spinning();
        let sleeper = m.clone();
        let sleeper = thread::spawn(move || sleeper.rest(1));
        // The maker is a thread without a P.
        m.make_work(&m.global);
        let awake = sleeper.join().unwrap();
        assert!(!stranded(&m, awake), "work lies in the global queue while every M sleeps");
    });
}

#[test]
fn an_m_that_is_to_watch_keeps_the_promise_to_look() {
    loom::model(|| {
        let m = machine();
        let _ = m.idle.give_up(1, || true, || ());
        m.idle.park(());
        let watcher = m.clone();
        let watcher = thread::spawn(move || watcher.wakes_one_to_watch());
        m.make_work(&m.global);
        let awake = watcher.join().unwrap();
        assert!(!stranded(&m, awake), "work lies in the global queue while an M only watches");
    });
}

#[test]
fn a_p_without_an_m_and_an_m_without_a_p_meet() {
    loom::model(|| {
        let m = machine();
        // No M holds the P, because there was none to give it to. The M has lost its own P.
        let starter = m.clone();
        let starter = thread::spawn(move || {
            starter.idle.give_up(0, || true, || ());
            starter.idle.take_pair(|_| ()).is_some()
        });
        let taken = m.idle.take_or_park((), |_| (), |()| None).is_some();
        let paired = starter.join().unwrap();
        assert!(taken != paired, "the M sleeps while the P is idle, or both took the P");
    });
}

#[test]
fn an_m_whose_thread_is_to_end_is_given_no_p() {
    loom::model(|| {
        let m = machine();
        m.idle.park(());
        // The M has been parked since before sysmon's first look.
        assert!(m.idle.take_unneeded(0, 1, |()| true).0.is_empty());
        let sysmon = m.clone();
        let sysmon = thread::spawn(move || !sysmon.idle.take_unneeded(0, 1, |()| true).0.is_empty());
        // A thread that has a P for an M takes a parked M, else starts a thread.
        let handed = m.idle.unpark().is_some();
        let ended = sysmon.join().unwrap();
        assert!(handed != ended, "the M was given a P and told to end, or neither");
    });
}

#[test]
fn a_p_that_is_given_up_and_an_m_that_wants_one_meet() {
    loom::model(|| {
        let m = machine();
        let giver = m.clone();
        let giver = thread::spawn(move || matches!(giver.idle.give_up(0, || true, || ()), GiveUp::To(())));
        let taken = m.idle.take_or_want((), |_| ()).is_some();
        let given = giver.join().unwrap();
        assert!(taken != given, "an M is in line while a P is idle, or it got two Ps");
    });
}

#[test]
fn an_m_to_which_a_g_is_bound_is_not_ended() {
    loom::model(|| {
        let m = machine();
        let homes = Arc::new(Homes::new());
        let sysmon = thread::spawn({
            let (m, homes) = (m.clone(), homes.clone());
            // The second look takes Ms that were parked since the first.
            move || (0..2).any(|_| !m.idle.take_unneeded(0, 1, |()| !homes.is_any()).0.is_empty())
        });
        // The M has run a G that stopped inside a poll, and found no other work.
        homes.add();
        m.idle.park(());
        assert!(!sysmon.join().unwrap(), "an M ends to which a G is bound");
    });
}

#[test]
fn a_spinner_that_finds_work_leaves_none_behind() {
    loom::model(|| {
        let m = machine();
        // One P is idle, and one M spins on the other P. Two pieces of work come.
        let _ = m.idle.give_up(0, || true, || ());
        m.idle.count_spinning();
        m.queues[1].fetch_add(1, Ordering::Release);
        let maker = m.clone();
        let maker = thread::spawn(move || maker.make_work(&maker.global));
        assert!(m.take_work());
        // The M may run its first piece for ever, so it wakes another M if there is more work. Models
        // `Sched::found`.
        if m.idle.withdraw(true, || m.any_work()) {
            m.wake_idle_p();
        }
        maker.join().unwrap();
        assert!(!stranded(&m, false), "a second piece of work was left behind");
    });
}
