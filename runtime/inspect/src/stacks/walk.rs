//! Stacks as addresses, and addresses as names. framehop finds the return addresses in the copy of a stack,
//! by the unwind tables of the loaded program and libraries. backtrace finds the names, by their debug
//! information.

#![allow(unsafe_code)]

mod functions;

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::hint;
use std::ptr;
use std::slice;

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::{CacheAarch64 as Cache, UnwindRegsAarch64 as Registers, UnwinderAarch64 as Framehop};
#[cfg(target_arch = "x86_64")]
use framehop::x86_64::{CacheX86_64 as Cache, UnwindRegsX86_64 as Registers, UnwinderX86_64 as Framehop};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};

use sched::StackCopy;

use super::frame::Frame;
use functions::{Functions, Index};

/// The most frames of a stack that are shown: the innermost.
const MOST_FRAMES: usize = 256;

/// The most frames that are kept of a spawner's stack, those of the runtime included.
const MOST_FRAMES_OF_SPAWNER: usize = 48;

/// Finds the return addresses in copies of stacks, and the frames at these addresses.
pub(crate) struct Stacks {
    framehop: Framehop<Vec<u8>>,
    cache: Cache,
    functions: Functions,
    /// The frames at each address that was looked up.
    known: HashMap<usize, Vec<Frame>>,
    loads: Loads,
}

impl Stacks {
    /// Returns `kept`, from an earlier dump, unless libraries were loaded or unloaded since then; else makes
    /// it anew. Returns `None` if the process is at the limit of its memory.
    pub(crate) fn of_now(kept: &mut Option<Stacks>) -> Option<&mut Stacks> {
        if (kept.take_if(|kept| kept.loads != loads()).is_some() || kept.is_none()) && has_memory() {
            *kept = Some(Stacks::new());
        }
        kept.as_mut()
    }

    fn new() -> Stacks {
        let (loads, mut framehop, mut functions) = (loads(), Framehop::new(), Functions::default());
        for (module, index) in loaded() {
            framehop.add_module(module);
            functions.add(index);
        }
        Stacks { framehop, cache: Cache::new(), functions, known: HashMap::new(), loads }
    }

    /// Returns the address at which the green thread goes on, and the return addresses of its callers.
    pub(crate) fn addresses(&mut self, copy: &StackCopy) -> Box<[usize]> {
        // On Arm the first is the link register. A suspended function has saved it: its value does not matter
        // then.
        let mut registers = Registers::new(copy.link as u64, copy.sp as u64, copy.fp as u64);
        // The root of a coroutine leads to the stack of the M, which was not copied: the walk ends there.
        let mut read = |address: u64| copy.read(address as usize).map(|word| word as u64).ok_or(());
        let (mut addresses, mut pc) = (Vec::new(), FrameAddress::from_instruction_pointer(copy.pc as u64));
        while addresses.len() < MOST_FRAMES {
            addresses.push(pc.address() as usize);
            let before = registers;
            let mut step = self.framehop.unwind_frame(pc, &mut registers, &mut self.cache, &mut read);
            if !matches!(step, Ok(Some(_))) && copy.fp == 0 {
                registers = before;
                if self.functions.set_frame_pointer(pc.address_for_lookup(), &mut registers, &mut read) {
                    step = self.framehop.unwind_frame(pc, &mut registers, &mut self.cache, &mut read);
                }
            }
            let next = step.ok().flatten().and_then(FrameAddress::from_return_address);
            let Some(next) = next else { break };
            pc = next;
        }
        addresses.into()
    }

    /// As [`addresses`](Self::addresses), for a thread that the signal of a look or of a profile may have
    /// interrupted.
    pub(crate) fn addresses_of(&mut self, copy: &StackCopy, interrupted: bool) -> Box<[usize]> {
        let mut addresses = self.addresses(copy);
        // The first is the interrupted instruction. `frames` looks before each address, where a call is, or a
        // system call.
        if let Some(first) = addresses.first_mut().filter(|_| interrupted) {
            *first += 1;
        }
        addresses
    }

    /// Returns the frames at `addresses`, of which all but the first are return addresses. Inlined calls have
    /// frames of their own.
    pub(crate) fn frames(&mut self, addresses: &[usize]) -> Vec<Frame> {
        let known = &mut self.known;
        addresses
            .iter()
            .flat_map(|&address| known.entry(address).or_insert_with(|| look_up(address)).clone())
            .collect()
    }
}

/// The unwind tables of a program and its libraries take less, as a rule.
const TABLES: usize = 4 << 20;

/// Returns `true` if there is memory for the unwind tables. An allocation that fails would end the process.
fn has_memory() -> bool {
    // The compiler may not leave the allocation out.
    hint::black_box(&mut Vec::<u8>::new()).try_reserve_exact(TABLES).is_ok()
}

/// Returns the function that takes the stack of a spawner.
pub fn take_of_spawner() -> Option<fn() -> Box<[usize]>> {
    Some(addresses_of_caller)
}

/// Returns the return addresses on the stack of the caller, the innermost first. The caller has its P. So
/// this does not wait for `look_up`, which reads debug information under the lock of `backtrace` for a long
/// time.
fn addresses_of_caller() -> Box<[usize]> {
    let mut addresses = [0; MOST_FRAMES_OF_SPAWNER];
    let n = fill_from_caller(&mut addresses);
    addresses[..n].into()
}

/// Writes the return addresses on the stack of the caller to `addresses`, the innermost first. Returns how
/// many. Allocates nothing.
pub(crate) fn fill_from_caller(addresses: &mut [usize]) -> usize {
    let mut n = 0;
    let add = |frame: &backtrace::Frame| {
        if let Some(place) = addresses.get_mut(n) {
            *place = frame.ip() as usize;
            n += 1;
        }
        n < addresses.len()
    };
    // SAFETY: on Linux, the only system of this file, the walk is `_Unwind_Backtrace`. Many threads may call
    // that at a time: each panic walks its stack in that way. The lock of `backtrace` guards the cache of its
    // symbols, which the walk does not use.
    unsafe { backtrace::trace_unsynchronized(add) };
    n
}

/// How many libraries were loaded and unloaded since the process began.
type Loads = (u64, u64);

fn loads() -> Loads {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, loads: *mut c_void) -> c_int {
        // SAFETY: the loader gives a record that is valid during this call, and `loads` gives the place.
        unsafe { *loads.cast::<Loads>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut loads = (0, 0);
    // SAFETY: `first` takes the place as what it is, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(first), ptr::from_mut(&mut loads).cast()) };
    loads
}

/// The unwind tables of the program or of a library, and the index of its functions.
type Tables = (Module<Vec<u8>>, Index);

/// Returns the unwind tables of the program and of each library. They are copies, because another thread may
/// unload a library.
fn loaded() -> Vec<Tables> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _size: usize, modules: *mut c_void) -> c_int {
        // SAFETY: the loader gives a record that is valid during this call, and `loaded` gives the list.
        let (info, modules) = unsafe { (&*info, &mut *modules.cast::<Vec<Tables>>()) };
        modules.extend(module(info));
        0
    }
    let mut modules = Vec::new();
    // SAFETY: `add` takes the list as what it is, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(add), ptr::from_mut(&mut modules).cast()) };
    modules
}

/// Returns the unwind tables of one library; `None` if it has none, or none of the usual form.
fn module(info: &libc::dl_phdr_info) -> Option<Tables> {
    // SAFETY: the loader says where the program headers of this library lie, and keeps the library loaded
    // during the call.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let range = |header: &libc::Elf64_Phdr| header.p_vaddr..header.p_vaddr + header.p_memsz;
    let (start, end) = (loads().map(|h| range(h).start).min()?, loads().map(|h| range(h).end).max()?);
    let index = range(headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?);
    let base = info.dlpi_addr;
    let bytes = |range: &std::ops::Range<u64>| {
        // SAFETY: a segment of this library, or a part of one, which is loaded and readable; `contained` says
        // so.
        unsafe {
            slice::from_raw_parts(
                (base + range.start) as usize as *const u8,
                (range.end - range.start) as usize,
            )
        }
        .to_vec()
    };
    let contained = |address: u64| {
        loads().map(|h| h.p_vaddr..h.p_vaddr + h.p_filesz).find(|load| load.contains(&address))
    };
    if contained(index.start)?.end < index.end {
        return None;
    }
    let eh_frame_hdr = bytes(&index);
    // The form that linkers write: version 1, and the table's address relative to this field as a 32-bit
    // number.
    let [1, 0x1b, _, _, offset @ ..] = eh_frame_hdr.get(..8)? else { return None };
    let offset = i32::from_ne_bytes(offset.try_into().ok()?);
    let table = (index.start + 4).checked_add_signed(offset.into())?;
    let table = table..contained(table)?.end;
    let range = base + start..base + end;
    let functions = Index::new(&range, base + index.start, &eh_frame_hdr);
    let sections = ExplicitModuleSectionInfo {
        eh_frame: Some(bytes(&table)),
        eh_frame_svma: Some(table),
        eh_frame_hdr: Some(eh_frame_hdr),
        eh_frame_hdr_svma: Some(index),
        ..Default::default()
    };
    // SAFETY: the loader gives a string that ends with 0, or null.
    let name = unsafe { info.dlpi_name.as_ref().map(|name| CStr::from_ptr(name)) };
    let name = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Some((Module::new(name, range, base, sections), functions))
}

fn look_up(address: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    // `resolve` looks one byte before the address, so at the call.
    backtrace::resolve(address as *mut c_void, |symbol| {
        let function = symbol.name().map(|name| format!("{name:#}"));
        let (file, line) = symbol.filename().zip(symbol.lineno()).unzip();
        frames.push(Frame {
            function: function.unwrap_or_else(|| format!("{address:#x}")),
            file: file.map(|file| file.display().to_string()),
            line,
        });
    });
    if frames.is_empty() {
        frames.push(Frame { function: format!("{address:#x}"), file: None, line: None });
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn the_stack_of_a_spawner_waits_for_no_look_up() {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let looks_up = thread::spawn(move || {
            // The function is called under the lock of `backtrace`.
            backtrace::trace(|_| {
                tell.send(()).unwrap();
                let _ = ended.recv();
                false
            });
        });
        told.recv().unwrap();
        let (give, given) = mpsc::channel();
        let spawner = thread::spawn(move || give.send(addresses_of_caller()));
        let addresses = given.recv_timeout(Duration::from_secs(20));
        drop(end);
        looks_up.join().unwrap();
        spawner.join().unwrap().unwrap();
        assert!(addresses.unwrap().len() > 1);
    }
}
