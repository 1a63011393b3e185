//! The libraries with thread-locals in every block: the libraries of the program, and the libraries that it
//! opens later.
//!
//! A library that is opened later may need a place in each block (the model "initial-exec"). glibc then
//! writes its start values into the blocks of all threads that it knows, and it does not know ours. So a
//! block is brought up to date before a closure begins or goes on in it, if a library has come since.
//!
//! ```text
//!   glibc's slots    program │ libc │ opened later │ free │ free ..
//!                                     ^ watched      ^ watched
//! ```
//!
//! A slot has another generation when a library has taken it, or left it. glibc hands out the lowest free
//! one.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::arch;
use super::symbols::{field, size, symbol};

/// The thread-locals of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// From the base of a block.
    pub(super) offset: isize,
    pub(super) bytes: usize,
    /// The start values; zeroes follow. A copy: the library may be closed.
    start: Box<[u8]>,
}

/// What is known of the libraries with thread-locals.
pub(super) struct Libraries {
    images: Vec<Opened>,
    pub(super) of_libc: Option<&'static Image>,
    /// The slot of the next library.
    next: Watched,
    /// Those of libraries that may be closed again.
    taken: Vec<Watched>,
}

/// A library's image, and the generation of its slot. A library that was closed and opened again has another
/// one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Opened {
    generation: usize,
    image: &'static Image,
}

/// The last ones that were found.
static LATEST: AtomicPtr<Libraries> = AtomicPtr::new(ptr::null_mut());

impl Libraries {
    /// Returns all libraries. *Runs on: any thread, after `search` has succeeded once.*
    pub(super) fn latest() -> &'static Libraries {
        // Acquire: pairs with the release in `search`.
        let known = LATEST.load(Ordering::Acquire);
        // SAFETY: `search` leaks what it stores.
        let known = unsafe { known.as_ref() };
        match known {
            Some(known) if known.are_all() => known,
            _ => Libraries::search().expect("what was found once is found again"),
        }
    }

    /// Looks for all libraries. What it finds is leaked, a few words for each time that a library was opened
    /// or closed: blocks refer to it.
    pub(super) fn search() -> Result<&'static Libraries, String> {
        // One search at a time, so that the last one that is stored is the latest.
        static KNOWN: Mutex<Vec<&'static Image>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let found = Libraries::find(slots()?, &mut known);
        let found = ptr::from_mut(Box::leak(Box::new(found)));
        // Release: pairs with the acquire in `latest`.
        LATEST.store(found, Ordering::Release);
        // SAFETY: it was leaked.
        Ok(unsafe { &*found })
    }

    /// `known` are all images that were ever found, also of libraries that were closed.
    fn find(slots: &Slots, known: &mut Vec<&'static Image>) -> Libraries {
        // The slots are read first: what comes after that is noticed by them.
        let (next, taken) = slots.watched();
        let mut found = Found { slots, taken, known, images: Vec::new(), of_libc: None };
        // SAFETY: `note` gets the pointer during the call only.
        unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
        let taken = found.taken.into_iter().map(|(_, watched)| watched).collect();
        Libraries { images: found.images, of_libc: found.of_libc, next, taken }
    }

    /// Returns `true` if a thread-local at `offset` from the base is one of a library but libc.
    pub(super) fn has(&self, offset: isize) -> bool {
        self.images.iter().any(|opened| opened.image.has(offset))
    }

    /// Returns `true` if the thread-locals of all libraries but libc are in this part of a block.
    pub(super) fn lie_within(&self, part: &Range<isize>) -> bool {
        self.images.iter().all(|opened| opened.image.lies_within(part))
    }

    /// Returns `false` if a library has come or gone since these were found.
    #[inline(always)]
    pub(super) fn are_all(&self) -> bool {
        self.next.is_same() && self.taken.iter().all(|watched| watched.is_same())
    }

    /// Writes all start values into the block of `base`.
    ///
    /// # Safety
    /// No other thread uses the block, and no value in it has a destructor left.
    #[inline]
    pub(super) unsafe fn reset(&self, base: usize) {
        // SAFETY: this contract.
        self.images.iter().for_each(|opened| unsafe { opened.image.copy_to(base) });
    }

    /// Changes the block of `base` from the libraries `older` to these. The closure of that block goes on.
    ///
    /// # Safety
    /// No other thread uses the block, which has the images of `older`.
    pub(super) unsafe fn replace(&self, older: &Libraries, base: usize) {
        let gone = older.images.iter().filter(|opened| !self.images.contains(opened));
        let come = self.images.iter().filter(|opened| !older.images.contains(opened));
        // SAFETY: this contract. A closure that has opened a library itself may have written there already,
        // unless another one had the place before.
        unsafe {
            gone.for_each(|opened| opened.image.clear(base));
            come.filter(|opened| opened.image.is_blank(base)).for_each(|opened| opened.image.copy_to(base));
        }
    }
}

impl Image {
    /// # Safety
    /// No other thread uses this part of the block of `base`.
    #[inline]
    unsafe fn copy_to(&self, base: usize) {
        // SAFETY: the image lies within the block.
        unsafe {
            ptr::copy_nonoverlapping(self.start.as_ptr(), self.place(base), self.start.len());
            self.place(base).add(self.start.len()).write_bytes(0, self.bytes - self.start.len());
        }
    }

    /// # Safety
    /// As for `copy_to`.
    unsafe fn clear(&self, base: usize) {
        // SAFETY: the image lies within the block.
        unsafe { self.place(base).write_bytes(0, self.bytes) };
    }

    /// Returns `true` if the block of `base` has only zeroes there.
    ///
    /// # Safety
    /// As for `copy_to`.
    unsafe fn is_blank(&self, base: usize) -> bool {
        // SAFETY: the image lies within the block.
        unsafe { std::slice::from_raw_parts(self.place(base), self.bytes) }.iter().all(|&byte| byte == 0)
    }

    pub(super) fn has(&self, offset: isize) -> bool {
        (self.offset..self.offset + self.bytes.cast_signed()).contains(&offset)
    }

    pub(super) fn lies_within(&self, part: &Range<isize>) -> bool {
        part.start <= self.offset && self.offset + self.bytes.cast_signed() <= part.end
    }

    #[inline]
    fn place(&self, base: usize) -> *mut u8 {
        ptr::with_exposed_provenance_mut(base.wrapping_add_signed(self.offset))
    }
}

/// A word of glibc's, and its value when it was first read.
#[derive(Clone, Copy)]
struct Watched {
    word: usize,
    value: usize,
}

impl Watched {
    fn new(word: usize) -> Watched {
        Watched { word, value: load(word) }
    }

    #[inline(always)]
    fn is_same(self) -> bool {
        load(self.word) == self.value
    }
}

/// Reads a word of glibc's list. Acquire, which pairs with nothing that glibc names: who sees the generation
/// of a slot must see its library, too. glibc writes both before the call of `dlopen` returns, and a closure
/// uses the library only after it has heard of that.
#[inline(always)]
fn load(word: usize) -> usize {
    // SAFETY: `Slots` returns words of glibc's list only, which lives as long as the process.
    unsafe { AtomicUsize::from_ptr(ptr::with_exposed_provenance_mut(word)) }.load(Ordering::Acquire)
}

/// Where glibc keeps its list of libraries with thread-locals, as it describes it for debuggers.
struct Slots {
    /// The first part of the list: a length, a pointer to the next part, and slots.
    list: usize,
    length: isize,
    next: isize,
    slots: isize,
    slot_bytes: usize,
    generation: isize,
    library: isize,
    /// Where a library has the distance of its thread-locals from the base.
    distance: isize,
}

/// Returns where they are. Looked up once: looking up waits for every library that is being opened, and so
/// for code of the user.
fn slots() -> Result<&'static Slots, String> {
    static FOUND: OnceLock<Result<Slots, String>> = OnceLock::new();
    FOUND.get_or_init(Slots::find).as_ref().map_err(String::clone)
}

impl Slots {
    fn find() -> Result<Slots, String> {
        let list = field(c"_thread_db_rtld_global__dl_tls_dtv_slotinfo_list")?;
        Ok(Slots {
            list: load(symbol(c"_rtld_global")?.wrapping_add_signed(list)),
            length: field(c"_thread_db_dtv_slotinfo_list_len")?,
            next: field(c"_thread_db_dtv_slotinfo_list_next")?,
            slots: field(c"_thread_db_dtv_slotinfo_list_slotinfo")?,
            slot_bytes: size(c"_thread_db_sizeof_dtv_slotinfo")?,
            generation: field(c"_thread_db_dtv_slotinfo_gen")?,
            library: field(c"_thread_db_dtv_slotinfo_map")?,
            distance: field(c"_thread_db_link_map_l_tls_offset")?,
        })
    }

    /// Returns the address of slot `number`, or of the pointer to the part of the list that would have it.
    fn slot(&self, mut number: usize) -> Result<usize, usize> {
        let mut part = self.list;
        loop {
            let length = load(part.wrapping_add_signed(self.length));
            if number < length {
                return Ok(part.wrapping_add_signed(self.slots) + number * self.slot_bytes);
            }
            number -= length;
            let next = part.wrapping_add_signed(self.next);
            part = match load(next) {
                0 => return Err(next),
                part => part,
            };
        }
    }

    /// Returns the generation of slot `number`, which a library has.
    fn generation(&self, number: usize) -> usize {
        self.slot(number).map_or(0, |slot| load(slot.wrapping_add_signed(self.generation)))
    }

    /// Returns what to watch of the first free slot, and of each one before it with its number.
    fn watched(&self) -> (Watched, Vec<(usize, Watched)>) {
        let mut taken = Vec::new();
        for number in 1.. {
            let slot = match self.slot(number) {
                Err(next) => return (Watched::new(next), taken),
                Ok(slot) => slot,
            };
            // The generation first: if the library changes after it was read, the word is not the same any
            // more.
            let watched = Watched::new(slot.wrapping_add_signed(self.generation));
            if load(slot.wrapping_add_signed(self.library)) == 0 {
                return (watched, taken);
            }
            taken.push((number, watched));
        }
        unreachable!("the list has an end")
    }

    /// Returns where the thread-locals of library `number` are in each block, from its base. Returns `None`
    /// if they are made at their first use in a block, or if the library is not there yet.
    fn offset(&self, number: usize) -> Option<isize> {
        let slot = self.slot(number).ok()?;
        match load(slot.wrapping_add_signed(self.library)) {
            0 => None,
            library => match load(library.wrapping_add_signed(self.distance)).cast_signed() {
                distance @ 1.. => Some(arch::offset_of_image(distance)),
                _ => None,
            },
        }
    }
}

/// What is found of the libraries.
struct Found<'a> {
    slots: &'a Slots,
    taken: Vec<(usize, Watched)>,
    known: &'a mut Vec<&'static Image>,
    images: Vec<Opened>,
    of_libc: Option<&'static Image>,
}

impl Found<'_> {
    fn keep(&mut self, image: Image) -> &'static Image {
        let known = self.known.iter().find(|known| ***known == image).copied();
        known.unwrap_or_else(|| {
            let new = Box::leak(Box::new(image));
            self.known.push(new);
            new
        })
    }
}

/// Notes a library. No library goes away during the call.
unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid description, and the pointer that it was given.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Found<'_>>()) };
    // SAFETY: the description has the number of its headers, and a name that ends with a zero byte.
    let (headers, name) = unsafe {
        (
            std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()),
            CStr::from_ptr(info.dlpi_name).to_bytes(),
        )
    };
    let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_TLS) else { return 0 };
    let Some(offset) = found.slots.offset(info.dlpi_tls_modid) else { return 0 };
    let from = ptr::with_exposed_provenance::<u8>((info.dlpi_addr + header.p_vaddr) as usize);
    // SAFETY: the library is loaded, and its header says where its start values are.
    let start = unsafe { std::slice::from_raw_parts(from, header.p_filesz as usize) };
    let image = Image { offset, bytes: header.p_memsz as usize, start: start.into() };
    let is = |part: &[u8]| name.windows(part.len()).any(|found| found == part);
    let (is_libc, is_loader) = (is(b"libc.so"), is(b"ld-linux"));
    // The program and these two are never closed.
    if name.is_empty() || is_libc || is_loader {
        found.taken.retain(|&(number, _)| number != info.dlpi_tls_modid);
    }
    let image = found.keep(image);
    if is_libc {
        found.of_libc = Some(image);
    } else if !is_loader {
        found.images.push(Opened { generation: found.slots.generation(info.dlpi_tls_modid), image });
    }
    0
}
