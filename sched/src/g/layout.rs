//! Where the fields of a G lie, for debuggers, which read the memory of the process.

use std::mem::offset_of;

use super::G;

/// Each field that a debugger reads, with its offset in a G.
pub(crate) const FIELDS: [(&std::ffi::CStr, usize); 9] = [
    (c"g.id", offset_of!(G, id)),
    (c"g.runtime", offset_of!(G, runtime)),
    (c"g.coro", offset_of!(G, coro_ptr)),
    (c"g.place", offset_of!(G, place)),
    (c"g.name", offset_of!(G, name)),
    (c"g.status", offset_of!(G, status)),
    (c"g.waits_since", offset_of!(G, waits_since)),
    (c"g.waits_for", offset_of!(G, waits_for)),
    (c"g.drives", offset_of!(G, drives)),
];
