//! The functions that the sanitizer's code calls, with ThreadSanitizer's names and arguments.
//!
//! Each is a stub that passes on its return address, which names the place of the access, as the sixth
//! argument. Atomic operations are performed here, all with SeqCst: no order that code asks for is stronger.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;

use super::model::access;

/// Makes a stub for each function: it jumps to the body with the return address as the sixth argument.
macro_rules! stubs {
    ($($name:ident => $body:path;)+) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!("mov r9, [rsp]", "jmp {}", sym $body)
        }
    )+};
}

extern "C" fn read<const SIZE: usize>(at: usize, _: u64, _: u64, _: u64, _: u64, place: usize) {
    access(at, SIZE, false, place);
}

extern "C" fn write<const SIZE: usize>(at: usize, _: u64, _: u64, _: u64, _: u64, place: usize) {
    access(at, SIZE, true, place);
}

unsafe extern "C" fn set(to: usize, byte: i32, size: usize, _: u64, _: u64, place: usize) -> usize {
    access(to, size, true, place);
    // SAFETY: the caller's `memset`.
    unsafe { libc_memset(to, byte, size) }
}

unsafe extern "C" fn copy(to: usize, from: usize, size: usize, _: u64, _: u64, place: usize) -> usize {
    access(from, size, false, place);
    access(to, size, true, place);
    // SAFETY: the caller's `memcpy` or `memmove`; the latter does both.
    unsafe { libc_memmove(to, from, size) }
}

unsafe extern "C" {
    #[link_name = "memset"]
    fn libc_memset(to: usize, byte: i32, size: usize) -> usize;
    #[link_name = "memmove"]
    fn libc_memmove(to: usize, from: usize, size: usize) -> usize;
}

/// What the code announces beside accesses.
extern "C" fn nothing() {}

extern "C" fn full_fence() {
    fence(SeqCst);
}

stubs! {
    __tsan_read1 => read<1>;
    __tsan_read2 => read<2>;
    __tsan_read4 => read<4>;
    __tsan_read8 => read<8>;
    __tsan_read16 => read<16>;
    __tsan_unaligned_read2 => read<2>;
    __tsan_unaligned_read4 => read<4>;
    __tsan_unaligned_read8 => read<8>;
    __tsan_unaligned_read16 => read<16>;
    __tsan_write1 => write<1>;
    __tsan_write2 => write<2>;
    __tsan_write4 => write<4>;
    __tsan_write8 => write<8>;
    __tsan_write16 => write<16>;
    __tsan_unaligned_write2 => write<2>;
    __tsan_unaligned_write4 => write<4>;
    __tsan_unaligned_write8 => write<8>;
    __tsan_unaligned_write16 => write<16>;
    __tsan_vptr_read => read<8>;
    __tsan_vptr_update => write<8>;
    __tsan_memset => set;
    __tsan_memcpy => copy;
    __tsan_memmove => copy;
    __tsan_init => nothing;
    __tsan_func_entry => nothing;
    __tsan_func_exit => nothing;
    __tsan_atomic_signal_fence => nothing;
    __tsan_atomic_thread_fence => full_fence;
}

/// Makes the functions of one width. Their arguments have the width in the low bits of a register.
macro_rules! atomics {
    ($of:ident, $int:ident, $atomic:ident:
     $load:ident $store:ident $exchange:ident $add:ident $sub:ident $and:ident $or:ident $xor:ident $nand:ident $cas:ident) => {
        mod $of {
            use std::sync::atomic::{$atomic, Ordering::SeqCst};

            use super::access;

            /// Announces the access.
            fn at<'a>(at: usize, write: bool, place: usize) -> &'a $atomic {
                access(at, size_of::<$int>(), write, place);
                // SAFETY: the code is about to access this atomic.
                unsafe { $atomic::from_ptr(at as *mut $int) }
            }

            pub(super) extern "C" fn load(to: usize, _: u64, _: u64, _: u64, _: u64, place: usize) -> $int {
                at(to, false, place).load(SeqCst)
            }

            pub(super) extern "C" fn store(to: usize, value: $int, _: u64, _: u64, _: u64, place: usize) {
                at(to, true, place).store(value, SeqCst);
            }

            atomics!(change $int: exchange = swap, add = fetch_add, sub = fetch_sub, and = fetch_and, or = fetch_or,
                xor = fetch_xor, nand = fetch_nand);

            // A comparison that fails takes the line, too.
            pub(super) extern "C" fn cas(to: usize, old: $int, new: $int, _: u64, _: u64, place: usize) -> $int {
                at(to, true, place).compare_exchange(old, new, SeqCst, SeqCst).unwrap_or_else(|found| found)
            }
        }
        stubs! {
            $load => $of::load;
            $store => $of::store;
            $exchange => $of::exchange;
            $add => $of::add;
            $sub => $of::sub;
            $and => $of::and;
            $or => $of::or;
            $xor => $of::xor;
            $nand => $of::nand;
            $cas => $of::cas;
        }
    };
    (change $int:ident: $($name:ident = $method:ident),+) => {$(
        pub(super) extern "C" fn $name(to: usize, value: $int, _: u64, _: u64, _: u64, place: usize) -> $int {
            at(to, true, place).$method(value, SeqCst)
        }
    )+};
}

atomics!(bytes, u8, AtomicU8:
    __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange __tsan_atomic8_fetch_add __tsan_atomic8_fetch_sub
    __tsan_atomic8_fetch_and __tsan_atomic8_fetch_or __tsan_atomic8_fetch_xor __tsan_atomic8_fetch_nand
    __tsan_atomic8_compare_exchange_val);
atomics!(words16, u16, AtomicU16:
    __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange __tsan_atomic16_fetch_add __tsan_atomic16_fetch_sub
    __tsan_atomic16_fetch_and __tsan_atomic16_fetch_or __tsan_atomic16_fetch_xor __tsan_atomic16_fetch_nand
    __tsan_atomic16_compare_exchange_val);
atomics!(words32, u32, AtomicU32:
    __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange __tsan_atomic32_fetch_add __tsan_atomic32_fetch_sub
    __tsan_atomic32_fetch_and __tsan_atomic32_fetch_or __tsan_atomic32_fetch_xor __tsan_atomic32_fetch_nand
    __tsan_atomic32_compare_exchange_val);
atomics!(words64, u64, AtomicU64:
    __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange __tsan_atomic64_fetch_add __tsan_atomic64_fetch_sub
    __tsan_atomic64_fetch_and __tsan_atomic64_fetch_or __tsan_atomic64_fetch_xor __tsan_atomic64_fetch_nand
    __tsan_atomic64_compare_exchange_val);
