//! Names and addresses: resolved without holding up a P.

use std::any::type_name;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::{option, vec};

/// Resolves a name, or anything else that gives addresses, as `std`'s [`ToSocketAddrs`] does, and lets others have the P
/// meanwhile: looking a name up blocks its OS thread until the system's resolver answers.
///
/// Everything in this module that takes `ToSocketAddrs` resolves so.
///
/// # Errors
///
/// The name cannot be resolved, or it is none. One that gives no address is not an error.
///
/// # Cancellation
///
/// It is no parking call: a green thread that is cancelled meanwhile unwinds from its next one.
///
/// ```
/// let addrs: Vec<_> = runtime::net::lookup_host("localhost:80")?.collect();
/// assert!(addrs.iter().all(|addr| addr.ip().is_loopback() && addr.port() == 80));
/// # std::io::Result::Ok(())
/// ```
pub fn lookup_host(host: impl ToSocketAddrs) -> io::Result<vec::IntoIter<SocketAddr>> {
    Ok(resolve(host)?.collect::<Vec<_>>().into_iter())
}

fn resolve<A: ToSocketAddrs>(addr: A) -> io::Result<A::Iter> {
    // The iterator of what is one address by itself, and looks nothing up: it is not worth lending the P for, once a
    // datagram. (If the names did not tell, the P would be lent for nothing.)
    if type_name::<A::Iter>() == type_name::<option::IntoIter<SocketAddr>>() {
        return addr.to_socket_addrs();
    }
    crate::blocking(|| addr.to_socket_addrs())
}

/// Tries one address after the other as std does.
pub(crate) fn each_address<T>(
    addr: impl ToSocketAddrs,
    mut f: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for addr in resolve(addr)? {
        match f(addr) {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(no_address))
}

/// The first address, for what takes one only.
pub(crate) fn first_address(addr: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    resolve(addr)?.next().ok_or_else(no_address)
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the name resolved to no address: give at least one")
}
