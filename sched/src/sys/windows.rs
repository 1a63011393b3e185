//! Calls of Windows. It does not report how much room or how many mappings are left.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{from_ref, null_mut};

/// What `VirtualQuery` says of the pages around an address.
#[repr(C)]
struct Pages {
    start: usize,
    /// Where the allocation begins of which the pages are a part.
    allocation: usize,
    allocation_protect: u32,
    partition: u16,
    bytes: usize,
    state: u32,
    protect: u32,
    kind: u32,
}

#[link(name = "kernel32")]
unsafe extern "system" {
    fn VirtualQuery(address: *const c_void, pages: *mut MaybeUninit<Pages>, bytes: usize) -> usize;
    fn GetStdHandle(which: u32) -> *mut c_void;
    fn WriteFile(
        file: *mut c_void,
        from: *const u8,
        bytes: u32,
        written: *mut u32,
        overlapped: *mut c_void,
    ) -> i32;
}

/// Returns the lowest address of the stack that the caller runs on; 0 if the system does not say. A handler
/// of exceptions may call it.
pub(crate) fn end_of_stack() -> usize {
    let mut pages = MaybeUninit::uninit();
    // SAFETY: the call only looks the address up, and writes `pages`, which has that size.
    if unsafe { VirtualQuery(from_ref(&pages).cast(), &raw mut pages, size_of::<Pages>()) } == 0 {
        return 0;
    }
    // SAFETY: the call has written it.
    unsafe { pages.assume_init_ref() }.allocation
}

/// Writes to the standard error stream, past std's lock. A handler of exceptions may call it.
pub(crate) fn write_error(mut text: &[u8]) {
    const STANDARD_ERROR: u32 = -12_i32 as u32;
    while !text.is_empty() {
        let (mut written, most) = (0, text.len().min(1 << 20));
        // SAFETY: the call reads `most` bytes of `text`, and writes `written`. It refuses a handle that is
        // none.
        let done = unsafe {
            let error = GetStdHandle(STANDARD_ERROR);
            WriteFile(error, text.as_ptr(), most as u32, &raw mut written, null_mut())
        };
        if done == 0 || written == 0 {
            // There is no other place for the text.
            return;
        }
        text = &text[written as usize..];
    }
}

/// Returns `usize::MAX`: the system does not report it.
pub(crate) fn room() -> usize {
    usize::MAX
}

/// Returns `true`: Windows does not limit the number of mappings.
pub(crate) fn has_mappings() -> bool {
    true
}
