//! The frame pointer of a function, where it is not known.
//!
//! The kernel reports the stack pointer of a blocked OS thread, and not its frame pointer. Most functions of
//! a release build do without, but those of std use it. The beginning of such a function says how far its
//! frame pointer lies above its stack pointer:
//!
//! ```text
//!   push rbp; mov rbp, rsp             here both are equal
//!   push r15; push r14; push rbx       8 bytes each
//!   sub rsp, 40                        40 bytes
//! ```

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "elsewhere blocked green threads show no stack")
)]

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::UnwindRegsAarch64 as Registers;
#[cfg(target_arch = "x86_64")]
use framehop::x86_64::UnwindRegsX86_64 as Registers;

use std::ops::Range;

/// The most bytes of a function that are read.
const MOST_BYTES: usize = 64;

/// Where the functions of the program or of a library begin.
pub(super) struct Index {
    range: Range<u64>,
    /// The beginnings, in ascending order, from this address on.
    from: u64,
    starts: Vec<i32>,
}

impl Index {
    /// Reads the index of the unwind tables, which lies at `from`. Without a table of the usual form there
    /// are no functions.
    pub(super) fn new(range: &Range<u64>, from: u64, eh_frame_hdr: &[u8]) -> Index {
        // Numbers of 32 bits, relative to the index: the count, then pairs of a beginning and the address of
        // its table.
        let is_usual = cfg!(target_arch = "x86_64") && eh_frame_hdr.get(2..4) == Some(&[0x03, 0x3b]);
        let number = |bytes: &[u8]| i32::from_ne_bytes(bytes[..4].try_into().expect("four bytes"));
        let pairs = eh_frame_hdr.get(12..).filter(|_| is_usual).unwrap_or_default();
        Index { range: range.clone(), from, starts: pairs.chunks_exact(8).map(number).collect() }
    }

    /// Returns the beginning of the function that `address` is in.
    fn start_of(&self, address: u64) -> Option<u64> {
        let relative = i32::try_from(address.wrapping_sub(self.from).cast_signed()).ok()?;
        let next = self.starts.partition_point(|&start| start <= relative);
        Some(self.from.wrapping_add_signed(self.starts[next.checked_sub(1)?].into()))
    }
}

/// The functions of the program and of all libraries.
#[derive(Default)]
pub(super) struct Functions(Vec<Index>);

impl Functions {
    pub(super) fn add(&mut self, index: Index) {
        self.0.push(index);
    }

    /// Sets the frame pointer of the function that `address` is in, by its stack pointer. Returns `false` if
    /// the function has none, or has not set it up, or if its beginning does not show it.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn set_frame_pointer(
        &self,
        address: u64,
        registers: &mut Registers,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> bool {
        let Some(frame_pointer) = self
            .depth(address)
            .and_then(|depth| registers.sp().checked_add(depth))
            .filter(|&frame_pointer| {
                // What a frame pointer points to: the caller's, and the return address.
                frame_pointer
                    .checked_add(8)
                    .and_then(|at| read(at).ok())
                    .is_some_and(|at| self.follows_call(at))
            })
        else {
            return false;
        };
        registers.set_bp(frame_pointer);
        true
    }

    /// Returns `false`: here this is not known.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn set_frame_pointer(
        &self,
        _address: u64,
        _registers: &mut Registers,
        _read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> bool {
        false
    }

    /// Returns how far the frame pointer lies above the stack pointer, in the function that `address` is in.
    fn depth(&self, address: u64) -> Option<u64> {
        let start = self.index_of(address)?.start_of(address)?;
        let mut code = [0; MOST_BYTES];
        let code = &mut code[..MOST_BYTES.min((address - start) as usize)];
        sched::memory::read_bytes(start as usize, code).then(|| depth_after(code)).flatten()
    }

    /// Returns `true` if a call ends at `address`.
    fn follows_call(&self, address: u64) -> bool {
        let mut code = [0; 7];
        let begin = address.wrapping_sub(code.len() as u64) as usize;
        self.index_of(address).is_some()
            && sched::memory::read_bytes(begin, &mut code)
            && ends_with_call(&code)
    }

    fn index_of(&self, address: u64) -> Option<&Index> {
        self.0.iter().find(|index| index.range.contains(&address))
    }
}

/// Returns `true` if the code ends with a call: of an address, or by a register or a word of memory.
fn ends_with_call(code: &[u8; 7]) -> bool {
    let by_word = |len: usize| code[7 - len] == 0xff && code[8 - len] & 0x38 == 0x10;
    code[2] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(by_word)
}

/// Returns how far the frame pointer lies above the stack pointer after a function has begun with `code`.
fn depth_after(code: &[u8]) -> Option<u64> {
    // `endbr64`, `push rbp`, `mov rbp, rsp`.
    let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    let mut code = code.strip_prefix(&[0x55, 0x48, 0x89, 0xe5])?;
    let mut depth = 0;
    loop {
        (code, depth) = match code {
            // `push` of a register; of one of the new registers.
            [0x50..=0x57, rest @ ..] | [0x41, 0x50..=0x57, rest @ ..] => (rest, depth + 8),
            // `sub rsp`, by a byte or by 32 bits. After it the stack pointer stays where it is.
            [0x48, 0x83, 0xec, bytes @ 0..=0x7f, ..] => return Some(depth + u64::from(*bytes)),
            [0x48, 0x81, 0xec, a, b, c, d, ..] => {
                return Some(depth + u64::from(u32::from_le_bytes([*a, *b, *c, *d])));
            }
            _ => return Some(depth),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_function_tells_its_depth() {
        let begin = [0x55, 0x48, 0x89, 0xe5];
        let code = |rest: &[u8]| [&begin, rest].concat();
        // push r15; push r14; push rbx; sub rsp, 0x28; then something.
        let pushes = [0x41, 0x57, 0x41, 0x56, 0x53];
        let small = [&pushes[..], &[0x48, 0x83, 0xec, 0x28, 0x90]].concat();
        let large = [&pushes[..], &[0x48, 0x81, 0xec, 0x00, 0x02, 0x00, 0x00]].concat();
        assert_eq!(depth_after(&code(&small)), Some(24 + 0x28));
        assert_eq!(depth_after(&code(&large)), Some(24 + 0x200));
        assert_eq!(depth_after(&code(&[0x90])), Some(0));
        assert_eq!(depth_after(&[&[0xf3, 0x0f, 0x1e, 0xfa][..], &code(&small)].concat()), Some(24 + 0x28));
        assert_eq!(depth_after(&[0x41, 0x57, 0x90]), None, "no frame pointer");
    }

    #[test]
    fn a_call_is_known_by_its_end() {
        for call in [&[0xe8, 1, 2, 3, 4][..], &[0xff, 0xd0], &[0x41, 0xff, 0xd4], &[0xff, 0x15, 1, 2, 3, 4]] {
            let mut code = [0x90; 7];
            code[7 - call.len()..].copy_from_slice(call);
            assert!(ends_with_call(&code), "{call:x?}");
        }
        assert!(!ends_with_call(&[0x90; 7]));
    }

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let mut hdr = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 2, 0, 0, 0];
        for start in [0x100_i32, 0x180] {
            hdr.extend(start.to_ne_bytes());
            hdr.extend([0; 4]);
        }
        let index = Index::new(&(0x1000..0x2000), 0x1000, &hdr);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(
                [0x1100, 0x117f, 0x1180].map(|at| index.start_of(at)),
                [Some(0x1100), Some(0x1100), Some(0x1180)]
            );
        }
        assert_eq!(index.start_of(0x10ff), None);
    }
}
