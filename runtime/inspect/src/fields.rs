//! `fields`: how fields of several types are written as JSON.

use std::panic::Location;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::stacks::place::Place;

/// Writes a duration as a whole number of ms.
pub(crate) fn ms<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    ms_if_any(&Some(*time), serializer)
}

/// As [`ms`], and `null` without a duration.
pub(crate) fn ms_if_any<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
}

/// Writes a place with its file, line and column.
pub(crate) fn place<S: Serializer>(
    place: &Option<&'static Location<'static>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    place.map(Place::of).serialize(serializer)
}
