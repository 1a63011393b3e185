//! Reads of memory that other threads may write or unmap during the read: the kernel copies it. What was read
//! may be of several moments.

#![allow(unsafe_code)]

use std::ptr;

/// Copies the words from `from` on. Returns `false` if not all can be read.
pub(crate) fn words(from: usize, words: &mut [usize]) -> bool {
    let bytes = size_of_val(words);
    // SAFETY: the words are borrowed as bytes, and any bytes are words.
    self::bytes(from, unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes) })
}

/// Returns the word at `from`; `None` if it cannot be read.
pub(crate) fn word(from: usize) -> Option<usize> {
    let mut word = [0];
    words(from, &mut word).then_some(word[0])
}

/// Copies the bytes from `from` on. Returns `false` if not all can be read.
#[inline(never)]
pub(crate) fn bytes(from: usize, bytes: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: ptr::with_exposed_provenance_mut(from), iov_len: bytes.len() };
    // SAFETY: the local range is `bytes`. The kernel checks the other one.
    unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) == bytes.len() as isize }
}
