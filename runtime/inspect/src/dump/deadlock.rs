//! Deadlocks of some: circles of green threads of which each waits for the next.
//!
//! A snapshot gives a graph. An arrow from one green thread to another says: the first goes on only after the
//! second has done something. A thread that waits for a lock has an arrow to the thread that took it. A
//! joiner has one to the thread that it joins, and the owner of a scope to each thread in it. In a circle of
//! such arrows no thread ever goes on.
//!
//! A writer that waits for the readers of a lock has an arrow to each of them that waits itself. A reader
//! that waits while other readers have the lock is behind a writer. Which writer is not known. So the reader
//! has an arrow to each writer that waits, and no arrow if the wait of one of these may end. If the lock
//! counts more writers than the snapshot shows, then a future or a plain OS thread waits to write, and may
//! leave. A circle with such a reader is suspected.
//!
//! A waiter for the upgradable share has an arrow to the writer or the upgradable reader that has the lock.
//! Behind a waiting writer it has no arrow.
//!
//! A snapshot is not of one moment. So a circle counts only if two snapshots show it, and each of its threads
//! in the same wait, by the wait's number. None of these threads ran in between, and the arrows did not
//! change. The look that held a thread sees what that thread recorded of its locks before it parked. So the
//! second snapshot shows no lock that was unlocked before.
//!
//! A wait that time alone may end gives no arrow.
//!
//! A thread that waits for a channel has no arrow: which threads have the handles of its other end is not
//! known. A handle moves as any value does, and what it leaves behind looks as the handle itself. So a search
//! of the memory does not help.
//!
//! One thing is not certain: a guard may have been sent to another thread, and the lock still names the
//! thread that took it. Once another thread was seen to drop a guard in this process, circles with a lock are
//! reported as suspected.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display, Formatter};

use waits::locks::UPGRADABLE_SHARE;

use super::text::{Described, Indented, Named, count};
use super::{Frame, GreenThread, Object, Snapshot};

/// Green threads that wait for what will not happen.
///
/// Its [`Display`] has a line for each of them, with its stack where it is known.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// True if none of them ever goes on, unless it is cancelled. False if that is only suspected.
    pub certain: bool,
    /// What is wrong.
    pub kind: DeadlockKind,
    /// The green threads. In a circle each waits for the next, and the last for the first.
    pub members: Vec<DeadlockMember>,
    /// How many further green threads wait for one of them, directly or not.
    pub behind: usize,
    /// The address of the lock that has leaked; `None` for a circle. It stays the same while green threads
    /// come to wait for it, and leave.
    pub(super) leaked: Option<u64>,
}

/// The kind of a [`Deadlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadlockKind {
    /// They wait for each other in a circle. A circle of one is a green thread that waits for itself.
    Circle,
    /// They wait for a lock that was taken by a thread which has ended.
    Leak,
}

/// A green thread in a [`Deadlock`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadlockMember {
    /// Its id.
    pub id: u64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What it waits for, in words.
    pub waits_for: String,
    /// The number of its wait.
    pub number: u32,
    /// Its stack, the innermost frame first; empty if it is not known.
    pub stack: Vec<Frame>,
}

/// Returns the deadlocks that `earlier` and `later` both show. The report is of `later`.
pub(super) fn find(earlier: &Snapshot, later: &Snapshot) -> Vec<Deadlock> {
    let stuck: Vec<&GreenThread> =
        later.green_threads.iter().filter(|thread| is_stuck(earlier.get(thread.id), Some(thread))).collect();
    let index: HashMap<u64, usize> = stuck.iter().enumerate().map(|(at, thread)| (thread.id, at)).collect();
    let kept_out = KeptOut::of(later);
    let arrows: Vec<Vec<usize>> = stuck
        .iter()
        .map(|thread| match kept_out.by(thread) {
            Some(ids) => {
                ids.iter().map(|id| index.get(id).copied()).collect::<Option<_>>().unwrap_or_default()
            }
            None => {
                // A scope or the readers of a lock may have become fewer: what both looks show has not
                // changed.
                let before = earlier.get(thread.id).map(needs).unwrap_or_default();
                let both = needs(thread).into_iter().filter(|id| before.contains(id));
                both.filter_map(|id| index.get(&id).copied()).collect()
            }
        })
        .collect();
    let into = turned(&arrows);
    let mut found = Vec::new();
    for circle in circles(&arrows) {
        let members: Vec<_> = circle.iter().map(|&at| stuck[at]).collect();
        let certain = !waits::locks::guards_travel() || !members.iter().any(|member| waits_for_lock(member));
        let certain = certain
            && members.iter().all(|member| {
                let looks = [earlier.get(member.id), Some(*member)];
                looks.into_iter().flatten().all(|look| kept_out.knows_all_writers(look))
            });
        let behind = behind(&into, &circle);
        found.push(Deadlock::of(later, certain, None, &members, behind));
    }
    found.extend(leaks(earlier, later, &stuck));
    found
}

/// Returns the locks of threads that have ended, for which green threads wait.
fn leaks(earlier: &Snapshot, later: &Snapshot, stuck: &[&GreenThread]) -> Vec<Deadlock> {
    let mut leaked: Vec<(u64, Vec<&GreenThread>)> = Vec::new();
    for &thread in stuck {
        if let Some(lock) = leaked_lock(earlier, later, thread) {
            match leaked.iter_mut().find(|(address, _)| *address == lock) {
                Some((_, members)) => members.push(thread),
                None => leaked.push((lock, vec![thread])),
            }
        }
    }
    leaked.into_iter().map(|(lock, members)| Deadlock::of(later, false, Some(lock), &members, 0)).collect()
}

/// Returns `true` if `later` is in the same wait as `earlier`, and time alone does not end that wait.
fn is_stuck(earlier: Option<&GreenThread>, later: Option<&GreenThread>) -> bool {
    let (Some(earlier), Some(later)) = (earlier, later) else { return false };
    let (Some(was), Some(is)) = (&earlier.wait, &later.wait) else { return false };
    is.number.is_some() && was.number == is.number && !is.may_end && !was.may_end
}

/// Returns the ids of the threads that must each do something before `thread` goes on.
fn needs(thread: &GreenThread) -> Vec<u64> {
    match thread.object() {
        Some(Object::Mutex { locked: true, holder, .. } | Object::RwLock { writer: true, holder, .. }) => {
            holder.iter().copied().collect()
        }
        // More records than readers: a guard was dropped by another thread, and the record of its taker
        // stayed.
        Some(Object::RwLock { to_write: true, readers, waiting_readers, .. })
            if waiting_readers.len() <= *readers =>
        {
            waiting_readers.clone()
        }
        Some(Object::GreenThread { id }) => vec![*id],
        Some(Object::Scope { green_threads }) => green_threads.clone(),
        _ => Vec::new(),
    }
}

/// The threads that keep a reader out of a lock that readers have, by the address of the lock.
struct KeptOut {
    /// The ids of the threads that wait to write.
    writers: HashMap<usize, Vec<u64>>,
    /// The id of the thread that has the upgradable share, if it is recorded.
    upgradable: HashMap<usize, Vec<u64>>,
}

impl KeptOut {
    fn of(snapshot: &Snapshot) -> KeptOut {
        let (mut writers, mut upgradable) = (HashMap::<_, Vec<u64>>::new(), HashMap::<_, Vec<u64>>::new());
        for thread in &snapshot.green_threads {
            if let Some(Object::RwLock { address, to_write: true, .. }) = thread.object() {
                writers.entry(*address).or_default().push(thread.id);
            }
            for share in thread.shares.iter().filter(|&share| share & UPGRADABLE_SHARE != 0) {
                upgradable.entry(share & !UPGRADABLE_SHARE).or_default().push(thread.id);
            }
        }
        KeptOut { writers, upgradable }
    }

    /// Returns the ids of the writers behind one of which `thread` waits to read, if readers have the lock.
    /// For a thread that waits for the upgradable share, returns the id of the thread that has it.
    fn by(&self, thread: &GreenThread) -> Option<&[u64]> {
        let Some(&Object::RwLock { address, writer: false, to_write: false, .. }) = thread.object() else {
            return None;
        };
        let upgradable = thread.line.is_some_and(|line| line.upgradable);
        let ids = if upgradable { &self.upgradable } else { &self.writers };
        ids.get(&address).map(Vec::as_slice)
    }

    /// Returns `false` if `thread` may wait behind a writer that the snapshot does not show.
    fn knows_all_writers(&self, thread: &GreenThread) -> bool {
        let Some(&Object::RwLock { address, writer: false, to_write: false, .. }) = thread.object() else {
            return true;
        };
        let known = self.writers.get(&address).map_or(0, Vec::len);
        thread.line.is_none_or(|line| line.upgradable || line.writers.is_some_and(|writers| writers <= known))
    }
}

fn waits_for_lock(thread: &GreenThread) -> bool {
    matches!(thread.object(), Some(Object::Mutex { .. } | Object::RwLock { .. }))
}

/// Returns the address of the lock for which `thread` waits, if the holder of that lock has ended. Both looks
/// then name the holder, and none of them has met it. A snapshot visits the green threads one after the
/// other. So one look alone may name a holder that unlocks and ends before its turn comes.
fn leaked_lock(earlier: &Snapshot, later: &Snapshot, thread: &GreenThread) -> Option<u64> {
    let (Object::Mutex { address, .. } | Object::RwLock { address, .. }) = thread.object()? else {
        return None;
    };
    let holder = *needs(thread).first()?;
    let had_it = earlier.get(thread.id).is_some_and(|before| needs(before).first() == Some(&holder));
    let lives = |look: &Snapshot| look.get(holder).is_some() || look.plain_threads.contains(&holder);
    (had_it && !lives(earlier) && !lives(later)).then_some(*address as u64)
}

/// Returns one circle for each set of threads that all reach each other by arrows.
fn circles(arrows: &[Vec<usize>]) -> Vec<Vec<usize>> {
    // Threads without an arrow to go on along are in no circle, and neither are threads that only lead to
    // such threads. What is left after they are taken away has a circle behind each thread.
    let into = turned(arrows);
    let mut left: Vec<usize> = arrows.iter().map(Vec::len).collect();
    let mut done: Vec<usize> = (0..arrows.len()).filter(|&at| left[at] == 0).collect();
    while let Some(at) = done.pop() {
        for &from in &into[at] {
            left[from] -= 1;
            if left[from] == 0 {
                done.push(from);
            }
        }
    }
    let mut found = Vec::new();
    // In which walk a thread was first met; 0 for none.
    let mut walk_of = vec![0; arrows.len()];
    for start in 0..arrows.len() {
        if left[start] == 0 || walk_of[start] != 0 {
            continue;
        }
        let (mut path, mut at) = (Vec::new(), start);
        while walk_of[at] == 0 {
            walk_of[at] = start + 1;
            path.push(at);
            at = *arrows[at].iter().find(|&&to| left[to] != 0).expect("an arrow leads on to a circle");
        }
        if walk_of[at] == start + 1 {
            // The walk has come back to a thread of its own: from there on it is a circle.
            let begin = path.iter().position(|&met| met == at).expect("the walk has met it");
            found.push(path.split_off(begin));
        }
    }
    found
}

/// Returns for each thread the threads that have an arrow to it.
fn turned(arrows: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); arrows.len()];
    for (from, to) in arrows.iter().enumerate() {
        to.iter().for_each(|&to| into[to].push(from));
    }
    into
}

/// Returns how many threads beside those of the circle have a way by arrows into it. `into` has the arrows by
/// their ends.
fn behind(into: &[Vec<usize>], circle: &[usize]) -> usize {
    let mut seen: HashSet<usize> = circle.iter().copied().collect();
    let mut left = circle.to_vec();
    while let Some(at) = left.pop() {
        left.extend(into[at].iter().filter(|&&from| seen.insert(from)));
    }
    seen.len() - circle.len()
}

impl Deadlock {
    fn of(
        snapshot: &Snapshot,
        certain: bool,
        leaked: Option<u64>,
        members: &[&GreenThread],
        behind: usize,
    ) -> Deadlock {
        let member = |thread: &&GreenThread| {
            let wait = thread.wait.as_ref();
            let (reason, object) = (wait.map(|wait| wait.reason.to_string()), thread.object());
            let object = object.map(|object| format!(" ({})", Described { snapshot, object }));
            DeadlockMember {
                id: thread.id,
                name: thread.name.clone(),
                waits_for: reason.unwrap_or_default() + &object.unwrap_or_default(),
                number: wait.and_then(|wait| wait.number).unwrap_or_default(),
                stack: snapshot.stack(thread).to_vec(),
            }
        };
        let kind = if leaked.is_some() { DeadlockKind::Leak } else { DeadlockKind::Circle };
        let members = members.iter().map(member).collect();
        Deadlock { certain, kind, members, behind, leaked }
    }

    /// Returns `true` if its green threads are in the same waits in `later`; for a leak, if one of them is.
    pub(super) fn lasts_in(&self, later: &Snapshot) -> bool {
        let number = |id| later.get(id).and_then(|thread| thread.wait.as_ref()?.number);
        let mut lasts = self.members.iter().map(|member| number(member.id) == Some(member.number));
        if self.leaked.is_some() { lasts.any(|lasts| lasts) } else { lasts.all(|lasts| lasts) }
    }

    /// Returns `true` if both name the same waits of the same green threads; for leaks, if both name the same
    /// lock.
    pub(super) fn same(&self, other: &Deadlock) -> bool {
        if self.leaked.is_some() {
            return self.leaked == other.leaked;
        }
        let key = |deadlock: &Deadlock| {
            let mut key: Vec<_> = deadlock.members.iter().map(|member| (member.id, member.number)).collect();
            key.sort_unstable();
            key
        };
        self.kind == other.kind && key(self) == key(other)
    }
}

impl Display for Deadlock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.certain { "deadlock: " } else { "suspected deadlock: " })?;
        match (self.kind, self.members.len()) {
            (DeadlockKind::Circle, 1) => f.write_str("a green thread waits for itself")?,
            (DeadlockKind::Circle, n) => write!(f, "{} wait for each other", count(n))?,
            (DeadlockKind::Leak, n) => {
                let waiting = if n == 1 { "a green thread waits".into() } else { count(n) + " wait" };
                write!(f, "{waiting} for a lock of a thread that has ended")?;
            }
        }
        if self.behind > 0 {
            write!(f, ", and {} more for these", self.behind)?;
        }
        for member in &self.members {
            write!(
                f,
                "\n  {} waits for {}",
                Named { id: member.id, name: member.name.as_deref() },
                member.waits_for
            )?;
            member.stack.iter().try_for_each(|frame| write!(f, "\n{}", Indented(frame)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Reason, State, Wait};
    use super::*;

    #[test]
    fn circles_are_found_and_nothing_else() {
        let of = |arrows: &[&[usize]]| circles(&arrows.iter().map(|to| to.to_vec()).collect::<Vec<_>>());
        assert!(of(&[]).is_empty());
        assert!(of(&[&[1], &[2], &[]]).is_empty());
        assert_eq!(of(&[&[0]]), [[0]]);
        assert_eq!(of(&[&[1], &[2], &[1]]), [[1, 2]]);
        // The second of two arrows leads to the circle; two circles beside each other; one with an arrow into
        // it.
        assert_eq!(of(&[&[1, 2], &[], &[0]]), [[0, 2]]);
        assert_eq!(of(&[&[1], &[0], &[3], &[2], &[2]]), [[0, 1], [2, 3]]);
    }

    /// Returns a green thread that waits for the end of another one.
    fn joiner(id: u64, of: u64, number: u32) -> GreenThread {
        GreenThread {
            id,
            name: None,
            state: State::Waiting,
            wait: Some(Wait {
                reason: Reason::End,
                waited: Duration::ZERO,
                due_in: None,
                may_end: false,
                number: Some(number),
                object: Some(Object::GreenThread { id: of }),
            }),
            spawned_at: None,
            labels: Vec::new(),
            parent: None,
            scope: None,
            future: None,
            stack: None,
            spawn_stack: None,
            shares: Vec::new(),
            line: None,
        }
    }

    fn of_both(earlier: &Snapshot, later: &Snapshot) -> Vec<Deadlock> {
        find(earlier, later)
    }

    #[test]
    fn a_circle_counts_only_if_each_wait_is_the_same_in_both_looks() {
        let look = |numbers: [u32; 2]| Snapshot {
            green_threads: vec![joiner(1, 2, numbers[0]), joiner(2, 1, numbers[1])],
            ..Snapshot::default()
        };
        let found = of_both(&look([7, 8]), &look([7, 8]));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].certain, found[0].members.len()), (true, 2));
        // One of them has waited for the same again: it ran in between, so it was not stuck.
        for earlier in [[6, 8], [7, 9]] {
            assert!(of_both(&look(earlier), &look([7, 8])).is_empty(), "{earlier:?}");
        }
    }

    /// Returns a green thread that waits for the mutex that green thread 9 has taken.
    fn locker(id: u64, number: u32) -> GreenThread {
        let mut thread = joiner(id, 9, number);
        thread.wait.as_mut().unwrap().object =
            Some(Object::Mutex { address: 0x1000, locked: true, holder: Some(9) });
        thread
    }

    fn look(green_threads: Vec<GreenThread>) -> Snapshot {
        Snapshot { green_threads, ..Snapshot::default() }
    }

    #[test]
    fn a_lock_has_leaked_if_no_look_meets_its_holder() {
        let gone = look(vec![locker(1, 7)]);
        assert_eq!(of_both(&gone, &gone).len(), 1);
        // The holder has unlocked and ended while the later look was under way: it met the waiter before, and
        // the holder never.
        let with_holder = look(vec![locker(1, 7), joiner(9, 10, 3)]);
        assert!(of_both(&with_holder, &gone).is_empty());
        assert!(of_both(&gone, &with_holder).is_empty());
        let plain = Snapshot { plain_threads: vec![9], ..look(vec![locker(1, 7)]) };
        assert!(of_both(&plain, &gone).is_empty());
        // Another thread had the lock before.
        let mut before = look(vec![locker(1, 7)]);
        let wait = before.green_threads[0].wait.as_mut().unwrap();
        wait.object = Some(Object::Mutex { address: 0x1000, locked: true, holder: Some(8) });
        assert!(of_both(&before, &gone).is_empty());
    }

    #[test]
    fn a_leak_is_the_same_while_one_of_its_waiters_lasts() {
        let leak = |looks: &Snapshot| of_both(looks, looks).remove(0);
        let looks =
            [look(vec![locker(1, 7)]), look(vec![locker(1, 7), locker(2, 4)]), look(vec![locker(2, 4)])];
        let [first, both, second] = [0, 1, 2].map(|at| leak(&looks[at]));
        assert!(first.same(&both) && both.same(&second));
        assert!(first.lasts_in(&looks[1]) && both.lasts_in(&looks[2]) && !first.lasts_in(&looks[2]));
        // The same green thread waits again, for another lock.
        let mut other = look(vec![locker(1, 8)]);
        other.green_threads[0].wait.as_mut().unwrap().object =
            Some(Object::Mutex { address: 0x2000, locked: true, holder: Some(9) });
        assert!(!first.same(&leak(&other)) && !first.lasts_in(&other));
    }

    #[test]
    fn those_behind_a_circle_are_counted() {
        let arrows = [vec![1], vec![0], vec![0], vec![2], vec![]];
        assert_eq!(behind(&turned(&arrows), &[0, 1]), 2);
    }
}
