//! Reads of memory that other threads may unmap during the read, for dumps.

use crate::sys::peek;

/// Copies the bytes from `from` on. Returns `false` if not all can be read.
pub fn read_bytes(from: usize, bytes: &mut [u8]) -> bool {
    peek::bytes(from, bytes)
}
