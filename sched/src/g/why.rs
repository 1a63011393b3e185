//! What a wait is for: a kind for each wait, and for some waits their object. For dumps alone; no decision
//! depends on it.
//!
//! A waiter leaves an [`On`] in its frame, with the address of the object and a function that looks at the
//! object. A dumper holds the parked waiter (`Wait::hold`) and then calls that function. The waiter cannot go
//! on while it is held, so what it borrows stays.

#![cfg_attr(not(loom), allow(unsafe_code))]

#[cfg(not(loom))]
use std::ptr;

/// The kind of a wait.
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

    /// Returns the kind with this number; `Something` if there is none.
    #[cfg(not(loom))]
    pub(crate) fn of_number(number: u8) -> Why {
        Why::ALL.get(usize::from(number)).map_or(Why::Something, |(why, _)| *why)
    }

    /// Returns the kind in words, as in "waits for a mutex".
    pub fn words(self) -> &'static str {
        Why::ALL[self as usize].1
    }
}

/// What a wait is for, at the moment of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A mutex.
    Mutex {
        /// Its address, of the raw mutex.
        address: usize,
        /// True if a thread has it.
        locked: bool,
        /// The id of the thread that took it, if that was recorded.
        holder: Option<u64>,
    },
    /// A reader-writer lock.
    RwLock {
        /// Its address, of the raw lock.
        address: usize,
        /// How many readers have it.
        readers: usize,
        /// True if a writer has it.
        writer: bool,
        /// The id of a thread that took it and has it, if that was recorded: the writer, or one of the
        /// readers.
        holder: Option<u64>,
        /// True if the waiter wants to write.
        to_write: bool,
        /// True if the waiter wants the share that may be upgraded.
        upgradable: bool,
        /// How many writers wait, in any kind of thread; `None` if that was not known at once.
        writers: Option<usize>,
    },
    /// The end of a green thread.
    Thread {
        /// Its id.
        id: u64,
    },
    /// The ends of all green threads of a scope.
    Scope {
        /// The ids of the green threads that may still run.
        threads: Vec<u64>,
    },
    /// A channel.
    Channel {
        /// Its address.
        address: usize,
        /// How many senders it has.
        senders: usize,
        /// How many receivers it has.
        receivers: usize,
        /// How many messages lie in it.
        messages: usize,
        /// How many messages it has room for; `None` if there is no limit.
        capacity: Option<usize>,
    },
    /// One of the cases of a select. A case about which nothing is known is `None`.
    Select {
        /// The cases in the order in which the select has tried them.
        cases: Vec<Option<Awaited>>,
    },
    /// A descriptor of the system.
    Descriptor {
        /// Its number.
        fd: i64,
        /// The address of a socket on this side.
        local: Option<String>,
        /// The address of the socket with which it is connected.
        peer: Option<String>,
        /// True if the waiter wants room to write, or a connection; false if it wants something to read or to
        /// accept.
        to_write: bool,
    },
}

/// The object of a wait, and how to look at it. It lies in the waiter's frame.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct On {
    object: *const (),
    look: unsafe fn(*const ()) -> Option<Awaited>,
}

// SAFETY: only `look` uses the address, on any thread, and its caller answers for that (`new`, `look`).
#[cfg(not(loom))]
unsafe impl Send for On {}
// SAFETY: as for `Send`.
#[cfg(not(loom))]
unsafe impl Sync for On {}

#[cfg(not(loom))]
impl On {
    /// Names the object of a wait. `look` runs on a dumper's thread while the waiter is parked. It waits for
    /// no lock, and uses what other threads may use at the same time alone.
    #[inline]
    pub fn new<T>(object: &T, look: fn(&T) -> Option<Awaited>) -> On {
        // SAFETY: a reference and a pointer to a sized type are ABI-compatible, so one function may be called
        // as the other. The caller of `look` passes the reference that `object` was.
        let look = unsafe {
            std::mem::transmute::<fn(&T) -> Option<Awaited>, unsafe fn(*const ()) -> Option<Awaited>>(look)
        };
        On { object: ptr::from_ref(object).cast(), look }
    }

    /// Looks at the object.
    ///
    /// # Safety
    /// The reference that `new` was given is valid.
    pub(crate) unsafe fn look(&self) -> Option<Awaited> {
        // SAFETY: `new` has made `look` a function of the type of the object. The object is there, by this
        // contract.
        unsafe { (self.look)(self.object) }
    }
}

/// The object of a wait, which the models leave out.
#[cfg(loom)]
#[derive(Debug)]
pub struct On;

#[cfg(loom)]
impl On {
    /// Names nothing.
    pub fn new<T>(_object: &T, _look: fn(&T) -> Option<Awaited>) -> On {
        On
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_stands_at_its_number() {
        for (number, (why, _)) in Why::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, number);
            assert_eq!(Why::of_number(number as u8), why);
        }
    }

    #[test]
    fn a_look_sees_the_object() {
        let object = 17;
        let on = On::new(&object, |&id| Some(Awaited::Thread { id }));
        // SAFETY: `object` is there.
        assert_eq!(unsafe { on.look() }, Some(Awaited::Thread { id: 17 }));
    }
}
