//! Accepting one connection after the other, with a pause where the system has run out of something.

use std::io::{self, ErrorKind};
use std::time::Duration;

use super::backoff::Backoff;

const FIRST: Duration = Duration::from_millis(5);
const MOST: Duration = Duration::from_secs(1);

/// When to accept next. (Go's `http.Server` pauses likewise.)
#[derive(Debug, Default)]
pub(crate) struct Pauses(Option<Backoff>);

impl Pauses {
    /// Accepts, after a pause if the last time failed in a way that would at once happen again.
    pub(crate) fn accept<T>(&mut self, accept: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if let Some(backoff) = &mut self.0 {
            crate::sleep(backoff.step());
        }
        let accepted = accept();
        match &accepted {
            // No descriptors or no memory, most likely; the connection is still there, so there is nothing to wait for.
            Err(error) if may_repeat(error.kind()) => drop(self.0.get_or_insert(Backoff::new(FIRST, MOST))),
            _ => self.0 = None,
        }
        accepted
    }
}

/// Not what concerns one connection alone, nor what a caller asked for who does not want to wait.
fn may_repeat(kind: ErrorKind) -> bool {
    !matches!(kind, ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn errors_that_repeat_are_followed_by_pauses_and_others_are_not() {
        let mut pauses = Pauses::default();
        let start = Instant::now();
        let no_descriptors = || Err::<(), _>(io::Error::from_raw_os_error(24));
        for _ in 0..3 {
            assert!(pauses.accept(no_descriptors).is_err());
        }
        assert!(start.elapsed() >= FIRST * 3);
        assert!(pauses.accept(|| Ok(())).is_ok());
        assert!(pauses.0.is_none());
        assert!(pauses.accept(|| Err::<(), _>(ErrorKind::ConnectionAborted.into())).is_err());
        assert!(pauses.accept(|| Err::<(), _>(ErrorKind::WouldBlock.into())).is_err());
        assert!(pauses.0.is_none());
    }
}
