//! `forms`: defines functions that take the place of libc's, by their names alone.

/// Defines functions of libc that the code of a simulation must not call: each has the words of its arguments
/// of which the expression makes the reason, if there is one, and what a refused call returns. A call that is
/// not refused is libc's.
///
/// Each has six words as its arguments. With the conventions of both processors these are where the first six
/// arguments of libc's function are, also if it takes a variable number of them. The caller has not set those
/// that libc's function does not have.
macro_rules! refused {
    ($($name:ident($args:ident) = $why:expr => $failed:expr;)*) => { $(
        #[doc = concat!("libc's `", stringify!($name), "`, which the code of a simulation must not call.")]
        ///
        /// # Safety
        /// As of libc's function.
        pub unsafe extern "C-unwind" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
        ) -> isize {
            type Words = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize) -> isize;
            const NAME: &std::ffi::CStr =
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name has no zero byte"),
                };
            static REAL: sched::Real = sched::Real::new(NAME);
            if sched::simulation::is_user_code() {
                let $args = [a, b, c, d, e, f];
                #[allow(unused_unsafe)]
                // SAFETY: the words are the arguments of libc's function, by the contract of this one.
                if unsafe { $why }.is_some_and(|what: String| sched::simulation::refuses(|| what)) {
                    return $failed;
                }
            }
            // SAFETY: libc's function of this name takes its arguments from these words, which are the
            // caller's.
            unsafe {
                std::mem::transmute::<*mut std::ffi::c_void, Words>(REAL.get())(a, b, c, d, e, f)
            }
        }
    )* };
}

pub(super) use refused;

/// Sets `errno` to `EPERM`, and returns -1.
///
/// Not `ENOSYS`: std would then never call such a function again, in the whole process.
pub(crate) fn no_permission() -> isize {
    netpoll::raw::fail(-(libc::EPERM as isize))
}

/// Sets `errno` to `EPERM`, and returns null.
pub(super) fn no_pointer() -> isize {
    no_permission() + 1
}
