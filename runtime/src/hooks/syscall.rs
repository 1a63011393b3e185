//! libc's `syscall`, in three forms, of which `functions/both.rs` has the third. Locks wait by `futex`. In a
//! program with simulations, `getrandom` and `clock_gettime` answer from the simulation. Every other number
//! goes to the kernel as it is. (Features `interpose` and `sim`.)

#![allow(unsafe_code)]

use std::ffi::c_long;

/// Defines forms of `syscall`. Each has numbers and the functions that perform them.
///
/// A form has no frame of its own, so that a call like `vfork` or `clone` returns twice to its caller. Such a
/// call is noted. libc's function takes a variable number of arguments. With both conventions they are where
/// a function of seven arguments has them. The caller has not set those beyond the system call's own.
macro_rules! forms {
    ($($(#[$about:meta])* $form:ident: $($number:ident $function:ident = $is:expr => $path:path,)*;)*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// As libc's `syscall`.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $form(
            number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
        ) -> c_long {
            std::arch::naked_asm!(
                $(
                    concat!("cmp rdi, {", stringify!($number), "}"),
                    concat!("je {", stringify!($function), "}"),
                )*
                "cmp rdi, {clone}",
                "je 4f",
                "cmp rdi, {fork}",
                "je 4f",
                "cmp rdi, {vfork}",
                "je 4f",
                "cmp rdi, {clone3}",
                "je 4f",
                "5:",
                "mov rax, rdi",
                "mov rdi, rsi",
                "mov rsi, rdx",
                "mov rdx, rcx",
                "mov r10, r8",
                "mov r8, r9",
                "mov r9, [rsp + 8]",
                "syscall",
                "cmp rax, -4095",
                "jae 3f",
                "ret",
                "3:",
                "mov rdi, rax",
                "jmp {fail}",
                "4:",
                "mov byte ptr [rip + {children}], 1",
                "jmp 5b",
                clone = const libc::SYS_clone,
                fork = const libc::SYS_fork,
                vfork = const libc::SYS_vfork,
                clone3 = const libc::SYS_clone3,
                children = sym sched::fork::UNSEEN,
                $($number = const $is, $function = sym $path,)*
                fail = sym netpoll::raw::fail,
            )
        }

        $(#[$about])*
        ///
        /// # Safety
        /// As libc's `syscall`.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $form(
            number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
        ) -> c_long {
            std::arch::naked_asm!(
                $(
                    concat!("cmp x0, {", stringify!($number), "}"),
                    "b.ne 2f",
                    concat!("b {", stringify!($function), "}"),
                    "2:",
                )*
                "cmp x0, {clone}",
                "b.eq 4f",
                "cmp x0, {clone3}",
                "b.eq 4f",
                "5:",
                "mov x8, x0",
                "mov x0, x1",
                "mov x1, x2",
                "mov x2, x3",
                "mov x3, x4",
                "mov x4, x5",
                "mov x5, x6",
                "svc 0",
                "cmn x0, 4095",
                "b.cs 3f",
                "ret",
                "3:",
                "b {fail}",
                "4:",
                "adrp x9, {children}",
                "mov w10, 1",
                "strb w10, [x9, :lo12:{children}]",
                "b 5b",
                clone = const libc::SYS_clone,
                clone3 = const libc::SYS_clone3,
                children = sym sched::fork::UNSEEN,
                $($number = const $is, $function = sym $path,)*
                fail = sym netpoll::raw::fail,
            )
        }
    )*};
}

#[cfg(feature = "interpose")]
forms! {
    /// Green threads park in `futex`.
    interposed: futex_number futex = libc::SYS_futex => interpose::futex::futex,;
}

#[cfg(feature = "sim")]
forms! {
    /// In a simulation, a wait for a lock is bounded, and clocks and random bytes are simulated.
    simulated:
        futex_number futex = libc::SYS_futex => sim::futex::futex,
        random_number random = libc::SYS_getrandom => sim::by_number::getrandom,
        clock_number clock = libc::SYS_clock_gettime => sim::by_number::clock_gettime,;
}

// For `functions/both.rs`, which is there with both features only.
#[allow(unused_imports)]
pub(crate) use forms;
