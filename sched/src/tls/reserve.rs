//! glibc's reserve for libraries that are opened later.
//!
//! Each block has room for the thread-locals of libraries that need a fixed place and are opened later (the
//! model "initial-exec"): some 1,700 bytes, which most programs never use. With the reserve a block and the
//! first frames of a stack lie in two pages, without it in one. So it is taken, unless the program wants to
//! open such libraries. glibc refuses them from then on ("cannot allocate memory in static TLS block").
//!
//! glibc gives out the places one after another. It takes a place back if it is the last one, and forgets it
//! otherwise. Two libraries that have thread-locals and nothing else are opened and closed again:
//!
//! ```text
//!   used │ free                      │
//!   used │ the first          │ last │    the last one has one byte
//!   used │ forgotten          │ last │    the first is closed
//!   used │ forgotten          │ free │    the last is closed
//! ```
//!
//! Nothing remains of them, so glibc writes nothing there when it makes a block. That it went so is tried
//! out: a library with two bytes must be refused. The one byte is glibc's to give, to a library with a single
//! thread-local of one byte: a block that meets it ends the process (`Layout::must_hold`).

use std::ffi::{CString, c_int, c_uint, c_void};
use std::fs::{File, Metadata};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr;

use netpoll::raw::call;

use super::arch;

/// Takes the reserve of blocks with room for `room` bytes of thread-locals. Returns how many bytes libraries
/// have: the room that a block needs. Returns `None` if the reserve is as before, at least in part.
pub(super) fn take(room: usize) -> Option<usize> {
    let most = largest(room)?;
    let first = Library::open(most - 1)?;
    let last = Library::open(1)?;
    let used = arch::bytes_before(first.place(), most - 1);
    let are_neighbours = arch::bytes_before(last.place(), 1) == used + most - 1;
    // The order matters.
    drop(first);
    drop(last);
    (are_neighbours && used + most <= room && Library::open(2).is_none()).then_some(used)
}

/// Returns how many bytes a library can have; `None` for less than 2.
fn largest(room: usize) -> Option<usize> {
    let (mut fits, mut too_many) = (0, room + 1);
    while too_many - fits > 1 {
        let middle = fits.midpoint(too_many);
        match Library::open(middle) {
            Some(_) => fits = middle,
            None => too_many = middle,
        }
    }
    (fits >= 2).then_some(fits)
}

/// An open library with thread-locals alone.
struct Library {
    handle: *mut c_void,
    /// Its file. Libraries that are open at a time have different names by it.
    _file: File,
}

impl Library {
    /// Opens a library with `bytes` of thread-locals. Returns `None` if there is no place for them.
    fn open(bytes: usize) -> Option<Library> {
        const CLOSE_ON_EXEC: c_uint = libc::MFD_CLOEXEC;
        // SAFETY: the name ends with a zero byte.
        let file = unsafe { call!(libc::SYS_memfd_create, c"thread-locals".as_ptr(), CLOSE_ON_EXEC) };
        // SAFETY: the system has just returned this descriptor.
        let file = (file >= 0).then(|| unsafe { File::from_raw_fd(file as c_int) })?;
        let (fd, text) = (file.as_raw_fd(), text(bytes));
        // SAFETY: the call reads the bytes of `text`.
        let written = unsafe { call!(libc::SYS_write, fd, text.as_ptr(), text.len()) };
        if written != text.len() as isize {
            return None;
        }
        // Not `self`: a debugger opens the file by that name, too.
        let path = format!("/proc/{}/fd/{fd}", std::process::id());
        // Processes may have other numbers there.
        let place = |found: Metadata| (found.dev(), found.ino());
        if std::fs::metadata(&path).ok().map(place) != file.metadata().ok().map(place) {
            return None;
        }
        let path = CString::new(path).expect("a number has no zero byte");
        // SAFETY: the library has no code.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then(|| Library { handle, _file: file })
    }

    /// Returns where its thread-locals are, from the base of each block: the loader has written that.
    fn place(&self) -> isize {
        let mut at = ptr::null::<usize>();
        // SAFETY: the call writes the address of the library's record, which begins with the address to which
        // the library was loaded. It stays there while it is open.
        unsafe {
            libc::dlinfo(self.handle, libc::RTLD_DI_LINKMAP, (&raw mut at).cast());
            ptr::with_exposed_provenance::<isize>(*at + PLACE as usize).read()
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: `dlopen` has returned the handle.
        unsafe { libc::dlclose(self.handle) };
    }
}

// Where the parts of the library's file are, which is loaded as it is.
const HEADERS: u64 = 64;
const SYMBOLS: u64 = HEADERS + 4 * 56;
const NAMES: u64 = SYMBOLS + 24;
const HASHES: u64 = NAMES + 8;
const RELOCATION: u64 = HASHES + 16;
const DYNAMIC: u64 = RELOCATION + 24;
const PLACE: u64 = DYNAMIC + 10 * 16;
const END: u64 = PLACE + 8;

/// Returns the file of a library with `bytes` of thread-locals, as `elf(5)` describes it. It has no code, one
/// symbol (the empty one of every library), and one relocation: the place of its thread-locals is to be
/// written.
fn text(bytes: usize) -> Vec<u8> {
    // The largest page of any processor.
    const PAGE: u64 = 1 << 16;
    const READ_WRITE: u32 = 6;
    // `DT_HASH`, `DT_STRTAB`, `DT_SYMTAB`, `DT_STRSZ`, `DT_SYMENT`, `DT_RELA`, `DT_RELASZ`, `DT_RELAENT`,
    // `DT_FLAGS` with `DF_STATIC_TLS`, `DT_NULL`.
    const ENTRIES: [[u64; 2]; 10] = [
        [4, HASHES],
        [5, NAMES],
        [6, SYMBOLS],
        [10, 1],
        [11, 24],
        [7, RELOCATION],
        [8, 24],
        [9, 24],
        [30, 0x10],
        [0, 0],
    ];
    let mut text = Vec::with_capacity(END as usize);
    text.extend(*b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    // A shared object for this processor, version 1.
    text.extend([3, arch::MACHINE].map(u16::to_le_bytes).as_flattened());
    text.extend(1_u32.to_le_bytes());
    // Entry, program headers, section headers; flags.
    text.extend([0, HEADERS, 0].map(u64::to_le_bytes).as_flattened());
    text.extend(0_u32.to_le_bytes());
    // The sizes and numbers of the headers.
    text.extend([64, 56, 4, 64, 0, 0].map(u16::to_le_bytes).as_flattened());
    let mut header = |kind: u32, at: u64, in_file: u64, in_memory: u64, align: u64| {
        text.extend([kind, READ_WRITE].map(u32::to_le_bytes).as_flattened());
        text.extend([at, at, at, in_file, in_memory, align].map(u64::to_le_bytes).as_flattened());
    };
    header(libc::PT_LOAD, 0, END, END, PAGE);
    header(libc::PT_DYNAMIC, DYNAMIC, ENTRIES.len() as u64 * 16, ENTRIES.len() as u64 * 16, 8);
    header(libc::PT_TLS, PLACE, 0, bytes as u64, 1);
    // Stacks need not be executable.
    header(libc::PT_GNU_STACK, 0, 0, 0, 16);
    // The empty symbol, no names, a table of hashes with this symbol alone.
    text.resize(HASHES as usize, 0);
    text.extend([1_u32, 1, 0, 0].map(u32::to_le_bytes).as_flattened());
    text.extend([PLACE, arch::PLACE_OF_THREAD_LOCALS, 0].map(u64::to_le_bytes).as_flattened());
    text.extend(ENTRIES.as_flattened().iter().flat_map(|word| word.to_le_bytes()));
    text.resize(END as usize, 0);
    text
}
