//! The functions of a program with `runtime::interpose!(sim)`, in which sockets may be simulated: a socket
//! that code of a simulation makes is one of the simulated network. Each function on sockets asks there first
//! (`network/descriptors.rs` of `monochrome-sim`). What is not for a simulated socket goes to the function
//! that parks (`monochrome-interpose`), or to the system where there is none.
//!
//! A program with `interpose!()` or `interpose!(threads)` has none of the functions on sockets here.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::mem;
use std::ptr;
use std::time::Duration;

use interpose::{
    accept, checked, close as closing, connect as connecting, mode, names, poll as polling, read as reading,
    select as selecting, sleep as sleeping, write as writing,
};
use libc::{
    addrinfo, clockid_t, epoll_event, fd_set, iovec, itimerspec, mmsghdr, msghdr, nfds_t, off_t, off64_t,
    pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval, useconds_t,
};
use netpoll::raw::{call, fail};
use sched::Real;
use sim::network::descriptors as simulated;

pub use super::interposed::{
    __ppoll_chk, close_range, closefrom, preadv2, preadv64v2, pwritev2, pwritev64v2,
};

super::super::syscall::forms! {
    /// Green threads park in `futex`; in a simulation, clocks and random bytes are simulated.
    syscall:
        futex_number futex = libc::SYS_futex => interpose::futex::futex,
        random_number random = libc::SYS_getrandom => sim::by_number::getrandom,
        clock_number clock = libc::SYS_clock_gettime => sim::by_number::clock_gettime,;
}

/// Converts the result of a system call into that of a function of libc.
#[inline]
fn finish(result: isize) -> isize {
    if result < 0 { fail(result) } else { result }
}

/// Defines functions of libc. Each asks by the first expression whether the socket is simulated. Otherwise
/// the second one has the result of the function of libc.
macro_rules! forms {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty = $simulated:expr, $other:expr;)*) => { $(
        #[doc = concat!("libc's `", stringify!($name), "`; on a simulated socket that of the simulation.")]
        ///
        /// # Safety
        /// As libc's.
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            // SAFETY: the arguments are the caller's.
            #[allow(unused_unsafe)]
            match unsafe { $simulated } {
                Some(result) => finish(result) as $result,
                // SAFETY: as above.
                None => unsafe { $other },
            }
        }
    )* };
}

/// Returns the result of a system call as that of a function of libc.
macro_rules! system {
    ($($arg:expr),*) => { finish(call!($($arg),*)) as _ };
}

forms! {
    accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int =
        simulated::accept4(fd, from, len, 0), accept::accept(fd, from, len);
    accept4(fd: c_int, from: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int =
        simulated::accept4(fd, from, len, flags), accept::accept4(fd, from, len, flags);
    bind(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int =
        simulated::bind(fd, to, len), system!(libc::SYS_bind, fd, to, len);
    close(fd: c_int) -> c_int = simulated::close(fd), closing::close(fd);
    connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int =
        simulated::connect(fd, to, len), connecting::connect(fd, to, len);
    dup(fd: c_int) -> c_int = simulated::dup(fd), mode::dup(fd);
    epoll_create(size: c_int) -> c_int =
        simulated::epoll_create(size), if size > 0 { system!(libc::SYS_epoll_create1, 0) } else {
            fail(-(libc::EINVAL as isize)) as c_int
        };
    epoll_create1(flags: c_int) -> c_int =
        simulated::epoll_create1(flags), system!(libc::SYS_epoll_create1, flags);
    epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int =
        simulated::epoll_ctl(epoll, operation, fd, event),
        system!(libc::SYS_epoll_ctl, epoll, operation, fd, event);
    epoll_pwait(
        epoll: c_int, events: *mut epoll_event, most: c_int, milliseconds: c_int, mask: *const sigset_t
    ) -> c_int =
        if mask.is_null() { wait_simulated(epoll, events, most, milliseconds) } else { refuse_mask(epoll) },
        system!(libc::SYS_epoll_pwait, epoll, events, most, milliseconds, mask, MASK_BYTES);
    epoll_pwait2(
        epoll: c_int, events: *mut epoll_event, most: c_int, time: *const timespec, mask: *const sigset_t
    ) -> c_int =
        if mask.is_null() {
            simulated::epoll_wait(epoll, events, most, time.as_ref().map(limit))
        } else {
            refuse_mask(epoll)
        },
        system!(libc::SYS_epoll_pwait2, epoll, events, most, time, mask, MASK_BYTES);
    epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, milliseconds: c_int) -> c_int =
        wait_simulated(epoll, events, most, milliseconds),
        polling::epoll_wait(epoll, events, most, milliseconds);
    eventfd(count: c_uint, flags: c_int) -> c_int =
        simulated::eventfd(count, flags), system!(libc::SYS_eventfd2, count, flags);
    eventfd_read(fd: c_int, to: *mut u64) -> c_int = simulated::eventfd_read(fd, to), {
        let read = reading::read(fd, to.cast(), 8);
        if read == 8 { 0 } else { -1 }
    };
    eventfd_write(fd: c_int, by: u64) -> c_int = simulated::eventfd_write(fd, by), {
        let written = writing::write(fd, ptr::from_ref(&by).cast(), 8);
        if written == 8 { 0 } else { -1 }
    };
    getpeername(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int =
        simulated::getpeername(fd, to, len), system!(libc::SYS_getpeername, fd, to, len);
    getsockname(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int =
        simulated::getsockname(fd, to, len), system!(libc::SYS_getsockname, fd, to, len);
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int =
        simulated::getsockopt(fd, level, name, value, len),
        system!(libc::SYS_getsockopt, fd, level, name, value, len);
    listen(fd: c_int, backlog: c_int) -> c_int =
        simulated::listen(fd, backlog), system!(libc::SYS_listen, fd, backlog);
    read(fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t =
        simulated::read(fd, buf, count), reading::read(fd, buf, count);
    readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t =
        simulated::readv(fd, list, count), reading::readv(fd, list, count);
    recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t =
        simulated::recvfrom(fd, buf, len, flags, ptr::null_mut(), ptr::null_mut()),
        reading::recv(fd, buf, len, flags);
    recvfrom(
        fd: c_int, buf: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t
    ) -> ssize_t =
        simulated::recvfrom(fd, buf, len, flags, from, from_len),
        reading::recvfrom(fd, buf, len, flags, from, from_len);
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t =
        simulated::recvmsg(fd, message, flags), reading::recvmsg(fd, message, flags);
    select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, time: *mut timeval) -> c_int =
        simulated::select(count, [read, write, except], time), selecting::select(count, read, write, except, time);
    pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, time: *const timespec,
        mask: *const sigset_t
    ) -> c_int =
        simulated::pselect(count, [read, write, except], time),
        selecting::pselect(count, read, write, except, time, mask);
    send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t =
        simulated::sendto(fd, buf, len, flags, ptr::null(), 0), writing::send(fd, buf, len, flags);
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t =
        simulated::sendmsg(fd, message, flags), writing::sendmsg(fd, message, flags);
    sendto(
        fd: c_int, buf: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t
    ) -> ssize_t =
        simulated::sendto(fd, buf, len, flags, to, to_len), writing::sendto(fd, buf, len, flags, to, to_len);
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int =
        simulated::setsockopt(fd, level, name, value, len),
        mode::setsockopt(fd, level, name, value, len);
    shutdown(fd: c_int, how: c_int) -> c_int =
        simulated::shutdown(fd, how), system!(libc::SYS_shutdown, fd, how);
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int =
        simulated::socket(domain, kind, protocol), mode::socket(domain, kind, protocol);
    socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int =
        simulated::socketpair(domain, kind, protocol, pair), mode::socketpair(domain, kind, protocol, pair);
    timerfd_create(clock: clockid_t, flags: c_int) -> c_int =
        simulated::timerfd_create(clock, flags), system!(libc::SYS_timerfd_create, clock, flags);
    timerfd_gettime(fd: c_int, to: *mut itimerspec) -> c_int =
        simulated::timerfd_gettime(fd, to), system!(libc::SYS_timerfd_gettime, fd, to);
    timerfd_settime(fd: c_int, flags: c_int, new: *const itimerspec, old: *mut itimerspec) -> c_int =
        simulated::timerfd_settime(fd, flags, new, old),
        system!(libc::SYS_timerfd_settime, fd, flags, new, old);
    write(fd: c_int, buf: *const c_void, count: size_t) -> ssize_t =
        simulated::write(fd, buf, count), writing::write(fd, buf, count);
    writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t =
        simulated::writev(fd, list, count), writing::writev(fd, list, count);
}

/// The bytes of the kernel's masks of signals.
const MASK_BYTES: usize = 8;

/// # Safety
/// As libc's `epoll_wait`.
unsafe fn wait_simulated(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    milliseconds: c_int,
) -> Option<isize> {
    let time = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    // SAFETY: the caller's arguments.
    unsafe { simulated::epoll_wait(epoll, events, most, time) }
}

fn refuse_mask(epoll: c_int) -> Option<isize> {
    simulated::refuse(&[epoll], "epoll_pwait with a mask of signals", libc::EINVAL)
}

fn limit(time: &timespec) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

// Sleeps that a cancellation ends. A thread that sleeps on and on is then left behind.
forms! {
    clock_nanosleep(
        clock: clockid_t, flags: c_int, time: *const timespec, left: *mut timespec
    ) -> c_int = sleeps(), sleeping::clock_nanosleep(clock, flags, time, left);
    nanosleep(time: *const timespec, left: *mut timespec) -> c_int =
        sleeps(), sleeping::nanosleep(time, left);
    sleep(seconds: c_uint) -> c_uint = sleeps(), sleeping::sleep(seconds);
    thrd_sleep(time: *const timespec, left: *mut timespec) -> c_int =
        sleeps(), sleeping::thrd_sleep(time, left);
    usleep(micros: useconds_t) -> c_int = sleeps(), sleeping::usleep(micros);
}

fn sleeps() -> Option<isize> {
    simulated::leave_if_over();
    None
}

// What is not simulated. The first four fall back: their callers then copy by `read` and `write`.
forms! {
    copy_file_range(
        from: c_int, from_at: *mut off64_t, to: c_int, to_at: *mut off64_t, len: size_t, flags: c_uint
    ) -> ssize_t =
        copies(from, to), system!(libc::SYS_copy_file_range, from, from_at, to, to_at, len, flags);
    sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t =
        copies(from, to), system!(libc::SYS_sendfile, to, from, offset, count);
    sendfile64(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t =
        copies(from, to), system!(libc::SYS_sendfile, to, from, offset, count);
    splice(
        from: c_int, from_at: *mut off64_t, to: c_int, to_at: *mut off64_t, len: size_t, flags: c_uint
    ) -> ssize_t =
        copies(from, to), system!(libc::SYS_splice, from, from_at, to, to_at, len, flags);
    recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, time: *mut timespec) -> c_int =
        simulated::refuse(&[fd], "recvmmsg on a simulated socket", libc::ENOSYS),
        system!(libc::SYS_recvmmsg, fd, messages, count, flags, time);
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int =
        simulated::refuse(&[fd], "sendmmsg on a simulated socket", libc::ENOSYS),
        system!(libc::SYS_sendmmsg, fd, messages, count, flags);
}

fn copies(from: c_int, to: c_int) -> Option<isize> {
    const FALL_BACK: isize = -(libc::EINVAL as isize);
    (simulated::is_simulated(from) || simulated::is_simulated(to)).then_some(FALL_BACK)
}

/// libc's `poll`; see the page of simulations.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int {
    let time = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    // SAFETY: the caller's arguments.
    match unsafe { simulated::poll(fds, count, time) } {
        Some(found) => finish(found) as c_int,
        // SAFETY: the caller's arguments.
        None => unsafe { polling::poll(fds, count, milliseconds) },
    }
}

/// libc's `ppoll`. For simulated sockets its mask has no effect: no signal ends a simulated wait.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { simulated::ppoll(fds, count, time) } {
        Some(found) => finish(found) as c_int,
        // SAFETY: the caller's arguments.
        None => unsafe { polling::ppoll(fds, count, time, mask) },
    }
}

/// libc's `dup2`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    // SAFETY: the caller's descriptors.
    unsafe { duplicate(old, new, || closing::dup2(old, new)) }
}

/// libc's `dup3`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's descriptors.
    unsafe { duplicate(old, new, || closing::dup3(old, new, flags)) }
}

fn duplicate(old: c_int, new: c_int, duplicates: impl FnOnce() -> c_int) -> c_int {
    if old == new {
        return duplicates();
    }
    if let Some(refused) = simulated::close(new) {
        return finish(refused) as c_int;
    }
    let done = duplicates();
    if done >= 0 {
        simulated::has_duplicated(old, new);
    }
    done
}

/// libc's `fcntl`. It takes a variable number of arguments. With the conventions of both processors the third
/// is where that of a function of three arguments is.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    match simulated::fcntl(fd, command, argument) {
        Some(result) => finish(result) as c_int,
        // SAFETY: the caller's arguments.
        None => unsafe { mode::fcntl(fd, command, argument) },
    }
}

/// libc's `fcntl64`, which is its `fcntl` where files may be large.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { fcntl(fd, command, argument) }
}

/// libc's `ioctl`, with its third argument as in `fcntl`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { simulated::ioctl(fd, request, argument) } {
        Some(result) => finish(result) as c_int,
        // SAFETY: the caller's arguments.
        None => unsafe { mode::ioctl(fd, request, argument) },
    }
}

/// libc's `getaddrinfo`. In a simulation the names are those of the nodes.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    found: *mut *mut addrinfo,
) -> c_int {
    // SAFETY: the caller's name, which ends with a zero byte.
    let address = if node.is_null() { None } else { simulated::resolve(unsafe { CStr::from_ptr(node) }) };
    let node = match &address {
        None => node,
        Some(Ok(address)) => address.as_ptr(),
        Some(Err(number)) => return *number,
    };
    // SAFETY: the caller's arguments. libc makes the list from the address as text.
    unsafe { names::getaddrinfo(node, service, hints, found) }
}

static GETHOSTBYNAME: Real = Real::new(c"gethostbyname");

/// libc's `gethostbyname`, which is not simulated: it returns a static place.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn gethostbyname(name: *const c_char) -> *mut c_void {
    type GetHostByName = unsafe extern "C" fn(*const c_char) -> *mut c_void;
    if simulated::refuse_look_up("gethostbyname") {
        return ptr::null_mut();
    }
    // SAFETY: libc's function has this type; the argument is the caller's.
    unsafe { mem::transmute::<*mut c_void, GetHostByName>(GETHOSTBYNAME.get())(name) }
}

// What C calls in the place of some functions, with the size of the caller's buffer. A call that exceeds it
// ends the process, in the function that parks.
forms! {
    __poll_chk(fds: *mut pollfd, count: nfds_t, milliseconds: c_int, size: size_t) -> c_int = {
        let time = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        let fits = count as usize <= size / size_of::<pollfd>();
        if fits { simulated::poll(fds, count, time) } else { None }
    }, checked::__poll_chk(fds, count, milliseconds, size);
    __read_chk(fd: c_int, buf: *mut c_void, count: size_t, size: size_t) -> ssize_t =
        if count <= size { simulated::read(fd, buf, count) } else { None },
        checked::__read_chk(fd, buf, count, size);
    __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int) -> ssize_t =
        if len <= size {
            simulated::recvfrom(fd, buf, len, flags, ptr::null_mut(), ptr::null_mut())
        } else {
            None
        },
        checked::__recv_chk(fd, buf, len, size, flags);
    __recvfrom_chk(
        fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int,
        from: *mut sockaddr, from_len: *mut socklen_t
    ) -> ssize_t =
        if len <= size { simulated::recvfrom(fd, buf, len, flags, from, from_len) } else { None },
        checked::__recvfrom_chk(fd, buf, len, size, flags, from, from_len);
}
