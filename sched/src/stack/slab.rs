//! Slabs: large mappings cut into stacks of one size, so that a million stacks are a few dozen mappings.

#![allow(unsafe_code)]

use std::io;
use std::iter;
use std::mem;
use std::ops::Range;
use std::ptr::with_exposed_provenance_mut;

use corosensei::stack::valgrind::ValgrindStackRegistration;

use super::guard::{Guards, guard_bytes};
use super::{Stack, checked_stack_bytes};
use crate::sync::Mutex;
use crate::sys;

mod cold;
mod window;

use cold::Cold;

/// The size of the first slab. Address space is free unless it is limited, so small programs map little.
#[cfg(target_pointer_width = "64")]
const FIRST_SLAB_BYTES: usize = 64 << 20;
#[cfg(not(target_pointer_width = "64"))]
const FIRST_SLAB_BYTES: usize = 4 << 20;

/// The largest slab. Each slab is as large as all slabs before it, up to this size: a million stacks take
/// some thirty slabs.
const LARGEST_SLAB_BYTES: usize = FIRST_SLAB_BYTES << 8;

/// All stacks of one size.
///
/// The owner may drop this only when no stack of it is in use: the drop unmaps all of them.
pub(crate) struct Slabs {
    /// The distance between the limits of two neighbours.
    stride: usize,
    guards: Guards,
    /// The lock is held for a few instructions, or for one `mmap`; guards are installed outside of the lock.
    land: Mutex<AddressRange>,
}

/// The mapped address space, and how much of it has been cut into stacks.
#[derive(Default)]
struct AddressRange {
    slabs: Vec<Slab>,
    /// The part of the newest slab that has not been cut.
    uncut: Range<usize>,
    /// The limits of pieces that were cut and have no guard, because the kernel refused one.
    spare: Vec<usize>,
    mapped_bytes: usize,
    /// How many stacks are cold.
    cold: usize,
}

impl Slabs {
    /// Prepares stacks of `stack_bytes` usable bytes, rounded up to pages; the guard is added to that. Maps
    /// nothing yet.
    pub(crate) fn new(stack_bytes: usize) -> io::Result<Slabs> {
        Slabs::with_guards(stack_bytes, Guards::new())
    }

    fn with_guards(stack_bytes: usize, guards: Guards) -> io::Result<Slabs> {
        let usable = checked_stack_bytes(stack_bytes)?.next_multiple_of(sys::page_size());
        Ok(Slabs { stride: usable + guard_bytes(), guards, land: Mutex::default() })
    }

    /// Returns a stack that was never used. *Runs on: any thread.*
    pub(crate) fn carve(&self) -> io::Result<Stack> {
        let limit = self.land.lock().take(self.stride)?;
        let stack = self.guard(limit)?;
        // Valgrind must know where stacks are. (Outside of Valgrind this does nothing.) The registration
        // stays for ever.
        mem::forget(ValgrindStackRegistration::new(with_exposed_provenance_mut(limit), self.stride));
        Ok(stack)
    }

    /// Takes what `next` returns, up to `Cooled::MOST` stacks, and gives their pages back to the system, in
    /// one call for each run of neighbours, or for each stack where the call would remove guards. The caller
    /// passes the result to `keep_cold`.
    pub(crate) fn cool(&self, next: impl FnMut() -> Option<Stack>) -> Cooled {
        let mut cooled = Cooled::of(iter::from_fn(next).map(|stack| stack.limit()));
        cooled.limits[..cooled.len].sort_unstable();
        for run in runs(cooled.limits(), self.stride, sys::GUARDS_STAY) {
            // A failure (locked memory) is harmless: the pages stay.
            // SAFETY: the owner of a stack alone may use it, and `next` gave them away. The guards inside the
            // range belong to stacks of the same run.
            let _ = unsafe { sys::discard(run.start, run.len()) };
        }
        cooled
    }

    /// Makes stacks cold which `cool` or `take_window` has returned.
    pub(crate) fn keep_cold(&self, cooled: &Cooled) {
        let mut land = self.land.lock();
        // They are sorted, so the next one mostly lies in the same slab.
        let mut slab = 0;
        for &limit in cooled.limits() {
            let has_it = |slab: &Slab| slab.addresses().contains(&limit);
            if !has_it(&land.slabs[slab]) {
                slab = land.slabs.iter().position(has_it).expect("each stack lies in a slab");
            }
            land.slabs[slab].keep_cold(limit, self.stride);
        }
        land.cold += cooled.len();
    }

    /// Returns how many stacks are cold.
    pub(crate) fn cold(&self) -> usize {
        self.land.lock().cold
    }

    /// Takes the cold stack that has the lowest address in one of the slabs.
    pub(crate) fn pop_cold(&self) -> Option<ColdStack> {
        let mut land = self.land.lock();
        let cold = land.slabs.iter_mut().find_map(|slab| slab.pop_cold(self.stride))?;
        land.cold -= 1;
        Some(cold)
    }

    /// Makes a cold stack fit for use: with a guard. Returns `None` if the system refuses one: then the stack
    /// is a piece without a guard again, as if it had not been cut.
    pub(crate) fn use_again(&self, cold: ColdStack) -> Option<Stack> {
        match cold.is_bare {
            true => self.guard(cold.limit).ok(),
            // SAFETY: `pop_cold` gave this stack to this caller alone, and it has kept its guard.
            false => Some(unsafe { Stack::new(cold.limit, cold.limit + self.stride) }),
        }
    }

    /// Returns `true` if there is room for another stack; maps a slab now if that is needed.
    pub(crate) fn has_more(&self) -> bool {
        self.land.lock().has_more(self.stride)
    }

    /// Returns how many stacks were made so far.
    pub(crate) fn carved(&self) -> usize {
        let land = self.land.lock();
        (land.mapped_bytes - land.uncut.len()) / self.stride - land.spare.len()
    }

    /// Returns the address space of all slabs, in bytes.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.land.lock().mapped_bytes
    }

    /// Makes a stack of the piece at `limit`, with a guard. The caller got the piece from
    /// `AddressRange::take` or `pop_cold`.
    fn guard(&self, limit: usize) -> io::Result<Stack> {
        // SAFETY: this mapped piece is this caller's alone, which needs nothing in it.
        if let Err(error) = unsafe { self.guards.install(limit) } {
            self.land.lock().spare.push(limit);
            return Err(error);
        }
        // SAFETY: as above, and now it is guarded.
        Ok(unsafe { Stack::new(limit, limit + self.stride) })
    }
}

impl AddressRange {
    /// Takes the limit of the next piece; maps a slab if none is left.
    fn take(&mut self, stride: usize) -> io::Result<usize> {
        if let Some(limit) = self.spare.pop() {
            return Ok(limit);
        }
        if self.uncut.is_empty() {
            self.buy(stride)?;
        }
        let limit = self.uncut.start;
        self.uncut.start += stride;
        Ok(limit)
    }

    fn has_more(&mut self, stride: usize) -> bool {
        !(self.spare.is_empty() && self.uncut.is_empty()) || self.buy(stride).is_ok()
    }

    /// Maps the next slab: a smaller one if address space is scarce, at least for one stack.
    fn buy(&mut self, stride: usize) -> io::Result<()> {
        let wished = self.mapped_bytes.clamp(FIRST_SLAB_BYTES, LARGEST_SLAB_BYTES);
        // A process with many stacks also needs much memory for other things.
        let left = (self.mapped_bytes / 16).max(sys::LEFT_BY_STACKS);
        let room = sys::room().saturating_sub(left);
        let mut count = (wished / stride).max(1);
        let slab = loop {
            match Slab::map(count, stride, room) {
                Ok(slab) => break slab,
                // Quarters the size, so that some of the remaining space stays free for the rest of the
                // process.
                Err(_) if count > 1 => count = count.div_ceil(4),
                Err(error) => return Err(no_room(error, stride)),
            }
        };
        self.mapped_bytes += slab.bytes;
        self.uncut = slab.start..slab.start + slab.bytes;
        self.slabs.push(slab);
        Ok(())
    }
}

/// One mapping.
struct Slab {
    start: usize,
    bytes: usize,
    /// The cold stacks, by number.
    cold: Cold,
    /// The windows below this one may have page tables to give back.
    windows_left: usize,
}

impl Slab {
    /// Maps `count` stacks. Fails if `room` is smaller.
    fn map(count: usize, stride: usize, room: usize) -> io::Result<Slab> {
        let bytes = count * stride;
        if bytes > room {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let cold = Cold::of(count)?;
        let start = sys::map(bytes)?;
        sys::advise_stacks(start, bytes);
        Ok(Slab { start, bytes, cold, windows_left: 0 })
    }

    fn addresses(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }

    fn keep_cold(&mut self, limit: usize, stride: usize) {
        self.cold.keep((limit - self.start) / stride);
        self.windows_left = self.windows_left.max(self.window_of(limit + stride - 1, stride) + 1);
    }

    fn pop_cold(&mut self, stride: usize) -> Option<ColdStack> {
        let (number, is_bare) = self.cold.pop()?;
        Some(ColdStack { limit: self.start + number * stride, is_bare })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the owner of the `Slabs` drops them only when no stack is in use, and a slab holds nothing
        // but stacks.
        if !unsafe { sys::unmap(self.start, self.bytes) } {
            // SAFETY: as above. The address space is lost, but not the memory.
            let _ = unsafe { sys::discard(self.start, self.bytes) };
        }
    }
}

/// Some stacks that are to be cold: their limits.
pub(crate) struct Cooled {
    limits: [usize; Cooled::MOST],
    len: usize,
}

impl Cooled {
    /// As many as one window may have: the smallest stack takes five pages.
    pub(crate) const MOST: usize = 128;

    /// The first `MOST` of them.
    fn of(all: impl Iterator<Item = usize>) -> Cooled {
        let (mut limits, mut len) = ([0; Cooled::MOST], 0);
        for (place, limit) in limits.iter_mut().zip(all) {
            *place = limit;
            len += 1;
        }
        Cooled { limits, len }
    }

    fn limits(&self) -> &[usize] {
        &self.limits[..self.len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// A stack that was cold.
pub(crate) struct ColdStack {
    limit: usize,
    /// True if it may have no guard.
    is_bare: bool,
}

/// Returns the ranges to give back for stacks with these sorted limits: one range for each run of whole
/// neighbours, with the guards between them, or one for each stack without its guard.
fn runs(limits: &[usize], stride: usize, with_guards: bool) -> impl Iterator<Item = Range<usize>> {
    limits
        .chunk_by(move |lower, upper| with_guards && lower + stride == *upper)
        .map(move |run| run[0] + guard_bytes()..run[run.len() - 1] + stride)
}

fn no_room(error: io::Error, stride: usize) -> io::Error {
    let advice = "raise the limit on the process (RLIMIT_AS, RLIMIT_DATA, vm.max_map_count, or what the kernel commits), or take \
        smaller or fewer stacks";
    let kib = stride >> 10;
    io::Error::new(error.kind(), format!("cannot map a stack of {kib} KiB with its guard: {error}; {advice}"))
}

#[cfg(test)]
mod tests {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    use std::fs;
    use std::io::ErrorKind;
    use std::thread;

    #[cfg(any(target_os = "linux", target_os = "android"))]
    use super::super::testing::succeeds_alone;
    use super::*;

    pub(super) const KIB: usize = 1024;

    fn each_way() -> impl Iterator<Item = Guards> {
        [Guards::new(), Guards::by_protection()].into_iter()
    }

    pub(super) fn carve_many(slabs: &Slabs, out: &mut Vec<Stack>, count: usize) -> io::Result<()> {
        for _ in 0..count {
            out.push(slabs.carve()?);
        }
        Ok(())
    }

    pub(super) fn touch(address: usize) {
        touch_with(address, 1);
    }

    pub(super) fn touch_with(address: usize, byte: u8) {
        // SAFETY: tests write only into stacks that they own, or in a child process that dies of the write.
        unsafe { with_exposed_provenance_mut::<u8>(address).write_volatile(byte) }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn read(address: usize) -> u8 {
        // SAFETY: tests read only from stacks that they own.
        unsafe { std::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
    }

    /// Returns `true` if a process that touches this address dies.
    pub(super) fn is_deadly(address: usize) -> bool {
        // SAFETY: between `fork` and `_exit` the child makes two system calls and touches memory.
        let child = unsafe { libc::fork() };
        if child == 0 {
            for signal in [libc::SIGSEGV, libc::SIGBUS] {
                // std's handler takes a lock, which another thread may have held during the fork.
                // SAFETY: the default action runs no code of this process.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            touch(address);
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: `child` is a child of this process, waited for once.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        libc::WIFSIGNALED(status) && [libc::SIGSEGV, libc::SIGBUS].contains(&libc::WTERMSIG(status))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn resident_pages(range: Range<usize>) -> usize {
        let mut pages = vec![0u8; range.len() / sys::page_size()];
        let start = with_exposed_provenance_mut(range.start);
        // SAFETY: the vector has one byte for each page, as `mincore` needs.
        assert_eq!(unsafe { libc::mincore(start, range.len(), pages.as_mut_ptr().cast()) }, 0);
        pages.iter().filter(|&page| page & 1 == 1).count()
    }

    fn assert_disjoint(stacks: &mut [Stack]) {
        stacks.sort_unstable_by_key(Stack::limit);
        for pair in stacks.windows(2) {
            assert!(pair[0].base() <= pair[1].limit(), "{pair:x?}");
        }
    }

    #[test]
    fn threads_get_distinct_stacks() {
        let slabs = Slabs::new(64 * KIB).unwrap();
        let carve_some = || {
            let mut stacks = Vec::new();
            for _ in 0..250 {
                stacks.push(slabs.carve().unwrap());
                carve_many(&slabs, &mut stacks, 4).unwrap();
            }
            stacks
        };
        let mut stacks: Vec<Stack> = thread::scope(|scope| {
            let carvers: Vec<_> = (0..4).map(|_| scope.spawn(carve_some)).collect();
            carvers.into_iter().flat_map(|carver| carver.join().unwrap()).collect()
        });
        assert_eq!(stacks.len(), 5000);
        assert!(slabs.mapped_bytes() >= 5000 * slabs.stride);
        assert_disjoint(&mut stacks);
        for stack in &stacks {
            assert_eq!((stack.usable_bytes(), stack.base() % sys::page_size()), (64 * KIB, 0));
            touch(stack.base() - 1);
        }
    }

    #[test]
    fn only_accesses_to_the_guard_are_deadly() {
        for guards in each_way() {
            let slabs = Slabs::with_guards(5000, guards).unwrap();
            let (lower, upper) = (slabs.carve().unwrap(), slabs.carve().unwrap());
            assert_eq!(lower.usable_bytes(), 5000usize.next_multiple_of(sys::page_size()));
            for stack in [lower, upper] {
                let guard = stack.guard_range();
                assert!(guard.len() >= 16 * KIB && guard.start == stack.limit());
                assert!(is_deadly(guard.start) && is_deadly(guard.end - 1));
                touch(guard.end);
                touch(stack.base() - 1);
            }
        }
    }

    /// Makes these stacks cold.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn cool_all(slabs: &Slabs, stacks: Vec<Stack>) {
        let mut stacks = stacks.into_iter();
        while stacks.len() > 0 {
            let cooled = slabs.cool(|| stacks.next());
            slabs.keep_cold(&cooled);
        }
    }

    /// Takes all cold stacks, and makes them fit for use.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn use_all(slabs: &Slabs) -> Vec<Stack> {
        let cold = iter::from_fn(|| slabs.pop_cold());
        cold.map(|cold| slabs.use_again(cold).unwrap()).collect()
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn cold_stacks_have_no_pages_and_keep_their_guards() {
        for guards in each_way() {
            let slabs = Slabs::with_guards(64 * KIB, guards).unwrap();
            let mut stacks = Vec::new();
            carve_many(&slabs, &mut stacks, 20).unwrap();
            let all = stacks[0].limit()..stacks[19].base();
            for stack in &stacks {
                (1..=5).for_each(|page| touch(stack.base() - page * sys::page_size()));
            }
            assert_eq!(resident_pages(all.clone()), 100);
            let busy = stacks.swap_remove(7);
            cool_all(&slabs, stacks);
            assert_eq!(resident_pages(all), 5);
            assert_eq!(resident_pages(busy.limit()..busy.base()), 5);
            assert_eq!(slabs.cold(), 19);
            let stacks = use_all(&slabs);
            assert_eq!((slabs.cold(), stacks.len()), (0, 19));
            for stack in &stacks {
                assert!(is_deadly(stack.guard_range().end - 1));
                assert_eq!((read(stack.base() - 1), stack.usable_bytes()), (0, 64 * KIB));
            }
        }
    }

    #[test]
    #[should_panic(expected = "no room for")]
    fn a_header_that_leaves_too_small_a_stack_is_refused() {
        let slabs = Slabs::new(sys::page_size()).unwrap();
        let _ = slabs.carve().unwrap().reserve_top(sys::page_size() - 4080);
    }

    #[test]
    fn neighbours_are_released_in_one_run() {
        let slabs = Slabs::new(16 * KIB).unwrap();
        let mut stacks = Vec::new();
        carve_many(&slabs, &mut stacks, 6).unwrap();
        let ends: Vec<_> = stacks.iter().map(|stack| (stack.guard_range().end, stack.base())).collect();
        stacks.remove(2);
        let limits: Vec<_> = stacks.iter().map(Stack::limit).collect();
        let runs: Vec<_> = super::runs(&limits, slabs.stride, true).collect();
        assert_eq!(runs, [ends[0].0..ends[1].1, ends[3].0..ends[5].1]);
        let each: Vec<_> = super::runs(&limits, slabs.stride, false).collect();
        let whole = |i: usize| ends[i].0..ends[i].1;
        assert_eq!(each, [whole(0), whole(1), whole(3), whole(4), whole(5)]);
    }

    #[test]
    fn impossible_sizes_are_refused_with_what_is_allowed() {
        for bytes in [0, 4095, usize::MAX - 4096, usize::MAX] {
            let error = Slabs::new(bytes).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("from 4096 bytes to"), "{error}");
        }
        assert_eq!(Slabs::new(4096).unwrap().carve().unwrap().usable_bytes(), sys::page_size());
    }

    #[test]
    fn a_stack_may_be_larger_than_a_slab() {
        let slabs = Slabs::new(300 * KIB * KIB).unwrap();
        let mut stacks = vec![slabs.carve().unwrap(), slabs.carve().unwrap()];
        assert_eq!(slabs.mapped_bytes(), 2 * slabs.stride);
        assert_disjoint(&mut stacks);
        for stack in &stacks {
            touch(stack.base() - 1);
            touch(stack.guard_range().end);
        }
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn drop_unmaps() {
        succeeds_alone(module_path!(), "drop_unmaps", || {
            let slabs = Slabs::new(256 * KIB).unwrap();
            let stack = slabs.carve().unwrap();
            let is_mapped = || {
                fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| {
                    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
                    let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
                    (start..end).contains(&(stack.base() - 1))
                })
            };
            assert!(is_mapped());
            drop(slabs);
            assert!(!is_mapped());
        });
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[cfg_attr(portable, ignore = "the system does not say how much room is left")]
    fn scarce_address_space_gives_smaller_slabs_and_then_an_error() {
        succeeds_alone(module_path!(), "scarce_address_space_gives_smaller_slabs_and_then_an_error", || {
            let slabs = Slabs::new(256 * KIB).unwrap();
            let mut stacks = Vec::with_capacity(1000);
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
            let size: libc::rlim_t = size.trim().trim_end_matches(" kB").parse().unwrap();
            limit_address_space((size << 10) + (20 << 20));
            let error = carve_many(&slabs, &mut stacks, 1000).unwrap_err();
            limit_address_space(libc::RLIM_INFINITY);
            assert_eq!(error.kind(), ErrorKind::OutOfMemory);
            assert!(error.to_string().contains("RLIMIT_AS"), "{error}");
            // The slabs leave this much of the 20 MiB unused.
            let most = ((20 << 20) - sys::LEFT_BY_STACKS) / slabs.stride;
            assert!((most / 2..=most).contains(&stacks.len()), "{}", stacks.len());
            assert_eq!(slabs.carved(), stacks.len());
            carve_many(&slabs, &mut stacks, 100).unwrap();
            assert_disjoint(&mut stacks);
        });
    }

    /// The width of addresses is the limit here. The rest of the process still finds memory.
    #[test]
    #[cfg(all(target_os = "linux", target_pointer_width = "32"))]
    fn stacks_leave_addresses_to_malloc() {
        succeeds_alone(module_path!(), "stacks_leave_addresses_to_malloc", || {
            let slabs = Slabs::new(64 * KIB).unwrap();
            let mut stacks = Vec::with_capacity(100_000);
            let error = carve_many(&slabs, &mut stacks, 100_000).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
            assert!(slabs.mapped_bytes() > 2 << 30, "{} MiB", slabs.mapped_bytes() >> 20);
            for mib in [2, 4] {
                let malloc = Vec::<u8>::new().try_reserve_exact(mib << 20);
                assert!(malloc.is_ok(), "{mib} MiB: {}", fs::read_to_string("/proc/self/maps").unwrap());
            }
            thread::spawn(|| ()).join().unwrap();
        });
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[cfg_attr(portable, ignore = "the system does not say how many mappings it allows")]
    fn too_many_mappings_are_an_error_that_says_so() {
        succeeds_alone(module_path!(), "too_many_mappings_are_an_error_that_says_so", || {
            let allowed = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
            let allowed: usize = allowed.trim().parse().unwrap();
            if allowed > 100_000 {
                return;
            }
            let slabs = Slabs::with_guards(4096, Guards::by_protection()).unwrap();
            let mut stacks = Vec::new();
            let error = carve_many(&slabs, &mut stacks, allowed).unwrap_err();
            assert!(error.to_string().contains("raise vm.max_map_count"), "{error}");
            assert_eq!(stacks.len(), (allowed - allowed / 16) / 2);
            // A refused piece stays in `spare` and is tried again.
            assert!(slabs.carve().is_err() && slabs.carve().is_err());
            assert_eq!(slabs.carved(), stacks.len());
            drop(slabs);
            let slabs = Slabs::with_guards(4096, Guards::by_protection()).unwrap();
            carve_many(&slabs, &mut Vec::new(), 1000).unwrap();
        });
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn limit_address_space(bytes: libc::rlim_t) {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: sets a limit of a child process that runs only this test.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn locked_memory_has_guards_too() {
        succeeds_alone(module_path!(), "locked_memory_has_guards_too", || {
            // SAFETY: `mlockall` only changes where memory may be.
            if unsafe { libc::mlockall(libc::MCL_FUTURE | libc::MCL_ONFAULT) } != 0 {
                return;
            }
            let slabs = Slabs::new(64 * KIB).unwrap();
            let stack = slabs.carve().unwrap();
            touch(stack.base() - 1);
            cool_all(&slabs, vec![stack]);
            let stack = use_all(&slabs).pop().unwrap();
            assert!(is_deadly(stack.guard_range().end - 1));
            assert!(!is_deadly(stack.guard_range().end));
        });
    }
}
