//! Resolving names and addresses without holding up a P.

use std::any::type_name;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::{option, vec};

/// Resolves a name, or anything else that `std`'s [`ToSocketAddrs`] resolves, and returns its addresses.
///
/// A look-up blocks its OS thread until the system's resolver answers. Other green threads run meanwhile, as in
/// [`blocking`](crate::blocking). Each function of this module that takes `ToSocketAddrs` resolves in this way.
///
/// # Errors
///
/// Returns an error if the name cannot be resolved, or is not a name. A name without addresses gives an empty
/// iterator.
///
/// # Cancellation
///
/// A cancellation does not end this call. It ends the next call that parks.
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
    // A value that is an address needs no look-up, and this type is its iterator. Handing off the P would cost more
    // than it gains, once for each datagram. (If the type names did not tell, the P would be offered for nothing.)
    if type_name::<A::Iter>() == type_name::<option::IntoIter<SocketAddr>>() {
        return addr.to_socket_addrs();
    }
    crate::blocking(|| addr.to_socket_addrs())
}

/// Tries one address after the other as std does. Returns the first success or the last error.
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

/// Returns the first address, for calls that take one only.
pub(crate) fn first_address(addr: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    resolve(addr)?.next().ok_or_else(no_address)
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the name resolved to no address: give at least one")
}
