//! Addresses as C has them.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr;

use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use super::super::addr::Addr;

/// The size of an address of version 6 without its last field, as the system takes it.
const LEAST_V6: usize = 24;

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
        // Sockets of a pair, which have no names.
        Addr::Unix(_) => {
            let family = libc::AF_UNIX as libc::sa_family_t;
            // SAFETY: the caller's place.
            unsafe { copy(&family, to, len) };
        }
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

/// Copies an address, as far as there is room, and says how long it is.
///
/// # Safety
/// As for `write`. `T` is an address, without bytes between its fields.
unsafe fn copy<T>(address: &T, to: *mut sockaddr, len: *mut socklen_t) {
    if to.is_null() || len.is_null() {
        return;
    }
    // SAFETY: the caller's place has `len` bytes.
    unsafe {
        let room = (len.read() as usize).min(size_of::<T>());
        ptr::copy_nonoverlapping(ptr::from_ref(address).cast::<u8>(), to.cast::<u8>(), room);
        len.write(size_of::<T>() as socklen_t);
    }
}
