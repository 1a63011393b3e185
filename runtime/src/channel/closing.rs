//! A channel without messages that is disconnected by a word, said by anyone and as often as they like: it tells of an end.

use super::receiver::{Flavor, Receiver};
use super::shared::Disconnect;

impl Receiver<()> {
    /// Disconnects one of capacity 0, whose sender stays where it is.
    pub(crate) fn disconnect(&self) {
        match &self.0 {
            Flavor::Rendezvous(channel) => channel.senders_gone(),
            _ => unreachable!("it is one of capacity 0"),
        }
    }
}
