//! Where the memory of the process is not read.

/// Returns `false`.
pub fn read_bytes(_from: usize, _bytes: &mut [u8]) -> bool {
    false
}
