//! Two snapshots compared: what has come between them.

use std::collections::HashMap;

use super::Snapshot;

impl Snapshot {
    /// Returns the snapshot without the green threads that were already there in an `earlier` one. Green
    /// threads that a program makes and never ends show so, in groups by the place of their spawn.
    ///
    /// A green thread is the same if its id is: no id is used twice in a process. Hogs and deadlocks are those
    /// of this snapshot, old and new. It may be called on any thread, and does not park its caller.
    ///
    /// ```
    /// use runtime::dump::Snapshot;
    ///
    /// runtime::block_on(|| {
    ///     let before = Snapshot::take()?;
    ///     let leaks = runtime::thread::Builder::new().name("leaks".into()).spawn(runtime::thread::park)?;
    ///     let new = Snapshot::take()?.since(&before);
    ///     assert_eq!(new.green_threads.len(), 1);
    ///     assert_eq!(new.green_threads[0].name.as_deref(), Some("leaks"));
    ///     leaks.cancel();
    ///     std::io::Result::Ok(())
    /// })?;
    /// # std::io::Result::Ok(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        self.clone().without(|id| earlier.get(id).is_some())
    }

    /// Returns the snapshot without the green threads with an id that `is_old`.
    pub(crate) fn without(mut self, is_old: impl Fn(u64) -> bool) -> Snapshot {
        self.green_threads.retain(|thread| !is_old(thread.id));
        self.keep_used_stacks();
        self
    }

    /// Drops the stacks that no green thread has.
    fn keep_used_stacks(&mut self) {
        let all = std::mem::take(&mut self.stacks);
        let mut places = HashMap::new();
        for thread in &mut self.green_threads {
            for stack in [&mut thread.stack, &mut thread.spawn_stack].into_iter().flatten() {
                *stack = *places.entry(*stack).or_insert_with_key(|&old| {
                    self.stacks.push(all[old].clone());
                    self.stacks.len() - 1
                });
            }
        }
    }
}
