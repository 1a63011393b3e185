//! The settings of sockets: `setsockopt` and `getsockopt`, `fcntl` and `ioctl`. An option that would change
//! what a program sees and is not simulated fails the run.

use std::ffi::{c_int, c_ulong, c_void};
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libc::{linger, socklen_t, timeval};
use netpoll::Direction;

use super::super::Kind as Socket;
use super::description::{Description, Done, Kind, What};
use super::number::{duplicate, on, on_any};
use super::open::{Open, escape};

/// Options without an effect, and their values before they are set.
const KEPT: &[(c_int, c_int, c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, 0),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 0),
    (libc::SOL_SOCKET, libc::SO_BROADCAST, 0),
    (libc::SOL_SOCKET, libc::SO_RCVBUF, 131_072),
    (libc::SOL_SOCKET, libc::SO_SNDBUF, 131_072),
    (libc::SOL_SOCKET, libc::SO_PRIORITY, 0),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, 0),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1),
    (libc::IPPROTO_TCP, libc::TCP_CORK, 0),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 7200),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 75),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 9),
    (libc::IPPROTO_IP, libc::IP_TTL, 64),
    (libc::IPPROTO_IP, libc::IP_TOS, 0),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, 1),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 64),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, 1),
];

/// What `SO_LINGER` of a new socket is, as one of the kept options: off.
const NO_LINGER: c_int = -1;

const LINGER: (c_int, c_int) = (libc::SOL_SOCKET, libc::SO_LINGER);

fn set_option(socket: &Description, level: c_int, name: c_int, value: Value<'_>) -> Done {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => set_limit(socket, Direction::Read, value.read()?),
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => set_limit(socket, Direction::Write, value.read()?),
        LINGER => {
            let linger { l_onoff, l_linger } = value.read()?;
            socket.options.lock().insert(LINGER, if l_onoff == 0 { NO_LINGER } else { l_linger.max(0) });
            socket.open().map_or(Ok(0), |open| set_linger(socket, &open).map(|()| 0))
        }
        _ if KEPT.iter().any(|kept| (kept.0, kept.1) == (level, name)) => {
            socket.options.lock().insert((level, name), value.read()?);
            Ok(0)
        }
        _ => Err(escape(&format!("the option {name} of level {level} of a socket"), libc::ENOPROTOOPT)),
    }
}

fn option(socket: &Description, level: c_int, name: c_int) -> Done<Answer> {
    let number = |value: c_int| Ok(Answer::Number(value));
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            socket.open().map_or(Ok(0), |open| open.take_error()).and_then(number)
        }
        (libc::SOL_SOCKET, libc::SO_TYPE) => number(match socket.kind {
            Kind::Stream => libc::SOCK_STREAM,
            Kind::Datagrams | Kind::UnixDatagrams => libc::SOCK_DGRAM,
        }),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => number(socket.family),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => number(match (socket.family, socket.kind) {
            (libc::AF_UNIX, _) | (_, Kind::UnixDatagrams) => 0,
            (_, Kind::Stream) => libc::IPPROTO_TCP,
            (_, Kind::Datagrams) => libc::IPPROTO_UDP,
        }),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
            let listens = |open: &Open| {
                open.with_kind(|kind| Ok(matches!(kind, Socket::Listener(found) if found.room > 0)))
            };
            socket.open().map_or(Ok(false), |open| listens(&open)).map(c_int::from).and_then(number)
        }
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => Ok(Answer::Time(limit_as_time(socket, Direction::Read))),
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => Ok(Answer::Time(limit_as_time(socket, Direction::Write))),
        LINGER => Ok(Answer::Linger(match kept(socket, LINGER).unwrap_or(NO_LINGER) {
            NO_LINGER => linger { l_onoff: 0, l_linger: 0 },
            l_linger => linger { l_onoff: 1, l_linger },
        })),
        _ => match KEPT.iter().find(|kept| (kept.0, kept.1) == (level, name)) {
            Some(&(.., usual)) => number(kept(socket, (level, name)).unwrap_or(usual)),
            None => {
                let what = format!("the option {name} of level {level} of a socket");
                Err(escape(&what, libc::ENOPROTOOPT))
            }
        },
    }
}

fn kept(socket: &Description, option: (c_int, c_int)) -> Option<c_int> {
    socket.options.lock().get(&option).copied()
}

/// Sets in the network how a stream is closed: `SO_LINGER` is the one option with an effect there.
pub(super) fn set_linger(socket: &Description, open: &Open) -> Done<()> {
    let Some(seconds) = kept(socket, LINGER) else { return Ok(()) };
    let linger = u64::try_from(seconds).ok().map(Duration::from_secs);
    open.with_kind(|kind| {
        if let Socket::Stream(stream) = kind {
            stream.options.linger = linger;
        }
        Ok(())
    })
}

fn set_limit(socket: &Description, direction: Direction, time: timeval) -> Done {
    if !(0..1_000_000).contains(&time.tv_usec) {
        return Err(libc::EDOM);
    }
    let micros = match u64::try_from(time.tv_sec) {
        Ok(seconds) => seconds.saturating_mul(1_000_000).saturating_add(time.tv_usec as u64),
        // As in Linux: such a call does not wait. A microsecond is as near as a limit comes.
        Err(_) => 1,
    };
    socket.limit_of(direction).store(micros, Ordering::Relaxed);
    Ok(0)
}

fn limit_as_time(socket: &Description, direction: Direction) -> timeval {
    let micros = socket.limit_of(direction).load(Ordering::Relaxed);
    timeval { tv_sec: (micros / 1_000_000) as _, tv_usec: (micros % 1_000_000) as _ }
}

/// The value of an option, as the caller gives it.
struct Value<'a>(&'a [u8]);

impl Value<'_> {
    /// Returns the value, which consists of integers.
    ///
    /// # Errors
    /// Returns `EINVAL` if the caller gives less.
    fn read<T: Copy>(&self) -> Done<T> {
        if self.0.len() < size_of::<T>() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the bytes are there, and are values of the integers of which `T` consists: `c_int`,
        // `linger` or `timeval`.
        Ok(unsafe { self.0.as_ptr().cast::<T>().read_unaligned() })
    }
}

/// The value of an option, as the caller gets it.
enum Answer {
    Number(c_int),
    Time(timeval),
    Linger(linger),
}

/// `setsockopt`.
///
/// # Safety
/// As libc's.
pub unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Option<isize> {
    on(fd, |socket| {
        if value.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the caller's value.
        let value = Value(unsafe { std::slice::from_raw_parts(value.cast(), len as usize) });
        set_option(socket, level, name, value)
    })
}

/// `getsockopt`.
///
/// # Safety
/// As libc's.
pub unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Option<isize> {
    on(fd, |socket| {
        if value.is_null() || len.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the caller's place.
        unsafe {
            match option(socket, level, name)? {
                Answer::Number(number) => copy(&number, value, len),
                Answer::Time(time) => copy(&time, value, len),
                Answer::Linger(linger) => copy(&linger, value, len),
            }
        }
        Ok(0)
    })
}

/// Copies a value, as far as there is room, and says how long it is.
///
/// # Safety
/// `to` is a place for `len` bytes.
unsafe fn copy<T>(value: &T, to: *mut c_void, len: *mut socklen_t) {
    // SAFETY: the caller's place.
    unsafe {
        let n = (len.read() as usize).min(size_of::<T>());
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), to.cast(), n);
        len.write(n as socklen_t);
    }
}

/// `fcntl`. The flags of the descriptor itself (`F_GETFD`, `F_SETFD`) are the system's.
#[must_use]
pub fn fcntl(fd: c_int, command: c_int, argument: usize) -> Option<isize> {
    if command == libc::F_GETFD || command == libc::F_SETFD {
        return None;
    }
    on_any(fd, |socket| match command {
        libc::F_GETFL => {
            let mode = if socket.is_nonblocking() { libc::O_NONBLOCK } else { 0 };
            Ok((libc::O_RDWR | mode) as isize)
        }
        libc::F_SETFL => {
            socket.set_nonblocking(argument as c_int & libc::O_NONBLOCK != 0);
            Ok(0)
        }
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            let first = c_int::try_from(argument).map_err(|_| libc::EINVAL)?;
            duplicate(socket, first, command == libc::F_DUPFD_CLOEXEC)
        }
        _ => Err(escape(&format!("the command {command} of fcntl on a socket"), libc::EINVAL)),
    })
}

/// `ioctl`. Whether the descriptor is closed on `exec` is the system's.
///
/// # Safety
/// As libc's.
pub unsafe fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> Option<isize> {
    if request == libc::FIOCLEX as c_ulong || request == libc::FIONCLEX as c_ulong {
        return None;
    }
    on_any(fd, |socket| {
        if request == libc::FIONBIO as c_ulong {
            // SAFETY: the caller's number.
            socket.set_nonblocking(unsafe { argument.read() } != 0);
            return Ok(0);
        }
        if request == libc::FIONREAD as c_ulong
            && matches!(socket.what, What::Socket)
            && socket.kind == Kind::Stream
        {
            let found =
                socket.open_or(libc::ENOTCONN)?.with(|state, id| Ok(state.stream(id)?.available()))?;
            // SAFETY: the caller's place.
            unsafe { argument.write(c_int::try_from(found).unwrap_or(c_int::MAX)) };
            return Ok(0);
        }
        Err(escape(&format!("the request {request:#x} of ioctl on a socket"), libc::ENOTTY))
    })
}
