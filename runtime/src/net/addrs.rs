//! `ToSocketAddrs`: what can be given as an address, and trying one address after the other.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::{option, vec};

use super::look_up::{Name, look_up, look_up_async};

/// A value that names one or more addresses: an address, a host name with a port, or a slice of addresses.
///
/// It is implemented for the types of std for which [`std::net::ToSocketAddrs`] is, and cannot be implemented
/// elsewhere. A type of your own can give a slice of addresses. The argument is not std's trait, because a
/// name is copied for the green thread that looks it up: see [`lookup_host`](super::lookup_host).
///
/// ```
/// use runtime::net::{ToSocketAddrs, lookup_host};
/// use std::net::{IpAddr, Ipv4Addr, SocketAddr};
///
/// fn first(host: impl ToSocketAddrs) -> SocketAddr {
///     lookup_host(host).unwrap().next().unwrap()
/// }
/// let addr = SocketAddr::from(([127, 0, 0, 1], 80));
/// assert_eq!(first(addr), addr);
/// assert_eq!(first((IpAddr::V4(Ipv4Addr::LOCALHOST), 80)), addr);
/// assert_eq!(first("127.0.0.1:80"), addr);
/// assert_eq!(first(String::from("127.0.0.1:80")), addr);
/// assert_eq!(first(("127.0.0.1", 80)), addr);
/// assert_eq!(first(&[addr][..]), addr);
/// ```
pub trait ToSocketAddrs: sealed::Sealed {}

/// The addresses that a value stands for, or the name to look up.
#[derive(Debug)]
pub enum Target {
    One(SocketAddr),
    Several(Vec<SocketAddr>),
    Name(Name),
}

mod sealed {
    pub trait Sealed {
        fn target(&self) -> super::Target;
    }
}

/// Implements the trait for a type: `$target` makes the target of the value `$value`.
macro_rules! to_socket_addrs {
    ($($type:ty: |$value:ident| $target:expr;)*) => { $(
        impl sealed::Sealed for $type {
            fn target(&self) -> Target {
                let $value = self;
                $target
            }
        }

        impl ToSocketAddrs for $type {}
    )* };
}

to_socket_addrs! {
    SocketAddr: |addr| Target::One(*addr);
    SocketAddrV4: |addr| Target::One(SocketAddr::V4(*addr));
    SocketAddrV6: |addr| Target::One(SocketAddr::V6(*addr));
    (IpAddr, u16): |addr| Target::One(SocketAddr::from(*addr));
    (Ipv4Addr, u16): |addr| Target::One(SocketAddr::from(*addr));
    (Ipv6Addr, u16): |addr| Target::One(SocketAddr::from(*addr));
    (&str, u16): |addr| host_and_port(addr.0, addr.1);
    (String, u16): |addr| host_and_port(&addr.0, addr.1);
    str: |text| text.parse().map_or_else(|_| Target::Name(Name::Text(text.into())), Target::One);
    String: |text| text.as_str().target();
    &[SocketAddr]: |addrs| Target::Several(addrs.to_vec());
}

impl<T: ToSocketAddrs + ?Sized> sealed::Sealed for &T {
    fn target(&self) -> Target {
        (**self).target()
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {}

fn host_and_port(host: &str, port: u16) -> Target {
    match host.parse::<IpAddr>() {
        Ok(ip) => Target::One(SocketAddr::new(ip, port)),
        Err(_) => Target::Name(Name::HostAndPort(host.into(), port)),
    }
}

/// The addresses of a value. A single address takes no memory.
#[derive(Debug)]
pub(crate) enum Addrs {
    One(option::IntoIter<SocketAddr>),
    Several(vec::IntoIter<SocketAddr>),
}

impl Iterator for Addrs {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        match self {
            Addrs::One(one) => one.next(),
            Addrs::Several(several) => several.next(),
        }
    }
}

/// Returns the addresses of a value. Parks while a name is looked up.
pub(super) fn resolve(addr: impl ToSocketAddrs) -> io::Result<Addrs> {
    known(addr.target()).or_else(|name| look_up(name).map(Addrs::Several))
}

/// Returns the addresses of a value, as [`resolve`] does, in a future.
pub(super) async fn resolve_async(addr: impl ToSocketAddrs) -> io::Result<Addrs> {
    match known(addr.target()) {
        Ok(addrs) => Ok(addrs),
        Err(name) => look_up_async(name).await.map(Addrs::Several),
    }
}

/// Returns the addresses of a target, or the name that has to be looked up.
fn known(target: Target) -> Result<Addrs, Name> {
    match target {
        Target::One(addr) => Ok(Addrs::One(Some(addr).into_iter())),
        Target::Several(addrs) => Ok(Addrs::Several(addrs.into_iter())),
        Target::Name(name) => Err(name),
    }
}

impl Addrs {
    /// Tries one address after the other as std does. Returns the first success or the last error.
    pub(super) fn each<T>(self, mut f: impl FnMut(SocketAddr) -> io::Result<T>) -> io::Result<T> {
        let mut last = None;
        for addr in self {
            match f(addr) {
                Ok(done) => return Ok(done),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(no_address))
    }

    /// Returns the first address, for calls that take one only.
    pub(super) fn first(mut self) -> io::Result<SocketAddr> {
        self.next().ok_or_else(no_address)
    }
}

/// Tries each address of a value: see [`Addrs::each`].
pub(crate) fn each_address<T>(
    addr: impl ToSocketAddrs,
    f: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    resolve(addr)?.each(f)
}

/// Returns the first address of a value.
pub(crate) fn first_address(addr: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    resolve(addr)?.first()
}

pub(super) fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the name resolved to no address: give at least one")
}
