//! The parts of the program and its libraries in memory.

#![allow(unsafe_code)]

use std::ops::Range;

/// Returns the addresses of the segment of the program or of a library that `address` is in: its code, or its
/// static memory that can be written. Empty if there is none, or if the system does not say.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(any(portable, miri))))]
pub(crate) fn segment_around(address: usize) -> Range<usize> {
    use std::ffi::{c_int, c_void};

    extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description, and `data` as it was given below.
        let (info, (address, found)) = unsafe { (&*info, &mut *data.cast::<(usize, Range<usize>)>()) };
        for i in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: the loader has that many program headers there.
            let header = unsafe { &*info.dlpi_phdr.add(i) };
            let start = info.dlpi_addr as usize + header.p_vaddr as usize;
            let segment = start..start + header.p_memsz as usize;
            if header.p_type == libc::PT_LOAD && segment.contains(address) {
                *found = segment;
                return 1;
            }
        }
        0
    }
    let mut search = (address, 0..0);
    // SAFETY: `look` gets `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.1
}

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(any(portable, miri)))))]
pub(crate) fn segment_around(_address: usize) -> Range<usize> {
    0..0
}
