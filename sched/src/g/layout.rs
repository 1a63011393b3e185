//! Where the fields of a G lie, for debuggers, which read the memory of the process.

use std::mem::offset_of;

use super::origin::Origin;
use super::{G, TIMED};

/// Each field that a debugger reads, with its offset in a G; and what the scripts need to read these.
pub(crate) const FIELDS: [(&std::ffi::CStr, usize); 11] = [
    (c"g.id", offset_of!(G, id)),
    (c"g.runtime", offset_of!(G, runtime)),
    (c"g.coro", offset_of!(G, coro_ptr)),
    (c"g.origin", offset_of!(G, origin) + Origin::WORD),
    (c"origin.place", Origin::PLACE),
    (c"origin.name", Origin::NAME),
    (c"g.status", offset_of!(G, status)),
    (c"g.waits_since", offset_of!(G, waits_since)),
    (c"g.waits_for", offset_of!(G, waits_for)),
    (c"g.waits_for.timed", TIMED as usize),
    (c"g.drives", offset_of!(G, drives)),
];
