//! What [`select!`](crate::select) is made of beside channels: it lies above everything that can be waited
//! for.

mod macros;

use std::io;
use std::time::{Duration, Instant};

use crate::channel::{Receiver, after, at};
use crate::net::incoming::Pauses;
use crate::time::{Ticker, Timer};

/// For [`select!`](crate::select) only: what `timer(..)` takes.
pub trait Moments {
    /// Returns the channel that gives the moments.
    fn moments(&self) -> Receiver<Instant>;
}

impl Moments for Timer {
    fn moments(&self) -> Receiver<Instant> {
        self.channel().clone()
    }
}

impl Moments for Ticker {
    fn moments(&self) -> Receiver<Instant> {
        self.channel().clone()
    }
}

impl Moments for Duration {
    fn moments(&self) -> Receiver<Instant> {
        after(*self)
    }
}

impl Moments for Instant {
    fn moments(&self) -> Receiver<Instant> {
        at(*self)
    }
}

impl<M: Moments + ?Sized> Moments for &M {
    fn moments(&self) -> Receiver<Instant> {
        (**self).moments()
    }
}

/// For [`select!`](crate::select) only: `accept(..)` pauses before it returns an error that would repeat at
/// once, so that a loop does not spin. Other cases may be chosen during the pause; the error is then
/// forgotten, because it would come again.
pub async fn accept<T>(accept: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    Pauses::default().accept_late(accept).await
}

/// For [`select!`](crate::select) only: `join(..)` takes a handle that is a future of the result of a thread.
pub fn join<T, H: Future<Output = crate::thread::Result<T>>>(handle: H) -> H {
    handle
}
