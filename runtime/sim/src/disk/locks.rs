//! `Locks`: who has locked a file. Each open file is an owner of its own.

/// The locks of a file.
#[derive(Debug, Default)]
pub(super) struct Locks {
    owners: Vec<u64>,
    exclusive: bool,
}

impl Locks {
    /// Takes a lock, in the place of the one that `owner` has. Returns `false` if another owner is in the
    /// way; `owner` then keeps what it has.
    pub(super) fn take(&mut self, owner: u64, exclusive: bool) -> bool {
        let others = self.owners.iter().any(|&other| other != owner);
        if others && (exclusive || self.exclusive) {
            return false;
        }
        if !self.owners.contains(&owner) {
            self.owners.push(owner);
        }
        self.exclusive = exclusive;
        true
    }

    pub(super) fn release(&mut self, owner: u64) {
        self.owners.retain(|&other| other != owner);
    }
}

#[cfg(test)]
mod tests {
    use super::Locks;

    #[test]
    fn locks_exclude_as_those_of_the_system_do() {
        let mut locks = Locks::default();
        assert!(locks.take(1, false) && locks.take(2, false));
        assert!(!locks.take(1, true));
        locks.release(2);
        assert!(locks.take(1, true) && !locks.take(2, false) && !locks.take(2, true));
        assert!(locks.take(1, false) && locks.take(2, false));
        locks.release(1);
        locks.release(2);
        assert!(locks.take(3, true));
    }
}
