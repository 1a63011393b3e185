//! Messages: lists of buffers of which a part is done, for the next system call; and the descriptors in them.

use std::ffi::c_int;

use libc::{cmsghdr, iovec, msghdr};

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
    // SAFETY: the caller's promise. Nothing is read from `len` on. The control data of a C program may be
    // unaligned, so the macros of libc, which assume alignment, do not do.
    unsafe {
        let (control, len) = ((*message).msg_control.cast::<u8>(), (*message).msg_controllen);
        let mut at = 0;
        while at + size_of::<cmsghdr>() <= len {
            let part = control.add(at);
            let header = part.cast::<cmsghdr>().read_unaligned();
            if header.cmsg_len < size_of::<cmsghdr>() || header.cmsg_len > len - at {
                return;
            }
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let count = (header.cmsg_len - size_of::<cmsghdr>()) / size_of::<c_int>();
                let first = part.add(size_of::<cmsghdr>()).cast::<c_int>();
                (0..count).for_each(|i| call(first.add(i).read_unaligned()));
            }
            at += header.cmsg_len.next_multiple_of(size_of::<usize>());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// At each alignment, after a part of another kind.
    #[test]
    fn descriptors_of_a_message_are_found() {
        let word = |word: usize| word.to_ne_bytes();
        let kind = |level: c_int, kind: c_int| [level.to_ne_bytes(), kind.to_ne_bytes()].concat();
        let mut data = [&word(17)[..], &kind(libc::IPPROTO_IP, 1), &[9; 8]].concat();
        data.extend([&word(24)[..], &kind(libc::SOL_SOCKET, libc::SCM_RIGHTS)].concat());
        data.extend([7i32.to_ne_bytes(), 8i32.to_ne_bytes()].concat());
        for shift in 0..8 {
            let mut control = [&vec![0; shift][..], &data].concat();
            let mut message = plain(&mut []);
            message.msg_control = control.as_mut_ptr().wrapping_add(shift).cast();
            for (len, expected) in [(data.len(), vec![7, 8]), (data.len() - 1, vec![]), (0, vec![])] {
                message.msg_controllen = len;
                let found = RefCell::new(Vec::new());
                // SAFETY: the control data has these bytes.
                unsafe { descriptors(&raw const message, |fd| found.borrow_mut().push(fd)) };
                assert_eq!(found.into_inner(), expected);
            }
        }
    }

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
