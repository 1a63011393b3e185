//! The system's information about OS threads and its settings for them: ids, activity, time slices, timer
//! slack.

#![allow(unsafe_code)]

/// What another OS thread of this process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It runs, or is ready and waits for a processor.
    Computing,
    /// It waits in the kernel.
    Blocked,
    /// The system does not say.
    Unknown,
}

/// Where another OS thread of this process is blocked in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(any(target_os = "linux", target_os = "android"), not(portable))),
    allow(dead_code, reason = "other systems do not say where a thread is blocked")
)]
pub(crate) struct BlockedAt {
    /// The address at which the thread goes on, and its stack pointer there.
    pub(crate) pc: usize,
    pub(crate) sp: usize,
    /// How often the thread was put on a processor. If a later look finds the same number, the thread was
    /// blocked all the time.
    runs: u64,
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
mod linux {
    use netpoll::raw::call;

    use super::{BlockedAt, Doing};

    /// Returns the kernel's id of the calling thread.
    #[inline(never)]
    pub(crate) fn thread_id() -> i32 {
        // SAFETY: `gettid` takes no argument and always succeeds.
        unsafe { call!(libc::SYS_gettid) as i32 }
    }

    /// Lets other OS threads run. The runtime's own code yields by this function: libc's may be a hook, which
    /// parks a green thread. A green thread that waits for a lock of the runtime must not park there.
    #[cold]
    #[inline(never)]
    pub(crate) fn yield_thread() {
        if cfg!(miri) {
            // Miri does not have the system call.
            return std::thread::yield_now();
        }
        // SAFETY: the call has no argument.
        unsafe { call!(libc::SYS_sched_yield) };
    }

    /// Returns the kernel's id of the thread with which this process began.
    pub(crate) fn main_thread_id() -> i32 {
        std::process::id().cast_signed()
    }

    /// Returns what thread `tid` of this process is doing. The thread's CPU clock does not suffice: a starved
    /// thread looks blocked.
    pub(crate) fn doing(tid: i32) -> Doing {
        match std::fs::read(format!("/proc/self/task/{tid}/syscall")) {
            Ok(text) if text.starts_with(b"running") => Doing::Computing,
            Ok(text) if !text.is_empty() => Doing::Blocked,
            _ => Doing::Unknown,
        }
    }

    /// Returns where thread `tid` of this process is blocked; `None` if it is not, or if the system does not
    /// say. It does not disturb the thread.
    pub(crate) fn blocked_at(tid: i32) -> Option<BlockedAt> {
        let read = |file| std::fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).ok();
        // The number first: a thread that is blocked afterwards, and has the same number later, has not run
        // in between.
        let runs =
            read("schedstat")?.split_ascii_whitespace().nth(2)?.parse().ok().filter(|&runs| runs > 0)?;
        // "NUMBER ARGUMENTS SP PC", or "-1 SP PC" outside of a system call, or "running".
        let call = read("syscall")?;
        let mut words = call.split_ascii_whitespace().rev();
        let mut address = || usize::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let (pc, sp) = (address()?, address()?);
        Some(BlockedAt { pc, sp, runs })
    }

    /// `struct sched_attr` of sched_setattr(2): the fields that every kernel knows.
    #[repr(C)]
    #[derive(Default)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }

    /// The usual policy of the kernel. For Android the crate libc does not have it by this name.
    const SCHED_OTHER: u32 = 0;
    /// How long this thread runs before the kernel lets another thread run; the default is above a
    /// millisecond.
    pub(crate) const SLICE_NS: u64 = 100_000;
    /// Stands for the default.
    const DEFAULT_SLICE: u64 = 0;
    /// `SCHED_FLAG_RESET_ON_FORK`: threads and processes that this thread starts get the default slice.
    const RESET_ON_FORK: u64 = 1;

    /// Asks the kernel for short slices for thread `tid` of this process; 0 is the calling thread.
    ///
    /// The call needs no privilege and changes neither policy nor nice value. A kernel before 6.12 ignores
    /// the slice. A thread with a negative nice value keeps its slice: the reset would take that nice value
    /// from the threads that it starts.
    pub(crate) fn shorten_slice(tid: i32) {
        set_slice(tid, SLICE_NS);
    }

    /// Gives the calling thread the default slice again.
    pub(crate) fn restore_slice() {
        set_slice(0, DEFAULT_SLICE);
    }

    #[inline(never)]
    fn set_slice(tid: i32, ns: u64) {
        let Some(mut attr) = attributes(tid) else { return };
        if attr.policy != SCHED_OTHER || attr.nice < 0 {
            return;
        }
        attr.size = size_of::<SchedAttr>() as u32;
        attr.flags |= RESET_ON_FORK;
        attr.runtime = ns;
        // SAFETY: `attr` is what the kernel returned, except for the slice and one flag.
        unsafe { call!(libc::SYS_sched_setattr, tid, &raw const attr, 0) };
    }

    fn attributes(tid: i32) -> Option<SchedAttr> {
        let mut attr = SchedAttr::default();
        let size = size_of::<SchedAttr>() as libc::c_uint;
        // SAFETY: `attr` has `size` bytes, which the kernel may write.
        let got = unsafe { call!(libc::SYS_sched_getattr, tid, &raw mut attr, size, 0) };
        (got == 0).then_some(attr)
    }

    /// Returns the slice of the calling thread, in ns; 0 if the kernel does not say.
    #[cfg(test)]
    pub(crate) fn slice() -> u64 {
        attributes(0).map_or(0, |attr| attr.runtime)
    }

    /// Blocks the calling OS thread for `time`. A signal may end the sleep earlier. Signal handlers may call
    /// it.
    #[inline(never)]
    pub(crate) fn sleep_thread(time: std::time::Duration) {
        if cfg!(any(miri, not(target_pointer_width = "64"))) {
            // Miri does not have the system call, and with 32 bits the C library's times may be wider than
            // the call's.
            return std::thread::sleep(time);
        }
        let time = libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ };
        // SAFETY: the call only reads `time`; a null pointer means that the time left is not wanted.
        unsafe { call!(libc::SYS_nanosleep, &raw const time, std::ptr::null_mut::<libc::timespec>()) };
    }

    /// Returns how many processors the calling thread may run on; `usize::MAX` if the system does not say.
    /// std's question has room for 1,024 processors, and the kernel answers it only if it can have no more.
    #[inline(never)]
    pub fn processors_in_set() -> usize {
        // Room for 65,536 processors.
        let mut set = [0u64; 1024];
        if cfg!(miri) {
            return usize::MAX;
        }
        // SAFETY: the call writes at most the size of `set`, and returns how many bytes it has written.
        let written = unsafe { call!(libc::SYS_sched_getaffinity, 0, size_of_val(&set), set.as_mut_ptr()) };
        match set.iter().map(|word| word.count_ones() as usize).sum() {
            n if written > 0 && n > 0 => n,
            _ => usize::MAX,
        }
    }

    /// Returns the number of the processor on which the calling thread runs, for near pollers.
    #[inline(never)]
    pub(crate) fn processor() -> Option<u32> {
        // SAFETY: the call has no argument.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    /// Returns how many processors the calling thread may run on; `usize::MAX` if the system does not say.
    pub(crate) fn processors() -> usize {
        processors_in_set()
    }

    /// True if `thread_ids` works on this system.
    pub(crate) const LISTS_THREADS: bool = true;

    /// Returns the ids of all threads of this process; `None` if the system does not say.
    pub(crate) fn thread_ids() -> Option<Vec<i32>> {
        let entries = std::fs::read_dir("/proc/self/task").ok()?;
        entries.map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    }

    /// Returns by how many ns the kernel may delay the end of the calling thread's sleeps; usually 50,000.
    /// Started threads and processes inherit the value.
    #[inline(never)]
    pub(crate) fn timer_slack() -> u64 {
        // SAFETY: `prctl` takes only a number here.
        u64::try_from(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }).unwrap_or(0)
    }

    /// Sets the value that [`timer_slack`] returns; 0 changes nothing.
    #[inline(never)]
    pub(crate) fn set_timer_slack(ns: u64) {
        if ns > 0 {
            // SAFETY: `prctl` takes only numbers here.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns as libc::c_ulong, 0, 0, 0) };
        }
    }
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
pub use linux::processors_in_set;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
pub(crate) use linux::{
    LISTS_THREADS, blocked_at, doing, main_thread_id, processor, processors, restore_slice, set_timer_slack,
    shorten_slice, sleep_thread, thread_id, thread_ids, timer_slack, yield_thread,
};
#[cfg(all(test, target_os = "linux", not(portable)))]
pub(crate) use linux::{SLICE_NS, slice};

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(portable))))]
mod other {
    use super::{BlockedAt, Doing};

    pub(crate) fn thread_id() -> i32 {
        0
    }

    pub(crate) fn main_thread_id() -> i32 {
        -1
    }

    pub(crate) fn doing(_tid: i32) -> Doing {
        Doing::Unknown
    }

    pub(crate) fn blocked_at(_tid: i32) -> Option<BlockedAt> {
        None
    }

    /// Returns `usize::MAX`: std's answer is all that is known.
    pub fn processors_in_set() -> usize {
        usize::MAX
    }

    pub(crate) fn processor() -> Option<u32> {
        None
    }

    pub(crate) fn processors() -> usize {
        std::thread::available_parallelism().map_or(usize::MAX, usize::from)
    }

    pub(crate) const LISTS_THREADS: bool = false;

    pub(crate) fn thread_ids() -> Option<Vec<i32>> {
        None
    }

    pub(crate) fn yield_thread() {
        std::thread::yield_now();
    }

    pub(crate) fn shorten_slice(_tid: i32) {}

    pub(crate) fn restore_slice() {}

    pub(crate) fn sleep_thread(time: std::time::Duration) {
        std::thread::sleep(time);
    }

    pub(crate) fn timer_slack() -> u64 {
        0
    }

    pub(crate) fn set_timer_slack(_ns: u64) {}
}

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(portable))))]
pub use other::processors_in_set;
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(portable))))]
pub(crate) use other::{
    LISTS_THREADS, blocked_at, doing, main_thread_id, processor, processors, restore_slice, set_timer_slack,
    shorten_slice, sleep_thread, thread_id, thread_ids, timer_slack, yield_thread,
};
