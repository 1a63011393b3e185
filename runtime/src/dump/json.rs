//! A snapshot as JSON.

use std::io::{self, Write};
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::Snapshot;

/// The number in the field `version`. It grows when a field is removed or changes its meaning, not when one is added.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<'s> {
    version: u32,
    #[serde(flatten)]
    snapshot: &'s Snapshot,
}

impl Snapshot {
    /// Returns the snapshot as JSON: an object with the fields of [`Snapshot`], and `version`, which is 1. Names of enums are in
    /// snake case: `"state": "waiting"`. A field without a value is `null`.
    ///
    /// Needs the feature `dump-json`.
    ///
    /// ```
    /// # runtime::block_on(|| {
    /// let json = runtime::dump::Snapshot::take().unwrap().to_json();
    /// assert!(json.starts_with(r#"{"version":1,"green_threads":[{"id":"#));
    /// # });
    /// ```
    pub fn to_json(&self) -> String {
        serde_json::to_string(&Versioned { version: VERSION, snapshot: self })
            .expect("a snapshot has strings as its keys")
    }

    /// Writes what [`to_json`](Snapshot::to_json) returns, without keeping it in memory.
    ///
    /// # Errors
    ///
    /// Returns the errors of `w`.
    pub fn write_json(&self, w: &mut (impl Write + ?Sized)) -> io::Result<()> {
        serde_json::to_writer(w, &Versioned { version: VERSION, snapshot: self }).map_err(io::Error::from)
    }
}

/// Writes a duration as a whole number of ms.
pub(super) fn ms<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    ms_if_any(&Some(*time), serializer)
}

pub(super) fn ms_if_any<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
}
