//! The shares of reader-writer locks that a thread has, as locks record them for dumps while they are
//! tracked. A lock is named by its address. The records of a period of tracking count in that period only.

use crate::api::park::me;
pub use crate::g::shares::{period, set_period};

/// Records that the caller has `share`. *Runs on: the thread that has just taken the share.*
#[cold]
#[inline(never)]
pub fn add(share: usize) {
    me().rare_or_new().shares.borrow_mut().of_period(period()).push(share);
}

/// Removes one record of `share`. Returns `false` if the caller has no such record in this period. *Runs on:
/// the thread that is about to give the share back.*
#[cold]
#[inline(never)]
pub fn remove(share: usize) -> bool {
    let me = me();
    let mut shares = me.rare_or_new().shares.borrow_mut();
    let shares = shares.of_period(period());
    let at = shares.iter().rposition(|&other| other == share);
    at.is_some_and(|at| {
        shares.swap_remove(at);
        true
    })
}

#[cfg(test)]
mod tests {
    use super::{add, me, period, remove, set_period};

    fn recorded() -> Vec<usize> {
        me().rare_or_new().shares.borrow().in_period(period()).to_vec()
    }

    /// One test for all: the period is that of the process.
    #[test]
    fn shares_count_in_their_period() {
        set_period(7);
        [16, 32, 16].into_iter().for_each(add);
        assert!(remove(16));
        assert_eq!(recorded(), [16, 32]);
        let other = std::thread::spawn(|| (recorded(), remove(32)));
        assert_eq!(other.join().unwrap(), (Vec::new(), false), "another thread has no share");
        set_period(8);
        assert_eq!(recorded(), []);
        assert!(!remove(16), "the records of an earlier period are gone");
        add(64);
        assert_eq!(recorded(), [64]);
        assert!(remove(64) && !remove(64));
        set_period(0);
    }
}
