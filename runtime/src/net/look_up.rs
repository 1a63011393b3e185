//! Looking up names with the system's resolver, which blocks its OS thread until it has an answer.

use std::io;
use std::net::SocketAddr;
use std::vec;

use super::addrs::{Addrs, ToSocketAddrs, resolve, resolve_async};
use super::source;
use crate::aside::aside;
use crate::bounded::{bounded, bounded_async};

/// The name of the green thread of a look-up.
const LOOK_UP: &str = "look-up";

/// Resolves a name, or any other [`ToSocketAddrs`], and returns its addresses. The name is tokio's.
///
/// The system's resolver blocks an OS thread until it has an answer, so a look-up runs in
/// [`blocking`](crate::blocking), on a green thread of its own. At most
/// [`Builder::blocking_threads`](crate::Builder::blocking_threads) run at once. An address, also as text,
/// needs no look-up. Each function of this module that takes `ToSocketAddrs` resolves in this way.
///
/// # Errors
///
/// Returns an error if the name cannot be resolved, or is not a name. A name without addresses gives an empty
/// iterator.
///
/// # Cancellation
///
/// A cancelled green thread that has to wait unwinds from here. The resolver goes on in the background until
/// it has an answer, and keeps an OS thread until then. The end of the runtime waits for it.
///
/// ```
/// let addrs: Vec<_> = runtime::net::lookup_host("localhost:80")?.collect();
/// assert!(addrs.iter().all(|addr| addr.ip().is_loopback() && addr.port() == 80));
/// # std::io::Result::Ok(())
/// ```
pub fn lookup_host(host: impl ToSocketAddrs) -> io::Result<vec::IntoIter<SocketAddr>> {
    Ok(listed(resolve(host)?))
}

/// Resolves as [`lookup_host`] does, in a future.
///
/// Dropping the future leaves the resolver to the background, as a cancellation of [`lookup_host`] does.
///
/// # Errors
///
/// Returns the errors of [`lookup_host`].
///
/// ```
/// let addrs = runtime::block_on(async { runtime::net::lookup_host_async("localhost:80").await })?;
/// assert!(addrs.into_iter().all(|addr| addr.port() == 80));
/// # std::io::Result::Ok(())
/// ```
pub async fn lookup_host_async(host: impl ToSocketAddrs) -> io::Result<vec::IntoIter<SocketAddr>> {
    // An address needs no wait.
    sched::budget::consume().await;
    Ok(listed(resolve_async(host).await?))
}

fn listed(addrs: Addrs) -> vec::IntoIter<SocketAddr> {
    match addrs {
        Addrs::Several(addrs) => addrs,
        Addrs::One(addr) => addr.collect::<Vec<_>>().into_iter(),
    }
}

/// A name to look up. It is owned, because the look-up may outlive the call.
#[derive(Debug)]
pub enum Name {
    /// A host and a port, with a colon in between.
    Text(Box<str>),
    HostAndPort(Box<str>, u16),
}

impl Name {
    /// Asks the simulation around the caller, if there is one.
    fn in_simulation(&self) -> Option<io::Result<vec::IntoIter<SocketAddr>>> {
        match self {
            Name::Text(text) => {
                let (host, port) = text.rsplit_once(':')?;
                source::look_up(host, port.parse().ok()?)
            }
            Name::HostAndPort(host, port) => source::look_up(host, *port),
        }
    }

    /// Asks the system's resolver.
    fn addrs(&self) -> io::Result<vec::IntoIter<SocketAddr>> {
        match self {
            Name::Text(text) => std::net::ToSocketAddrs::to_socket_addrs(&**text),
            Name::HostAndPort(host, port) => std::net::ToSocketAddrs::to_socket_addrs(&(&**host, *port)),
        }
    }
}

/// Returns the addresses of `name`. Parks until the resolver has an answer.
pub(super) fn look_up(name: Name) -> io::Result<vec::IntoIter<SocketAddr>> {
    if let Some(found) = name.in_simulation() {
        return found;
    }
    aside(LOOK_UP, move || bounded(|| name.addrs()))?
}

/// Returns the addresses of `name`, as [`look_up`] does, in a future.
pub(super) async fn look_up_async(name: Name) -> io::Result<vec::IntoIter<SocketAddr>> {
    if let Some(found) = name.in_simulation() {
        return found;
    }
    bounded_async(LOOK_UP, move || name.addrs()).await
}
