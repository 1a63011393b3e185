//! The log and the vote on disk: one file that only grows, so that one sync makes a whole batch of records
//! durable.
//!
//! ```text
//!   batch = length of the records (4 bytes)  checksum of offset and records (4 bytes)  records (postcard)
//! ```
//!
//! A batch is written after the one before it was synced. So a crash can damage the last batch only, and no
//! message was sent that depends on it: it is cut off. Damage before the last batch is an error, because
//! acknowledged changes would be lost.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use runtime::fs::{self, File};
use serde::{Deserialize, Serialize};

use super::consensus::Recovered;
use super::message::{Entry, Id, wrong};

const HEAD: usize = 8;

/// A part of what a node must not forget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Record {
    Vote {
        term: u64,
        voted_for: Option<Id>,
    },
    /// The entry replaces all entries from `index` on.
    Entry {
        index: u64,
        entry: Entry,
    },
}

#[derive(Debug)]
pub(crate) struct Storage {
    file: File,
    /// The length of the file.
    end: usize,
}

impl Storage {
    /// Opens the file in the folder `data`, which is made if there is none, and reads what it has.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` for a file that is damaged, and the system's errors, also if another process has
    /// the file open.
    pub(crate) fn open(data: &Path) -> io::Result<(Storage, Recovered)> {
        fs::create_dir_all(data)?;
        let path = data.join("log");
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        file.try_lock()?;
        // A file is found after a crash only if its folder was synced, too.
        File::open(data)?.sync_all()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (recovered, good) = recover(&bytes)?;
        if good < bytes.len() {
            file.set_len(good as u64)?;
            file.sync_all()?;
        }
        file.seek(SeekFrom::Start(good as u64))?;
        Ok((Storage { file, end: good }, recovered))
    }

    /// Writes the records, and returns when they are on disk.
    ///
    /// # Errors
    ///
    /// Returns the system's error. What the file has then is not known: the storage must be opened again.
    pub(crate) fn write(&mut self, records: &[Record]) -> io::Result<()> {
        let mut batch = vec![0; HEAD];
        for record in records {
            batch = postcard::to_extend(record, batch).map_err(wrong)?;
        }
        let length = u32::try_from(batch.len() - HEAD).map_err(wrong)?;
        let checksum = checksum(self.end, &batch[HEAD..]);
        batch[..4].copy_from_slice(&length.to_le_bytes());
        batch[4..HEAD].copy_from_slice(&checksum.to_le_bytes());
        self.file.write_all(&batch)?;
        self.end += batch.len();
        if broken!("not_synced") { Ok(()) } else { self.file.sync_data() }
    }
}

/// Returns the checksum of the batch at an offset of the file.
fn checksum(at: usize, records: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(at as u64).to_le_bytes());
    hasher.update(records);
    hasher.finalize()
}

/// Returns what the file has, and how many of its bytes are good.
fn recover(bytes: &[u8]) -> io::Result<(Recovered, usize)> {
    let (mut good, mut recovered) = (0, Recovered::default());
    while let Some(records) = batch_at(bytes, good) {
        good += HEAD + records.len();
        add(&mut recovered, records)?;
    }
    // After a torn batch there is none. Another batch behind this one was synced later, and so was this one.
    if (good + 1..bytes.len()).any(|later| batch_at(bytes, later).is_some()) {
        return Err(wrong("the log is damaged before its end"));
    }
    Ok((recovered, good))
}

/// Returns the records of the batch at an offset, or `None` if there is no good batch.
fn batch_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let (head, rest) = bytes.get(at..)?.split_first_chunk::<HEAD>()?;
    let (length, expected) = head.split_at(4);
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let records = rest.get(..length).filter(|records| !records.is_empty())?;
    (checksum(at, records).to_le_bytes() == expected).then_some(records)
}

/// Adds the records of a batch.
fn add(to: &mut Recovered, mut batch: &[u8]) -> io::Result<()> {
    while !batch.is_empty() {
        let (record, rest) = postcard::take_from_bytes(batch).map_err(wrong)?;
        batch = rest;
        match record {
            Record::Vote { term, voted_for } => (to.term, to.voted_for) = (term, voted_for),
            Record::Entry { index, .. } if !(1..=to.log.last_index() + 1).contains(&index) => {
                return Err(wrong("the log has a gap"));
            }
            Record::Entry { index, entry } => to.log.put(index, entry),
        }
    }
    Ok(())
}
