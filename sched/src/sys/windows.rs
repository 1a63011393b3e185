//! Calls of Windows. It does not tell how much room or how many mappings are left.

/// Returns `usize::MAX`: the system does not tell.
pub(crate) fn room() -> usize {
    usize::MAX
}

/// Returns `true`: Windows does not limit the number of mappings.
pub(crate) fn has_mappings(_number: usize) -> bool {
    true
}
