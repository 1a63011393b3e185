//! `Receiver::disconnect`: ends a channel from the receiving side. The `done` channel of a context uses it.
//! Such a channel has capacity 0 and never carries a message.

use super::receiver::{Flavor, Receiver};
use super::shared::Disconnect;

impl Receiver<()> {
    /// Disconnects a channel of capacity 0 whose sender is kept. Later calls do nothing.
    pub(crate) fn disconnect(&self) {
        match &self.0 {
            Flavor::Rendezvous(channel) => channel.senders_gone(),
            _ => unreachable!("the channel has capacity 0"),
        }
    }
}
