//! Names that glibc has for its own libraries and for debuggers.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

/// Returns the address of `name`.
pub(super) fn symbol(name: &CStr) -> Result<usize, String> {
    // SAFETY: the call reads the name.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("this C library has no {}", name.to_string_lossy()));
    }
    Ok(found.expose_provenance())
}

/// Returns where the file is mapped whose function of this name the process calls.
pub(super) fn file_that_defines(name: &CStr) -> Result<usize, String> {
    match file_of(symbol(name)?) {
        Some(file) => Ok(file),
        // An executable that takes the address of a function has a jump there, which is its address
        // everywhere. The next definition is the function.
        None => {
            // SAFETY: the call reads the name.
            let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            Ok(file_of(next.expose_provenance()).unwrap_or_default())
        }
    }
}

/// Returns where the file is mapped that defines the function at `address`; `None` if that file only has a
/// jump to it.
fn file_of(address: usize) -> Option<usize> {
    unsafe extern "C" {
        fn dladdr1(
            address: *const c_void,
            info: *mut libc::Dl_info,
            symbol: *mut *const libc::Elf64_Sym,
            what: c_int,
        ) -> c_int;
    }
    /// The kernel's headers have this number for "not defined in this file".
    const UNDEFINED: u16 = 0;
    const OF_SYMBOL: c_int = 1;
    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    let mut symbol = ptr::null();
    // SAFETY: the call fills `found` and `symbol` if it knows the address. The symbol lies in the file.
    unsafe {
        let known =
            dladdr1(ptr::with_exposed_provenance(address), &raw mut found, &raw mut symbol, OF_SYMBOL);
        let is_jump = known != 0 && symbol.as_ref().is_some_and(|symbol| symbol.st_shndx == UNDEFINED);
        (!is_jump).then(|| found.dli_fbase.addr())
    }
}

/// Returns the offset of a field, by the description that it has for debuggers.
pub(super) fn field(name: &CStr) -> Result<isize, String> {
    let description = ptr::with_exposed_provenance::<[u32; 3]>(symbol(name)?);
    // SAFETY: each `_thread_db_` name of a field is three numbers: bits, count, offset.
    Ok(unsafe { (*description)[2] } as isize)
}

/// Returns the size of a record, by the description that it has for debuggers.
pub(super) fn size(name: &CStr) -> Result<usize, String> {
    // SAFETY: each `_thread_db_sizeof_` name is a number.
    Ok(unsafe { *ptr::with_exposed_provenance::<u32>(symbol(name)?) } as usize)
}
