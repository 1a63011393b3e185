//! Names that glibc has for its own libraries and for debuggers.

use std::ffi::CStr;
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
