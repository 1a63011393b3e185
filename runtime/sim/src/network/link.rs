//! The links between the nodes of a simulated network: when a packet arrives, and which packets are lost or
//! held.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::super::quality::Quality;
use super::super::random::Random;
use super::super::schedule::Fault;
use super::tcp::Segment;
use super::{At, Event, NetworkState};

/// From one node to another. Each direction is a link of its own.
pub(crate) type Link = (u32, u32);

/// How long a connection lasts while its packets do not arrive. That is about what Linux does.
const PATIENCE_NS: u64 = 924 * 1_000_000_000;

/// How long TCP waits before it sends a lost packet again.
const SENDS_AGAIN_NS: u64 = 200_000_000;

/// All links.
#[derive(Debug)]
pub(crate) struct Links {
    seed: u64,
    all: BTreeMap<Link, Path>,
    last_held: u64,
    usual: Quality,
}

/// One direction between two nodes.
#[derive(Debug, Default)]
struct Path {
    /// How many packets were sent.
    sent: u64,
    state: Works,
    quality: Option<Quality>,
    /// Until when earlier packets take its bandwidth.
    busy_until: u64,
    held: BTreeMap<u64, Held>,
}

/// Whether packets arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Works {
    #[default]
    Yes,
    /// None arrives. What TCP sends again waits.
    Broken,
    /// All wait.
    Held,
}

/// A packet that waits until its link works again.
#[derive(Debug)]
struct Held {
    packet: Packet,
    /// When its sender gives up.
    until: Option<At>,
}

/// What is sent.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) link: Link,
    /// The socket that has sent it, and the one that gets it; 0 if that is not known.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) body: Body,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Tcp(Segment),
    Datagram {
        source: SocketAddr,
        target: SocketAddr,
        bytes: Vec<u8>,
    },
    /// The answer to a datagram for an address that no socket has.
    Unreachable(SocketAddr),
}

impl Body {
    fn is_sent_again(&self) -> bool {
        matches!(self, Body::Tcp(segment) if segment.is_sent_again())
    }

    fn len(&self) -> u64 {
        // Addresses, ports and numbers.
        const HEADER: u64 = 40;
        HEADER
            + match self {
                Body::Tcp(Segment::Data(_, bytes)) | Body::Datagram { bytes, .. } => bytes.len() as u64,
                _ => 0,
            }
    }
}

impl Links {
    pub(super) fn new(seed: u64, usual: Quality) -> Self {
        Links { seed, all: BTreeMap::new(), last_held: 0, usual }
    }

    fn quality(&self, link: Link) -> &Quality {
        self.all.get(&link).and_then(|path| path.quality.as_ref()).unwrap_or(&self.usual)
    }

    /// Returns how long a packet takes that is sent at `now`. Within a node it takes no time.
    fn delay(&mut self, link: Link, now: u64, len: u64) -> u64 {
        if link.0 == link.1 {
            return 0;
        }
        let (least, most, bandwidth) = self.quality(link).times();
        let path = self.all.entry(link).or_default();
        path.sent += 1;
        // The seed depends on the link and the number of the packet only. Changes to other links do not
        // change this latency.
        let seed = self.seed ^ (u64::from(link.0) << 48) ^ (u64::from(link.1) << 32) ^ path.sent;
        let latency = least + Random::new(seed).below((most - least + 1) as usize) as u64;
        let Some(bandwidth) = bandwidth else { return latency };
        let takes = (u128::from(len) * 1_000_000_000 / u128::from(bandwidth)) as u64;
        path.busy_until = path.busy_until.max(now) + takes;
        path.busy_until - now + latency
    }

    fn works(&self, link: Link) -> Works {
        self.all.get(&link).map_or(Works::Yes, |path| path.state)
    }

    /// Drops the held packets that `node` has sent. Returns the events that are then void.
    pub(super) fn forget_held_of(&mut self, node: u32) -> Vec<At> {
        let of_node = self.all.iter_mut().filter(|(link, _)| link.0 == node);
        of_node
            .flat_map(|(_, path)| std::mem::take(&mut path.held))
            .filter_map(|(_, held)| held.until)
            .collect()
    }

    /// Sets the quality of a link.
    pub(crate) fn set_quality(&mut self, link: Link, quality: Quality) {
        self.all.entry(link).or_default().quality = Some(quality);
    }

    /// Ends the faults of all links, but for what they hold.
    fn heal(&mut self) {
        let set = self.all.values_mut().filter_map(|path| path.quality.as_mut());
        for quality in set.chain([&mut self.usual]) {
            quality.probabilities().into_iter().for_each(|chance| *chance = 0.0);
        }
    }
}

impl NetworkState {
    /// Sends a packet, which the link may lose, double or delay.
    pub(super) fn send(&mut self, packet: Packet) {
        let link = packet.link;
        let (len, now) = (packet.body.len(), self.now);
        let mut delay = self.links.delay(link, now, len);
        let chances = self.links.quality(link).chances();
        if link.0 != link.1 && chances.iter().any(|&chance| chance > 0.0) {
            let (fault, number) = self.decisions.decide(Fault::Packet, &chances);
            match (fault, &packet.body) {
                (1, body) if body.is_sent_again() => delay += SENDS_AGAIN_NS,
                (1, _) => return,
                (2, Body::Datagram { .. }) => {
                    let again = self.links.delay(link, now, len);
                    self.at(now + again, Event::Arrives(packet.clone()));
                }
                (3, _) => {
                    let most = self.links.quality(link).times().1.max(1);
                    delay += self.decisions.random(Fault::Packet, number).below(10 * most as usize) as u64;
                }
                _ => {}
            }
        }
        self.at(now + delay, Event::Arrives(packet));
    }

    /// Lets a packet arrive, or holds it. A packet that its sender would send again is not lost.
    pub(super) fn arrive(&mut self, packet: Packet) {
        let (link, is_up) = (packet.link, self.nodes.get(packet.link.1).up);
        let works = self.links.works(link);
        if works == Works::Yes && is_up {
            return self.take(packet);
        }
        if !packet.body.is_sent_again() && works != Works::Held {
            return;
        }
        self.links.last_held += 1;
        let id = self.links.last_held;
        let ends = matches!(&packet.body, Body::Tcp(segment) if segment.ends_connection());
        let until = ends.then(|| self.at(self.now + PATIENCE_NS, Event::GivenUp(link, id)));
        self.links.all.entry(link).or_default().held.insert(id, Held { packet, until });
    }

    /// The sender of a held packet gives its connection up.
    pub(super) fn give_up(&mut self, link: Link, id: u64) {
        let Some(path) = self.links.all.get_mut(&link) else { return };
        let Some(Held { packet, .. }) = path.held.remove(&id) else { return };
        let from = packet.from;
        let others: Vec<u64> =
            path.held.iter().filter(|(_, held)| held.packet.from == from).map(|(&id, _)| id).collect();
        let void: Vec<At> =
            others.iter().filter_map(|id| path.held.remove(id)).filter_map(|held| held.until).collect();
        void.iter().for_each(|at| drop(self.events.remove(at)));
        self.abort(from, libc::ETIMEDOUT);
    }

    /// Sets whether packets of a link arrive.
    pub(crate) fn set_works(&mut self, link: Link, works: Works) {
        self.links.all.entry(link).or_default().state = works;
        if works == Works::Yes {
            self.release(link);
        }
    }

    /// Ends the faults of all links, and sends what they hold.
    pub(crate) fn heal_links(&mut self) {
        self.links.heal();
        let links: Vec<Link> = self.links.all.keys().copied().collect();
        links.into_iter().for_each(|link| self.set_works(link, Works::Yes));
    }

    /// Sends the held packets of all links to `node` again.
    pub(super) fn release_to(&mut self, node: u32) {
        let links: Vec<Link> = self.links.all.keys().filter(|link| link.1 == node).copied().collect();
        links.into_iter().for_each(|link| self.release(link));
    }

    fn release(&mut self, link: Link) {
        let held = self.links.all.get_mut(&link).map(|path| std::mem::take(&mut path.held));
        for (_, Held { packet, until }) in held.into_iter().flatten() {
            until.into_iter().for_each(|at| drop(self.events.remove(&at)));
            self.send(packet);
        }
    }

    /// Takes a packet that has arrived.
    fn take(&mut self, packet: Packet) {
        let Packet { link, from, to, body } = packet;
        match body {
            Body::Tcp(segment) => self.take_segment(link, from, to, segment),
            Body::Datagram { source, target, bytes } => {
                self.take_datagram(link, from, (source, target), bytes)
            }
            Body::Unreachable(target) => self.take_unreachable(to, target),
        }
    }
}
