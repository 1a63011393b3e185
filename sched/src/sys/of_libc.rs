//! `Real`: a function of libc in a program that defines another one of its name.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of libc that was looked up.
#[derive(Debug)]
pub struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    /// Returns the record of the function `name`.
    pub const fn new(name: &'static CStr) -> Real {
        Real { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns the address of libc's function. The first call looks it up.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        // Without its libc the process cannot go on.
        self.find().unwrap_or_else(|| std::process::abort())
    }

    /// Returns the address of libc's function; `None` if there is none, as in a static program. Waits for no
    /// other thread: each thread that comes first looks it up.
    #[inline]
    pub fn find(&self) -> Option<*mut c_void> {
        // Relaxed: the value is an address of code, and each thread finds the same.
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.look_up() } else { Some(found) }
    }

    #[cold]
    fn look_up(&self) -> Option<*mut c_void> {
        // SAFETY: the name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        (!found.is_null()).then_some(found)
    }
}
