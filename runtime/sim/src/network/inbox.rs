//! `Inbox`: the datagrams that a socket has not yet received.

use std::collections::VecDeque;

/// Datagrams in the order of their arrival, each with what is known of its sender.
#[derive(Debug)]
pub(super) struct Inbox<A> {
    queue: VecDeque<(Vec<u8>, A)>,
    bytes: usize,
}

impl<A> Default for Inbox<A> {
    fn default() -> Self {
        Inbox { queue: VecDeque::new(), bytes: 0 }
    }
}

impl<A: Clone> Inbox<A> {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of datagrams.
    pub(super) fn count(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of bytes in all datagrams.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>, sender: A) {
        self.bytes += bytes.len();
        self.queue.push_back((bytes, sender));
    }

    /// Returns the first datagram with its sender, and leaves it there.
    pub(super) fn first(&self) -> Option<&(Vec<u8>, A)> {
        self.queue.front()
    }

    /// Copies the first datagram into `buf`, as far as it fits. Returns the number of bytes, and its sender.
    pub(super) fn look(&self, buf: &mut [u8]) -> Option<(usize, A)> {
        let (bytes, sender) = self.first()?;
        let n = bytes.len().min(buf.len());
        buf[..n].copy_from_slice(&bytes[..n]);
        Some((n, sender.clone()))
    }

    /// Takes the first datagram.
    pub(super) fn pop(&mut self) -> Option<(Vec<u8>, A)> {
        let first = self.queue.pop_front()?;
        self.bytes -= first.0.len();
        Some(first)
    }
}
