//! `Pauses`: keeps `Incoming` from spinning when accepting fails again and again, for example without free
//! descriptors. After such an error, the next accept first sleeps, for 5 ms to 1 s.

use std::io::{self, ErrorKind};
use std::time::Duration;

use super::backoff::Backoff;

const FIRST: Duration = Duration::from_millis(5);
const MOST: Duration = Duration::from_secs(1);

/// The pauses of one `Incoming`. (Go's `http.Server` pauses in the same way.)
#[derive(Debug, Default)]
pub(crate) struct Pauses(Option<Backoff>);

impl Pauses {
    /// Accepts. Pauses before if the last call failed in a way that would repeat at once.
    pub(crate) fn accept<T>(&mut self, accept: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if let Some(backoff) = &mut self.0 {
            crate::sleep(backoff.step());
        }
        let accepted = accept();
        self.note(&accepted);
        accepted
    }

    /// Accepts as `accept` does, in a future.
    #[cfg(feature = "stream")]
    pub(crate) async fn accept_async<T>(
        &mut self,
        accept: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        if let Some(backoff) = &mut self.0 {
            crate::time::sleep_async(backoff.step()).await;
        }
        let accepted = accept.await;
        self.note(&accepted);
        accepted
    }

    /// Accepts, and pauses after an error that would repeat at once, for a caller that keeps no `Pauses`.
    pub(crate) async fn accept_late<T>(
        mut self,
        accept: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let accepted = accept.await;
        self.note(&accepted);
        if let Some(mut backoff) = self.0 {
            crate::time::sleep_async(backoff.step()).await;
        }
        accepted
    }

    /// Decides whether the next call pauses.
    fn note<T>(&mut self, accepted: &io::Result<T>) {
        match accepted {
            // Most likely no descriptors or no memory. The connection still waits, so no event would come.
            Err(error) if may_repeat(error.kind()) => drop(self.0.get_or_insert(Backoff::new(FIRST, MOST))),
            _ => self.0 = None,
        }
    }
}

/// Returns `true` unless the error concerns one connection only, or tells a non-blocking caller to come
/// again.
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
