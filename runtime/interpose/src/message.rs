//! Messages: lists of buffers of which a part is done, for the next system call; and the descriptors in them.

use std::ffi::c_int;

use libc::{iovec, msghdr};

/// The bytes of a list of buffers.
///
/// # Safety
/// `list` points to `count` buffers' descriptions.
pub(super) unsafe fn total(list: *const iovec, count: usize) -> usize {
    if list.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    let buffers = unsafe { std::slice::from_raw_parts(list, count) };
    buffers.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.iov_len))
}

/// Returns the buffers without their first `done` bytes.
///
/// # Safety
/// `list` points to the descriptions of `count` buffers, which have more than `done` bytes.
pub(super) unsafe fn rest(list: *const iovec, count: usize, mut done: usize) -> Vec<iovec> {
    // SAFETY: the caller's promise.
    let buffers = unsafe { std::slice::from_raw_parts(list, count) };
    let mut rest = Vec::with_capacity(count);
    for buffer in buffers {
        let skipped = done.min(buffer.iov_len);
        done -= skipped;
        if skipped < buffer.iov_len {
            let base = buffer.iov_base.cast::<u8>().wrapping_add(skipped).cast();
            rest.push(iovec { iov_base: base, iov_len: buffer.iov_len - skipped });
        }
    }
    rest
}

/// Returns a message of these buffers alone: no address, no control data.
pub(super) fn plain(buffers: &mut [iovec]) -> msghdr {
    // SAFETY: all fields are integers and pointers, for which zero is a value.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = buffers.as_mut_ptr();
    message.msg_iovlen = buffers.len() as _;
    message
}

/// Calls `call` with each descriptor that a message carries (`SCM_RIGHTS`).
///
/// # Safety
/// `message` points to a message that the kernel has sent.
pub(super) unsafe fn descriptors(message: *const msghdr, call: impl Fn(c_int)) {
    // SAFETY: the caller's promise. Each part lies within the control data, as `CMSG_NXTHDR` checks.
    unsafe {
        let message = &*message;
        let end = message.msg_control.wrapping_byte_add(message.msg_controllen).cast::<c_int>();
        let mut part = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = part.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let mut at = libc::CMSG_DATA(part).cast::<c_int>();
                let stop = part.wrapping_byte_add(header.cmsg_len).cast::<c_int>().min(end);
                while at.wrapping_add(1) <= stop {
                    call(at.read_unaligned());
                    at = at.wrapping_add(1);
                }
            }
            part = libc::CMSG_NXTHDR(message, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_begins_within_a_buffer() {
        let mut bytes = [0u8; 10];
        let base = bytes.as_mut_ptr();
        let part = |at: usize, len| iovec { iov_base: base.wrapping_add(at).cast(), iov_len: len };
        let list = [part(0, 4), part(4, 0), part(4, 6)];
        // SAFETY: the list has three elements.
        let (all, rest) = unsafe { (total(list.as_ptr(), 3), rest(list.as_ptr(), 3, 5)) };
        assert_eq!(all, 10);
        let rest: Vec<_> =
            rest.iter().map(|part| (part.iov_base as usize - base as usize, part.iov_len)).collect();
        assert_eq!(rest, [(5, 5)]);
    }
}
