//! `copy_bidirectional`: between two streams, in both directions, to both ends.

use std::io::{self, ErrorKind};
use std::net::Shutdown;

use super::copy;
use crate::net::{Split, share, shut};
use crate::scope::try_scope;

/// Copies from `a` to `b` and from `b` to `a` until both streams have ended. Returns the numbers of bytes: of
/// those to `b`, and of those to `a`. It is what a proxy does.
///
/// The end of one direction ends the writing side of the other stream, as `shutdown` does. The other
/// direction goes on. Each direction runs on a green thread of its own. It is the blocking form of tokio's
/// function.
///
/// # Errors
///
/// Returns the first error of either direction, and ends the other direction. What was written until then
/// stays written.
///
/// # Panics
///
/// Panics if a green thread cannot be started: see [`runtime::spawn`](crate::spawn()).
///
/// # Cancellation
///
/// A cancelled green thread unwinds from here after both directions have ended.
///
/// ```
/// use runtime::io::duplex;
/// use std::io::{Read, Write};
/// use std::net::Shutdown;
///
/// let ((client, near), (far, mut server)) = (duplex(64), duplex(64));
/// let proxy = runtime::spawn(move || runtime::io::copy_bidirectional(&near, &far));
/// (&client).write_all(b"question")?;
/// client.shutdown(Shutdown::Write)?;
/// assert_eq!(std::io::read_to_string(&server)?, "question");
/// server.write_all(b"answer")?;
/// drop(server);
/// assert_eq!(std::io::read_to_string(&client)?, "answer");
/// assert_eq!(proxy.join().unwrap()?, (8, 6));
/// # std::io::Result::Ok(())
/// ```
pub fn copy_bidirectional<A: Split, B: Split>(a: &A, b: &B) -> io::Result<(u64, u64)> {
    try_scope(|scope| {
        let there = scope.spawn(|| copy_to_end(a, b));
        let back = scope.spawn(|| copy_to_end(b, a));
        Ok((there.join(), back.join()))
    })
}

/// Copies in one direction until `from` ends, and then ends the writing side of `to`.
fn copy_to_end<R: Split, W: Split>(from: &R, to: &W) -> io::Result<u64> {
    let copied = copy(&mut share(from), &mut share(to))?;
    match shut(to, Shutdown::Write) {
        // The peer has left already.
        Err(error) if error.kind() != ErrorKind::NotConnected => Err(error),
        _ => Ok(copied),
    }
}
