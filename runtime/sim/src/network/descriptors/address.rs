//! Addresses as C has them.

#![allow(unsafe_code)]

use std::ffi::{OsStr, c_int};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr as UnixAddr;
use std::ptr;

use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use super::super::addr::Addr;

/// The size of an address of version 6 without its last field, as the system takes it.
const LEAST_V6: usize = 24;

/// Where the name of a Unix socket begins, and how long it may be.
const OF_FAMILY: usize = size_of::<libc::sa_family_t>();
const PATH: usize = size_of::<libc::sockaddr_un>() - OF_FAMILY;

/// Returns the family of an address; `AF_UNSPEC` of none.
///
/// # Safety
/// `address` is null, or leads to `len` bytes.
pub(super) unsafe fn family(address: *const sockaddr, len: socklen_t) -> c_int {
    if address.is_null() || (len as usize) < size_of::<libc::sa_family_t>() {
        return libc::AF_UNSPEC;
    }
    // SAFETY: the caller's address has a family.
    c_int::from(unsafe { (&raw const (*address).sa_family).read_unaligned() })
}

/// Reads an address of the internet.
///
/// # Errors
/// Returns `EINVAL` for what is too short, and `EAFNOSUPPORT` for another family.
///
/// # Safety
/// As for `family`.
pub(super) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr, c_int> {
    if address.is_null() {
        return Err(libc::EFAULT);
    }
    let len = len as usize;
    // SAFETY: the caller's address.
    match unsafe { family(address, len as socklen_t) } {
        libc::AF_INET if len >= size_of::<sockaddr_in>() => {
            // SAFETY: the caller's address is that long.
            let address = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
            Ok(SocketAddr::new(ip.into(), u16::from_be(address.sin_port)))
        }
        libc::AF_INET6 if len >= LEAST_V6 => {
            // SAFETY: zero is a value of each field.
            let mut whole: sockaddr_in6 = unsafe { std::mem::zeroed() };
            let bytes = len.min(size_of::<sockaddr_in6>());
            // SAFETY: both are that long.
            unsafe { ptr::copy_nonoverlapping(address.cast::<u8>(), (&raw mut whole).cast(), bytes) };
            let ip = Ipv6Addr::from(whole.sin6_addr.s6_addr);
            let port = u16::from_be(whole.sin6_port);
            Ok(SocketAddrV6::new(ip, port, whole.sin6_flowinfo, whole.sin6_scope_id).into())
        }
        libc::AF_INET | libc::AF_INET6 => Err(libc::EINVAL),
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// Reads an address of a Unix socket: a path, an abstract name, or none.
///
/// # Errors
/// Returns `EINVAL` for what is of another family or too long.
///
/// # Safety
/// As for `family`.
pub(super) unsafe fn read_unix(address: *const sockaddr, len: socklen_t) -> Result<UnixAddr, c_int> {
    if address.is_null() {
        return Err(libc::EFAULT);
    }
    let bytes = (len as usize).wrapping_sub(OF_FAMILY);
    // SAFETY: the caller's address.
    if unsafe { family(address, len) } != libc::AF_UNIX || bytes > PATH {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's address is that long.
    let name = unsafe { std::slice::from_raw_parts(address.cast::<u8>().add(OF_FAMILY), bytes) };
    let made = match name.split_first() {
        Some((0, name)) => UnixAddr::from_abstract_name(name),
        // The path ends with a zero, or with the address.
        _ => UnixAddr::from_pathname(OsStr::from_bytes(
            name.split(|&byte| byte == 0).next().unwrap_or_default(),
        )),
    };
    made.map_err(|_| libc::EINVAL)
}

/// Writes an address of a socket of `family` to the caller, as far as there is room. An address of version 4
/// is written as one of version 6 to a caller with such a socket. Does nothing without a place.
///
/// # Safety
/// `to` is null, or leads to as many bytes as `len` says, which is then not null.
pub(super) unsafe fn write(address: &Addr, family: c_int, to: *mut sockaddr, len: *mut socklen_t) {
    match address {
        Addr::Ip(address) => {
            let ip = match address.ip() {
                IpAddr::V4(ip) if family == libc::AF_INET6 => IpAddr::V6(ip.to_ipv6_mapped()),
                ip => ip,
            };
            // SAFETY: the caller's place.
            unsafe { write_ip(ip, *address, to, len) };
        }
        // SAFETY: the caller's place.
        Addr::Unix(address) => unsafe { copy_bytes(&bytes_of(address), to, len) },
    }
}

/// # Safety
/// As for `write`.
unsafe fn write_ip(ip: IpAddr, address: SocketAddr, to: *mut sockaddr, len: *mut socklen_t) {
    let port = address.port().to_be();
    match ip {
        IpAddr::V4(ip) => {
            let sin_addr = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
            let sin_family = libc::AF_INET as libc::sa_family_t;
            let whole = sockaddr_in { sin_family, sin_port: port, sin_addr, sin_zero: [0; 8] };
            // SAFETY: the caller's place.
            unsafe { copy(&whole, to, len) };
        }
        IpAddr::V6(ip) => {
            let scope = if let SocketAddr::V6(address) = address { address.scope_id() } else { 0 };
            let whole = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: port,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
                sin6_scope_id: scope,
            };
            // SAFETY: the caller's place.
            unsafe { copy(&whole, to, len) };
        }
    }
}

/// Returns an address of a Unix socket as C has it: a path ends with a zero, and an abstract name begins with
/// one.
fn bytes_of(address: &UnixAddr) -> Vec<u8> {
    let mut bytes = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes().to_vec();
    if let Some(path) = address.as_pathname() {
        bytes.extend(path.as_os_str().as_bytes());
        bytes.push(0);
    } else if let Some(name) = address.as_abstract_name() {
        bytes.push(0);
        bytes.extend(name);
    }
    bytes
}

/// Copies an address, as far as there is room, and says how long it is.
///
/// # Safety
/// As for `write`. `T` is an address, without bytes between its fields.
unsafe fn copy<T>(address: &T, to: *mut sockaddr, len: *mut socklen_t) {
    // SAFETY: the address has these bytes; the caller's place.
    unsafe { copy_bytes(std::slice::from_raw_parts(ptr::from_ref(address).cast(), size_of::<T>()), to, len) };
}

/// # Safety
/// As for `write`.
unsafe fn copy_bytes(address: &[u8], to: *mut sockaddr, len: *mut socklen_t) {
    if to.is_null() || len.is_null() {
        return;
    }
    // SAFETY: the caller's place has `len` bytes.
    unsafe {
        let room = (len.read() as usize).min(address.len());
        ptr::copy_nonoverlapping(address.as_ptr(), to.cast::<u8>(), room);
        len.write(address.len() as socklen_t);
    }
}
