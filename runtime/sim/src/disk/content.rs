//! `Content`: the bytes of a file, as programs see them and as they are on the disk.

use std::collections::BTreeSet;

use super::super::random::Random;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// The bytes of a file.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// What programs see.
    data: Vec<u8>,
    /// What is on the disk.
    synced: Vec<u8>,
    /// The sectors of `data` that the next sync writes.
    dirty: BTreeSet<usize>,
    /// The sectors that cannot be read until they are written again.
    bad: BTreeSet<usize>,
}

/// What a power cut does to the bytes that are not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Nothing,
    All,
    /// The first sectors are kept.
    End,
    /// Some sectors are kept, and the length is the old or the new one.
    Some,
}

impl Loss {
    /// The probabilities of all but `Nothing`.
    pub(super) const CHANCES: [f64; 3] = [0.25, 0.25, 0.3];

    pub(super) fn of(option: usize) -> Loss {
        [Loss::Nothing, Loss::All, Loss::End, Loss::Some][option]
    }
}

impl Content {
    pub(super) fn len(&self) -> usize {
        self.data.len()
    }

    #[cfg(test)]
    fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// Reads into `buf`. Returns the number of bytes; `None` if one of their sectors is bad.
    pub(super) fn read(&self, at: usize, buf: &mut [u8]) -> Option<usize> {
        let from = self.data.get(at..).unwrap_or_default();
        let n = from.len().min(buf.len());
        if n > 0 && self.bad.range(at / SECTOR..(at + n).div_ceil(SECTOR)).next().is_some() {
            return None;
        }
        buf[..n].copy_from_slice(&from[..n]);
        Some(n)
    }

    /// Changes a bit of one of the bytes that a read of `n` bytes reads, also on the disk.
    pub(super) fn rot(&mut self, at: usize, n: usize, random: &mut Random) {
        if let Some(at) = self.any_of(at, n, random) {
            let bit = 1 << random.below(8);
            self.data[at] ^= bit;
            self.synced.get_mut(at).into_iter().for_each(|byte| *byte ^= bit);
        }
    }

    /// Makes one of the sectors bad that a read of `n` bytes reads.
    pub(super) fn spoil(&mut self, at: usize, n: usize, random: &mut Random) {
        if let Some(at) = self.any_of(at, n, random) {
            self.bad.insert(at / SECTOR);
        }
    }

    /// Returns the place of one of `n` bytes from `at` on; `None` if the file has none there.
    fn any_of(&self, at: usize, n: usize, random: &mut Random) -> Option<usize> {
        let n = self.data.len().saturating_sub(at).min(n);
        (n > 0).then(|| at + random.below(n))
    }

    /// Writes at another place of the file, some sectors away, as far as the file has room there. The file
    /// becomes as long as if the bytes had been written at `at`.
    pub(super) fn misdirect(&mut self, at: usize, bytes: &[u8], random: &mut Random) {
        self.grow(at + bytes.len());
        let sectors = self.data.len().div_ceil(SECTOR);
        if sectors > 1 {
            let sector = (at / SECTOR + 1 + random.below(sectors - 1)) % sectors;
            let wrong = (sector * SECTOR + at % SECTOR).min(self.data.len());
            let n = bytes.len().min(self.data.len() - wrong);
            self.write(wrong, &bytes[..n]);
        }
    }

    /// Makes the file at least `len` bytes long.
    pub(super) fn grow(&mut self, len: usize) {
        if len > self.data.len() {
            self.set_len(len);
        }
    }

    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        self.grow(end);
        self.bad.retain(|sector| !(at / SECTOR..end.div_ceil(SECTOR)).contains(sector));
        self.data[at..end].copy_from_slice(bytes);
        self.touch(at, end);
    }

    pub(super) fn set_len(&mut self, len: usize) {
        let old = self.data.len();
        self.data.resize(len, 0);
        self.touch(old.min(len), len);
        self.dirty.split_off(&len.div_ceil(SECTOR));
        self.bad.split_off(&len.div_ceil(SECTOR));
    }

    fn touch(&mut self, from: usize, to: usize) {
        if from < to {
            self.dirty.extend(from / SECTOR..to.div_ceil(SECTOR));
        }
    }

    /// Returns `true` if a power cut could change something in more than one way.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.data.len() != self.synced.len()
    }

    /// Writes all to the disk.
    pub(super) fn sync(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        self.synced.resize(self.data.len(), 0);
        copy(&self.data, &mut self.synced, dirty);
    }

    /// Forgets what the next sync would write, as Linux does after a sync that failed. Programs see it all
    /// the same.
    pub(super) fn fail_sync(&mut self) {
        self.dirty.clear();
    }

    /// Loses what is not synced, and keeps of it what `loss` says.
    pub(super) fn lose(&mut self, loss: Loss, random: &mut Random) {
        let (old, new) = (self.synced.len(), self.data.len());
        let dirty = std::mem::take(&mut self.dirty);
        let all = dirty.len();
        let (kept, len): (Vec<usize>, usize) = match loss {
            Loss::Nothing => (dirty.into_iter().collect(), new),
            Loss::All => (Vec::new(), old),
            Loss::End => {
                let kept: Vec<usize> = dirty.into_iter().take(random.below(all + 1)).collect();
                let reached = kept.last().map_or(0, |sector| (sector + 1) * SECTOR);
                (kept, reached.max(old).min(new))
            }
            Loss::Some => {
                let kept = dirty.into_iter().filter(|_| random.below(2) == 0).collect();
                (kept, if random.below(2) == 0 { old } else { new })
            }
        };
        self.synced.resize(len, 0);
        copy(&self.data, &mut self.synced, kept);
        self.data = self.synced.clone();
    }
}

/// Copies sectors, as far as both have them.
fn copy(from: &[u8], to: &mut [u8], sectors: impl IntoIterator<Item = usize>) {
    for sector in sectors {
        let start = sector * SECTOR;
        let end = (start + SECTOR).min(from.len()).min(to.len());
        if start < end {
            to[start..end].copy_from_slice(&from[start..end]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(synced: &[u8], then: impl FnOnce(&mut Content)) -> Content {
        let mut content = Content::default();
        content.write(0, synced);
        content.sync();
        then(&mut content);
        content
    }

    #[test]
    fn what_is_synced_survives() {
        for seed in 0..100 {
            for loss in [Loss::Nothing, Loss::All, Loss::End, Loss::Some] {
                let mut content = content(&[1; 1300], |content| content.write(1300, &[2; 900]));
                content.lose(loss, &mut Random::new(seed));
                assert_eq!(content.bytes()[..1300], [1; 1300], "{loss:?}");
                assert!(content.bytes()[1300..].iter().all(|&byte| byte == 2 || byte == 0));
                assert!(!content.is_dirty());
            }
        }
    }

    #[test]
    fn what_is_not_synced_is_lost_in_each_way() {
        let after = |loss, seed| {
            let mut content = content(&[1; 1024], |content| content.write(0, &[2; 1024]));
            content.lose(loss, &mut Random::new(seed));
            [content.bytes()[0], content.bytes()[1023]]
        };
        assert_eq!(after(Loss::All, 0), [1, 1]);
        assert_eq!(after(Loss::Nothing, 0), [2, 2]);
        let ends: BTreeSet<_> = (0..50).map(|seed| after(Loss::End, seed)).collect();
        assert_eq!(ends, [[1, 1], [2, 1], [2, 2]].into());
        let some: BTreeSet<_> = (0..50).map(|seed| after(Loss::Some, seed)).collect();
        assert_eq!(some, [[1, 1], [1, 2], [2, 1], [2, 2]].into());
    }

    #[test]
    fn a_cut_file_that_grows_again_has_zeros() {
        let mut content = content(&[1; 1024], |content| {
            content.set_len(100);
            content.set_len(1024);
        });
        content.sync();
        content.lose(Loss::All, &mut Random::new(0));
        assert_eq!(content.bytes()[100..], [0; 924]);
        assert_eq!(content.bytes()[..100], [1; 100]);
    }

    #[test]
    fn a_sync_after_one_that_failed_writes_nothing() {
        let mut content = content(&[1; 512], |content| {
            content.write(0, &[2; 512]);
            content.fail_sync();
            content.sync();
        });
        assert_eq!(content.bytes(), [2; 512]);
        content.lose(Loss::Nothing, &mut Random::new(0));
        assert_eq!(content.bytes(), [1; 512]);
    }

    #[test]
    fn a_cut_that_is_not_synced_may_be_lost() {
        let mut content = content(&[1; 1024], |content| content.set_len(0));
        assert!(content.is_dirty());
        content.lose(Loss::All, &mut Random::new(0));
        assert_eq!(content.bytes(), [1; 1024]);
    }
}
