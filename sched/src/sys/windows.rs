//! Calls of Windows. It does not report how much room or how many mappings are left.

/// Returns `usize::MAX`: the system does not report it.
pub(crate) fn room() -> usize {
    usize::MAX
}

/// Returns `true`: Windows does not limit the number of mappings.
pub(crate) fn has_mappings() -> bool {
    true
}
