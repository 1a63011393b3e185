//! Where glibc keeps what in a block, and the functions with which it makes one. Not part of glibc's
//! interface: everything is looked up by name, or found in the block of a thread.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::arch::{base, set_base};
use super::libraries::{Image, Libraries};
use super::symbols::{field, file_that_defines, size, symbol};
use super::words::{read, write};
use super::{arch, next_tid, offset_of_home, out_of_memory, reserve, robust};
use crate::sys::message::write_message;
use crate::sys::of_libc::Real;
use crate::sys::prefetch;

/// How many keys a table of keys has, and how many tables a block may have.
const TABLE: usize = 32;
/// How often destructors of keys run, if they set keys again.
const ROUNDS: usize = 4;

/// The offsets of a block, and glibc's functions for blocks.
pub(super) struct Layout {
    /// Makes a block of the zeroes around a base.
    make: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    /// Ends a block, and leaves its memory alone.
    end: unsafe extern "C" fn(*mut c_void, bool),
    /// How many bytes a block has below its base, and at its base and above.
    below: usize,
    above: usize,
    /// The base is a multiple of this.
    align: usize,
    /// True if glibc refuses libraries that need a place in each block and come later.
    pub(super) is_reserve_taken: bool,
    init_ctype: unsafe extern "C" fn(),
    call_destructors: unsafe extern "C" fn(),
    /// The sequence number and the destructor of each key.
    keys: *const [usize; 2],
    /// The record of the thread, and fields of it.
    pub(super) record: isize,
    list: isize,
    tid: isize,
    specific: isize,
    robust: isize,
    futex_offset: usize,
    resp: isize,
    /// The state of the resolver, and the function that frees what it refers to.
    res: isize,
    close_res: unsafe extern "C" fn(*mut c_void),
    /// The word that leads to the last error of `dlopen` and its kin.
    dlerror: Option<isize>,
    rseq: Option<isize>,
    errno: isize,
    pub(super) current: isize,
    pub(super) home: isize,
    /// The words in which malloc keeps what a thread has freed, and from where it allocates.
    pub(super) malloc: [isize; 2],
}

// SAFETY: the pointer is to glibc's table of keys, which lives as long as the process and is read only.
unsafe impl Send for Layout {}
// SAFETY: as above.
unsafe impl Sync for Layout {}

impl Layout {
    /// Finds everything. `keeps_reserve`: libraries can still be opened that need a place in each block.
    /// *Runs on: an OS thread that is not the first one.*
    pub(super) fn find(current: fn() -> usize, keeps_reserve: bool) -> Result<Layout, String> {
        arch::find_way_to_set_base()?;
        let own = base();
        let record_bytes = size(c"_thread_db_sizeof_pthread")?;
        let record = arch::start_of_record(record_bytes);
        let address_of_record = own.wrapping_add_signed(record);
        if address_of_record != record_of_libc() {
            return Err("the record of a thread is not where it is known to be in its block".into());
        }
        if record + field(c"_thread_db_pthread_dtvp")? != arch::VECTOR {
            return Err("the vector of thread-locals is not where it is known to be in a block".into());
        }
        let robust = record + robust::offset(address_of_record, record_bytes)?;
        let (mut bytes, mut align) = (0_usize, 0_usize);
        // SAFETY: the name is a function with this signature, which writes the two words.
        unsafe {
            transmute::<usize, unsafe extern "C" fn(*mut usize, *mut usize)>(symbol(
                c"_dl_get_tls_static_info",
            )?)(&raw mut bytes, &raw mut align);
        }
        let mut extent = arch::extent(bytes, record_bytes);
        // Before the search: it opens and closes libraries.
        let used = if keeps_reserve { None } else { reserve::take(arch::room(extent)) };
        extent = used.map_or(extent, |used| arch::extent_of_used(extent, used));
        let (below, above) = extent;
        let libraries = Libraries::search()?;
        let of_libc = libraries.of_libc;
        let of_libc = of_libc.ok_or("the thread-locals of libc are not in the block")?;
        let (resp, rseq) = (symbol(c"__resp")?, symbol(c"__rseq_offset").ok());
        let dlerror = symbol(c"__libc_dlerror_result").ok();
        // SAFETY: the names are functions with these signatures, and words, in every glibc that has them.
        let mut layout = unsafe {
            Layout {
                make: transmute::<usize, unsafe extern "C" fn(*mut c_void) -> *mut c_void>(symbol(
                    c"_dl_allocate_tls",
                )?),
                end: transmute::<usize, unsafe extern "C" fn(*mut c_void, bool)>(symbol(
                    c"_dl_deallocate_tls",
                )?),
                below,
                above,
                align,
                is_reserve_taken: used.is_some(),
                init_ctype: transmute::<usize, unsafe extern "C" fn()>(symbol(c"__ctype_init")?),
                call_destructors: transmute::<usize, unsafe extern "C" fn()>(symbol(c"__call_tls_dtors")?),
                keys: ptr::with_exposed_provenance(symbol(c"__pthread_keys")?),
                record,
                list: record + field(c"_thread_db_pthread_list")?,
                tid: record + field(c"_thread_db_pthread_tid")?,
                specific: record + field(c"_thread_db_pthread_specific")?,
                robust,
                futex_offset: read(own, robust + 8),
                resp: resp.wrapping_sub(own).cast_signed(),
                res: read(resp, 0).wrapping_sub(own).cast_signed(),
                close_res: transmute::<usize, unsafe extern "C" fn(*mut c_void)>(symbol(c"__res_nclose")?),
                dlerror: dlerror.map(|dlerror| dlerror.wrapping_sub(own).cast_signed()),
                rseq: rseq.map(|rseq| read(rseq, 0).cast_signed()),
                errno: libc::__errno_location().expose_provenance().wrapping_sub(own).cast_signed(),
                current: current().wrapping_sub(own).cast_signed(),
                home: offset_of_home(),
                malloc: [0; 2],
            }
        };
        let sizes = [below, above, align];
        if below == 0 || above == 0 || below + above > 1 << 20 || !(16..=4096).contains(&align) {
            return Err(format!("blocks have strange sizes: {sizes:?}"));
        }
        let images = arch::images((below, above));
        if !images.contains(&layout.current) || !images.contains(&layout.home) {
            return Err("the runtime is in a library that was opened later, so its thread-locals are not in the block".into());
        }
        if !libraries.lie_within(&images) || !of_libc.lies_within(&images) {
            return Err("thread-locals of a library lie outside of the block that is known".into());
        }
        if !(0..8192).contains(&(layout.res - record)) {
            return Err("the record of a thread has no state of the resolver".into());
        }
        if !libraries.has(layout.home) || !libraries.has(layout.current) || !of_libc.has(layout.errno) {
            return Err("glibc's list of libraries with thread-locals is another one than known".into());
        }
        layout.find_words_of_malloc(of_libc)?;
        Ok(layout)
    }

    /// Finds the words of libc's thread-locals that the first allocation of a thread changes.
    fn find_words_of_malloc(&mut self, of_libc: &Image) -> Result<(), String> {
        // Before the trial: another malloc may keep pointers to the block.
        if file_that_defines(c"malloc")? != file_that_defines(c"gnu_get_libc_version")? {
            return Err(OTHER_MALLOC.into());
        }
        let memory = Memory::of(self);
        // SAFETY: the memory is this block's until the end of the function.
        let (block, own) = (unsafe { self.new_block(memory.end()) }, base());
        let words = || (0..of_libc.bytes / 8).map(|word| of_libc.offset + 8 * word as isize);
        // SAFETY: the words lie in the block, which this thread alone has. Between the settings of the base
        // only malloc runs.
        let changed: Vec<isize> = unsafe {
            let before: Vec<usize> = words().map(|word| read(block, word)).collect();
            set_base(block);
            allocate_once();
            set_base(own);
            let changed = words().zip(before).filter(|&(word, before)| read(block, word) != before);
            let changed = changed.map(|(word, _)| word).collect();
            // Its store is lost, once.
            self.end_block(block);
            changed
        };
        if changed.is_empty() {
            return Err(OTHER_MALLOC.into());
        }
        let words = changed.len();
        self.malloc = changed.try_into().map_err(|_| {
            format!("malloc changes {words} words of libc's thread-locals, where 2 are known")
        })?;
        Ok(())
    }

    /// Ends the process if one of `libraries` has thread-locals beyond the block: a library with a single one
    /// of one byte, see `reserve.rs`.
    pub(super) fn must_hold(&self, libraries: &Libraries) {
        if !libraries.lie_within(&arch::images((self.below, self.above))) {
            write_message(format_args!(
                "a library was opened that needs a place in each block of thread-locals, where green threads have none: \
                 set RUNTIME_LATE_LIBRARIES=on"
            ));
            std::process::abort();
        }
    }

    /// Returns how much memory a block needs that ends with a page.
    pub(super) fn bytes(&self) -> usize {
        // The base is aligned, and the rest lies below it.
        (self.above.next_multiple_of(self.align) + self.below).next_multiple_of(16)
    }

    /// Makes a block as of a new thread. Returns its base.
    ///
    /// # Safety
    /// The `bytes` bytes below `end`, which is the end of a page, are the block's until `end_block`.
    pub(super) unsafe fn new_block(&self, end: usize) -> usize {
        let block = (end - self.above) & !(self.align - 1);
        // SAFETY: this contract. glibc makes the block of zeroes: it copies all images, and allocates the
        // vector that leads to them.
        let made = unsafe {
            ptr::with_exposed_provenance_mut::<u8>(end - self.bytes()).write_bytes(0, self.bytes());
            (self.make)(ptr::with_exposed_provenance_mut(block))
        };
        if made.is_null() {
            out_of_memory();
        }
        let own = base();
        // SAFETY: these are fields of the record, which only this thread knows.
        unsafe {
            arch::write_header(block, own, self.record);
            // A list of its own: the block is in no list of glibc's.
            for link in [self.list, self.list + 8] {
                write(block, link, block.wrapping_add_signed(self.list));
            }
            self.tid_of(block).store(next_tid(), Ordering::Relaxed);
            let robust = block.wrapping_add_signed(self.robust);
            write(block, self.robust, robust);
            write(block, self.robust + 8, self.futex_offset);
            write(block, self.robust - 8, robust);
            write(
                block,
                self.specific,
                block.wrapping_add_signed(self.specific) - size_of::<[[usize; 2]; TABLE]>(),
            );
            write(block, self.resp, block.wrapping_add_signed(self.res));
            if let Some(rseq) = self.rseq {
                // The kernel does not know this record: it has no number of a processor.
                let cpu = ptr::with_exposed_provenance_mut::<i32>(block.wrapping_add_signed(rseq + 4));
                cpu.write(-1);
            }
            set_base(block);
            (self.init_ctype)();
            set_base(own);
        }
        block
    }

    /// # Safety
    /// The block is alive.
    unsafe fn tid_of(&self, block: usize) -> &AtomicU32 {
        // SAFETY: the field is a 32-bit word of the record.
        unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(block.wrapping_add_signed(self.tid))) }
    }

    /// Ends a block: frees what libc has allocated for it.
    ///
    /// # Safety
    /// No thread is in the block or enters it again.
    pub(super) unsafe fn end_block(&self, block: usize) {
        // SAFETY: glibc has made the block, and this contract.
        unsafe {
            self.free_tables(block);
            (self.end)(ptr::with_exposed_provenance_mut(block), false);
        }
    }

    /// Frees the tables of keys but the first, which is part of the record.
    ///
    /// # Safety
    /// As for `reset`.
    unsafe fn free_tables(&self, block: usize) {
        for at in 1..TABLE {
            let place = self.specific + 8 * at as isize;
            // SAFETY: the words are pointers to tables that glibc has allocated, or null.
            unsafe {
                let table = read(block, place);
                if table != 0 {
                    libc::free(ptr::with_exposed_provenance_mut(table));
                    write(block, place, 0);
                }
            }
        }
    }

    /// Returns the number of the change of libraries that the block knows. Returns `None` if it knows
    /// libraries with thread-locals that are made at their first use.
    ///
    /// # Safety
    /// The block is new.
    pub(super) unsafe fn generation(&self, block: usize) -> Option<usize> {
        // SAFETY: a word of the block leads to a vector with its length before it. It has the number, then
        // for each module its thread-locals, which are -1 if they do not exist yet, and what to free.
        unsafe {
            let vector = ptr::with_exposed_provenance::<[usize; 2]>(read(block, arch::VECTOR));
            let length = (*vector.sub(1))[0];
            let all_made = (1..=length).all(|module| (*vector.add(module))[0] != usize::MAX);
            all_made.then_some((*vector)[0])
        }
    }

    /// Returns `true` if the block may have thread-locals that libc has made at their first use. `generation`
    /// is what the function of that name has returned.
    ///
    /// # Safety
    /// No thread is in the block.
    #[inline]
    pub(super) unsafe fn has_dynamic(&self, block: usize, generation: Option<usize>) -> bool {
        // SAFETY: as above. libc writes the number before it makes thread-locals of another module.
        unsafe {
            let vector = ptr::with_exposed_provenance::<[usize; 2]>(read(block, arch::VECTOR));
            match generation {
                Some(generation) => generation != (*vector)[0],
                None => (1..=(*vector.sub(1))[0]).any(|module| {
                    let [at, to_free] = *vector.add(module);
                    at != usize::MAX && to_free != 0
                }),
            }
        }
    }

    /// Makes the thread-locals of the block as new, but for those of libc.
    ///
    /// # Safety
    /// No thread is in the block, and its destructors have run.
    pub(super) unsafe fn reset(&self, block: usize, libraries: &Libraries) {
        // SAFETY: this contract.
        unsafe {
            libraries.reset(block);
            ptr::with_exposed_provenance_mut::<c_int>(block.wrapping_add_signed(self.errno)).write(0);
        }
    }

    /// Begins to load what the end of a closure reads, and `has_dynamic` after it. *Runs on: the thread that
    /// alone uses the block.*
    #[inline]
    pub(super) fn will_end(&self, block: usize) {
        // SAFETY: the word lies in the block.
        prefetch(ptr::without_provenance(unsafe { read(block, arch::VECTOR) }));
        prefetch(self.used_keys(block).cast());
        prefetch(ptr::without_provenance(block.wrapping_add_signed(self.robust)));
        prefetch(ptr::without_provenance(block.wrapping_add_signed(self.res)));
    }

    /// Runs the destructors of thread-locals and of keys, until there are no more. *Runs on: a thread in the
    /// block.*
    #[inline]
    pub(super) fn run_destructors(&self, block: usize) {
        // SAFETY: glibc calls what was registered in this block.
        unsafe { (self.call_destructors)() };
        // SAFETY: the byte lies in the block.
        if unsafe { *self.used_keys(block) } {
            self.end_keys(block);
        }
    }

    /// Runs the destructors of keys, and again those of thread-locals. Then no key has a value. *Runs on: a
    /// thread in the block.*
    #[inline(never)]
    fn end_keys(&self, block: usize) {
        let mut has_more = true;
        for _ in 0..ROUNDS {
            // SAFETY: this thread is in the block. glibc sets the byte again if a destructor sets a key.
            has_more = unsafe {
                *self.used_keys(block) = false;
                self.run_destructors_of_keys(block);
                (self.call_destructors)();
                *self.used_keys(block)
            };
            if !has_more {
                break;
            }
        }
        // What destructors have set in the last round is lost, as at the end of an OS thread.
        // SAFETY: as above.
        unsafe {
            if has_more {
                *self.used_keys(block) = false;
                let first = read(block, self.specific);
                ptr::with_exposed_provenance_mut::<[[usize; 2]; TABLE]>(first).write_bytes(0, 1);
            }
            if self.has_tables(block) {
                self.free_tables(block);
            }
        }
    }

    /// Returns where libc notes that a key has had a value: behind the tables.
    pub(super) fn used_keys(&self, block: usize) -> *mut bool {
        ptr::with_exposed_provenance_mut(block.wrapping_add_signed(self.specific + 8 * TABLE as isize))
    }

    /// Gives up what libc keeps for the thread: its robust mutexes, its locale, the state of the resolver, the
    /// last error of `dlopen`. *Runs on: a thread in the block.*
    pub(super) fn end_of_libc(&self, block: usize) {
        // SAFETY: the call changes the locale of this block only, and the words lie in the block.
        unsafe {
            let list = block.wrapping_add_signed(self.robust);
            if read(list, 0) != list {
                // Relaxed: the number was set when the block was made.
                robust::owner_ends(list, self.tid_of(block).load(Ordering::Relaxed));
            }
            // Also where the closure has set none: the tables of characters may be those of an older global
            // locale.
            libc::uselocale(LC_GLOBAL_LOCALE);
            if read(block, self.res + OPTIONS) != 0 {
                self.end_resolver(block);
            }
            if let Some(word) = self.dlerror
                && read(block, word) != 0
            {
                end_dlerror(block, word);
            }
        }
    }

    /// # Safety
    /// This thread is in the block.
    #[cold]
    unsafe fn end_resolver(&self, block: usize) {
        // SAFETY: the function frees what the state refers to. Without its options the state is set up again
        // at its next use.
        unsafe {
            (self.close_res)(ptr::with_exposed_provenance_mut(block.wrapping_add_signed(self.res)));
            write(block, self.res, 0);
            write(block, self.res + OPTIONS, 0);
        }
    }

    /// Returns `true` if there are tables of keys beside the first.
    ///
    /// # Safety
    /// As for `free_tables`.
    unsafe fn has_tables(&self, block: usize) -> bool {
        // SAFETY: the words are pointers to tables, or null.
        let table = |at: usize| unsafe { read(block, self.specific + 8 * at as isize) };
        (1..TABLE).fold(0, |any, at| any | table(at)) != 0
    }

    /// Takes the value of each key, and runs the destructor of each value.
    ///
    /// # Safety
    /// This thread is in the block.
    unsafe fn run_destructors_of_keys(&self, block: usize) {
        // Few programs have so many keys that a second table is used.
        // SAFETY: this contract.
        let tables = if unsafe { self.has_tables(block) } { TABLE } else { 1 };
        for at in 0..tables {
            // SAFETY: this contract; each table has the number and the value of its keys.
            let table = unsafe { read(block, self.specific + 8 * at as isize) };
            let table = ptr::with_exposed_provenance_mut::<[[usize; 2]; TABLE]>(table);
            for key in 0..if table.is_null() { 0 } else { TABLE } {
                // SAFETY: as above. glibc's table of all keys is read as glibc reads it at the end of a
                // thread.
                unsafe {
                    let [number, value] = (*table)[key];
                    if value == 0 {
                        continue;
                    }
                    (*table)[key][1] = 0;
                    let [number_now, destructor] = self.keys.add(at * TABLE + key).read_volatile();
                    if number == number_now && destructor != 0 {
                        transmute::<usize, unsafe extern "C" fn(*mut c_void)>(destructor)(
                            ptr::with_exposed_provenance_mut(value),
                        );
                    }
                }
            }
        }
    }
}

/// Where the state of the resolver has its options, which are 0 until it is set up; two 32-bit numbers come
/// first. `<resolv.h>` says so.
const OPTIONS: isize = 8;

/// # Safety
/// This thread is in the block. The word is that of the error.
#[cold]
unsafe fn end_dlerror(block: usize, word: isize) {
    // SAFETY: the first call returns the error, the second frees it. What is left then is the record of a
    // call without an error.
    unsafe {
        libc::dlerror();
        libc::dlerror();
        libc::free(ptr::with_exposed_provenance_mut(read(block, word)));
        write(block, word, 0);
    }
}

/// Memory for a block that is only tried out.
pub(super) struct Memory {
    start: *mut u8,
    layout: std::alloc::Layout,
}

impl Memory {
    pub(super) fn of(layout: &Layout) -> Memory {
        let layout = std::alloc::Layout::from_size_align(layout.bytes().next_multiple_of(4096), 4096);
        let layout = layout.expect("`find` has checked the sizes");
        // SAFETY: the size is not 0.
        let start = unsafe { std::alloc::alloc(layout) };
        if start.is_null() {
            out_of_memory();
        }
        Memory { start, layout }
    }

    /// Returns one past the highest address.
    pub(super) fn end(&self) -> usize {
        self.start.expose_provenance() + self.layout.size()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `of` has allocated it with this layout.
        unsafe { std::alloc::dealloc(self.start, self.layout) };
    }
}

/// Returns what libc's `pthread_self` returns: where this thread's record is. The program may define another
/// function of that name.
fn record_of_libc() -> usize {
    static PTHREAD_SELF: Real = Real::new(c"pthread_self");
    // SAFETY: libc's function has this type, and no requirements.
    unsafe {
        transmute::<*mut c_void, unsafe extern "C" fn() -> libc::pthread_t>(PTHREAD_SELF.get())() as usize
    }
}

/// libc's name for the locale of the process.
const LC_GLOBAL_LOCALE: libc::locale_t = ptr::without_provenance_mut(usize::MAX);

/// Why there are no blocks where `malloc` is another one.
const OTHER_MALLOC: &str = "malloc is not that of the C library, but of another library, or of Valgrind";

/// The first allocation of a block.
#[inline(never)]
fn allocate_once() {
    // SAFETY: the memory is freed at once.
    unsafe { libc::free(std::hint::black_box(libc::malloc(24))) };
}
