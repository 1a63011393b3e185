//! What a wait is for, in words, for dumps.

/// What a wait is for. No decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Why {
    Something,
    Future,
    Sleep,
    Unpark,
    End,
    Scope,
    Mutex,
    RwLock,
    Condvar,
    Once,
    Semaphore,
    Notification,
    Barrier,
    WaitGroup,
    Send,
    Receive,
    Select,
    Time,
    Socket,
    StdLock,
}

impl Why {
    pub(crate) const ALL: [(Why, &'static str); 20] = [
        (Why::Something, "something"),
        (Why::Future, "a wake-up of its future"),
        (Why::Sleep, "the end of a sleep"),
        (Why::Unpark, "an unpark"),
        (Why::End, "the end of a green thread"),
        (Why::Scope, "the end of its scope"),
        (Why::Mutex, "a mutex"),
        (Why::RwLock, "a read-write lock"),
        (Why::Condvar, "a condition variable"),
        (Why::Once, "something that is made once"),
        (Why::Semaphore, "a semaphore"),
        (Why::Notification, "a notification"),
        (Why::Barrier, "a barrier"),
        (Why::WaitGroup, "a wait group"),
        (Why::Send, "a channel to send"),
        (Why::Receive, "a channel to receive"),
        (Why::Select, "a case of a select"),
        (Why::Time, "a channel of time"),
        (Why::Socket, "a socket"),
        (Why::StdLock, "a lock or condition of std"),
    ];

    /// Returns the words for `number as Why`.
    pub(crate) fn words(number: u8) -> &'static str {
        Why::ALL[usize::from(number)].1
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Why;

    #[test]
    fn each_stands_at_its_number() {
        for (number, (why, _)) in Why::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, number);
        }
    }
}
