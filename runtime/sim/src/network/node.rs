//! The nodes of a simulated network: their names, addresses and ports.

use crate::errors::error;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The address of the main node, and the first of those that are given out.
const FIRST_IP: u32 = u32::from_be_bytes([192, 168, 0, 1]);

/// The first port that is given out, as the standard has it.
const FIRST_PORT: u16 = 49_152;

/// All nodes. The number of a node is its place.
#[derive(Debug)]
pub(crate) struct Nodes {
    all: Vec<Node>,
    by_name: BTreeMap<String, u32>,
    by_ip: BTreeMap<IpAddr, u32>,
    /// How many addresses were given out.
    given: u32,
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    ip: IpAddr,
    pub(crate) up: bool,
    next_port: u16,
    /// The sockets that have a port of their own, by protocol, port and address.
    bound: BTreeMap<(Protocol, u16, IpAddr), u64>,
}

/// What has ports of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

/// Where packets for an address go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The address of the sender.
    pub(super) source: IpAddr,
    pub(super) target: IpAddr,
    /// The node at the address; `None` if there is none.
    pub(super) node: Option<u32>,
}

impl Nodes {
    pub(super) fn new() -> Self {
        let mut nodes = Nodes { all: Vec::new(), by_name: BTreeMap::new(), by_ip: BTreeMap::new(), given: 0 };
        // The node of the main function, with number 0.
        nodes.add("main").expect("the name is the first");
        nodes
    }

    /// Adds a node. A name that is an address is the node's address.
    ///
    /// # Errors
    /// Returns a text if the name or the address is taken or cannot be that of a node.
    pub(crate) fn add(&mut self, name: &str) -> Result<u32, String> {
        if name.contains('\0') {
            return Err(format!("a node cannot have the name {name:?}: it contains a zero byte"));
        }
        let ip = name.parse().unwrap_or_else(|_| self.free_ip());
        if self.by_name.contains_key(name) || self.by_ip.contains_key(&ip) {
            return Err(format!("there is a node `{name}` in this simulation already"));
        }
        if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() {
            return Err(format!("a node cannot have the address {ip}"));
        }
        let id = self.all.len() as u32;
        self.by_name.insert(name.to_string(), id);
        self.by_ip.insert(ip, id);
        self.all.push(Node {
            name: name.to_string(),
            ip,
            up: true,
            next_port: FIRST_PORT,
            bound: BTreeMap::new(),
        });
        Ok(id)
    }

    fn free_ip(&mut self) -> IpAddr {
        loop {
            let ip = IpAddr::from(Ipv4Addr::from_bits(FIRST_IP + self.given));
            self.given += 1;
            if !self.by_ip.contains_key(&ip) {
                return ip;
            }
        }
    }

    /// Returns how many nodes there are.
    pub(crate) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    pub(crate) fn get(&self, node: u32) -> &Node {
        &self.all[node as usize]
    }

    pub(crate) fn get_mut(&mut self, node: u32) -> &mut Node {
        &mut self.all[node as usize]
    }

    /// Returns the node with this name or address.
    pub(crate) fn named(&self, name: &str) -> Option<u32> {
        let by_ip = || self.by_ip.get(&name.parse().ok()?);
        self.by_name.get(name).or_else(by_ip).copied()
    }

    /// Returns the addresses of a name.
    pub(super) fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if host == "localhost" {
            return Ok(vec![IpAddr::from(Ipv4Addr::LOCALHOST)]);
        }
        match self.by_name.get(host) {
            Some(&node) => Ok(vec![self.get(node).ip]),
            None => {
                let text = format!("no node of the simulation has the name `{host}`");
                Err(io::Error::new(io::ErrorKind::NotFound, text))
            }
        }
    }

    /// Returns how packets of `node` reach `target`.
    pub(super) fn route(&self, node: u32, target: IpAddr) -> io::Result<Route> {
        let own = self.get(node).ip;
        let target = match target.to_canonical() {
            // As Linux does.
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        if target.is_loopback() {
            return Ok(Route { source: target, target, node: Some(node) });
        }
        if target.is_ipv4() != own.is_ipv4() {
            return Err(error(libc::EADDRNOTAVAIL));
        }
        Ok(Route { source: own, target, node: self.by_ip.get(&target).copied() })
    }

    /// Returns the socket of `node` to which packets for `addr` go.
    pub(super) fn bound(&self, node: u32, protocol: Protocol, addr: SocketAddr) -> Option<u64> {
        let bound = &self.get(node).bound;
        let find = |ip| bound.get(&(protocol, addr.port(), ip)).copied();
        find(addr.ip())
            .or_else(|| if addr.is_ipv4() { find(IpAddr::from(Ipv4Addr::UNSPECIFIED)) } else { None })
            .or_else(|| find(IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED)))
    }

    /// Closes all ports of a node.
    pub(super) fn close_all(&mut self, node: u32) {
        self.get_mut(node).bound.clear();
    }
}

impl Node {
    pub(crate) fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Returns an error if the node is down.
    pub(super) fn check_up(&self) -> io::Result<()> {
        if self.up { Ok(()) } else { Err(error(libc::ENETDOWN)) }
    }

    /// Returns an unused port.
    pub(super) fn free_port(&mut self, protocol: Protocol) -> io::Result<u16> {
        for _ in FIRST_PORT..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
            if !self.bound.keys().any(|&(other, taken, _)| other == protocol && taken == port) {
                return Ok(port);
            }
        }
        Err(error(libc::EADDRINUSE))
    }

    /// Reserves `addr` for `socket`. Port 0 stands for any. Returns the address that was reserved.
    pub(super) fn bind(
        &mut self,
        protocol: Protocol,
        addr: SocketAddr,
        socket: u64,
    ) -> io::Result<SocketAddr> {
        self.check_up()?;
        let ip = addr.ip();
        if !(ip.is_unspecified() || ip.is_loopback() || ip == self.ip) {
            return Err(error(libc::EADDRNOTAVAIL));
        }
        let port = if addr.port() == 0 { self.free_port(protocol)? } else { addr.port() };
        let clashes = |&(other, taken, at): &(Protocol, u16, IpAddr)| {
            other == protocol && taken == port && (at == ip || at.is_unspecified() || ip.is_unspecified())
        };
        if self.bound.keys().any(clashes) {
            return Err(error(libc::EADDRINUSE));
        }
        self.bound.insert((protocol, port, ip), socket);
        Ok(SocketAddr::new(ip, port))
    }

    pub(super) fn release(&mut self, protocol: Protocol, addr: SocketAddr) {
        self.bound.remove(&(protocol, addr.port(), addr.ip()));
    }
}
