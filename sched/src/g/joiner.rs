//! The waiter for a G's end, in two words: a G has no room for a tag.
//!
//! ```text
//!   first                            second              waiter
//!   null                             -                   none
//!   the waiter's G, and the bit 1    number of the wait  a parked thread
//!   the waker's table of functions   the waker's data    a poll's waker
//! ```
//!
//! Gs and tables are aligned, so the lowest bit of their addresses is 0.

#![allow(unsafe_code)]

use std::mem::{self, ManuallyDrop};
use std::ptr;
use std::task::{RawWakerVTable, Waker};

use crate::g::{G, GRef, Ticket};

/// In the first word: it leads to a G.
const PARKED: usize = 1;
const _: () = assert!(align_of::<G>() > PARKED && align_of::<RawWakerVTable>() > PARKED);

/// The waiter for a G's end.
pub(crate) enum Joiner {
    Absent,
    Parked(Ticket),
    Polls(Waker),
}

/// A [`Joiner`] in two words, without a destructor: it is never dropped, but replaced.
pub(crate) struct JoinerWords {
    first: *const (),
    second: *const (),
}

impl JoinerWords {
    pub(crate) const ABSENT: JoinerWords = JoinerWords { first: ptr::null(), second: ptr::null() };

    /// Writes `joiner`. Returns the joiner before.
    #[inline(always)]
    pub(crate) fn replace(&mut self, joiner: Joiner) -> Joiner {
        mem::replace(self, JoinerWords::new(joiner)).joiner()
    }

    /// Writes the parked `ticket`. Precondition: there is no joiner.
    #[inline(always)]
    pub(crate) fn set_parked(&mut self, ticket: Ticket) {
        debug_assert!(self.first.is_null());
        *self = JoinerWords::new(Joiner::Parked(ticket));
    }

    #[inline(always)]
    fn new(joiner: Joiner) -> JoinerWords {
        match joiner {
            Joiner::Absent => JoinerWords::ABSENT,
            Joiner::Parked(Ticket { g, number }) => JoinerWords {
                first: ptr::from_ref(g).cast::<()>().map_addr(|address| address | PARKED),
                second: ptr::without_provenance(number as usize),
            },
            Joiner::Polls(waker) => {
                let waker = ManuallyDrop::new(waker);
                JoinerWords { first: ptr::from_ref(waker.vtable()).cast(), second: waker.data() }
            }
        }
    }

    #[inline(always)]
    fn joiner(self) -> Joiner {
        if self.first.is_null() {
            return Joiner::Absent;
        }
        if self.first.addr() & PARKED != 0 {
            let g = self.first.map_addr(|address| address & !PARKED).cast::<G>();
            // SAFETY: `new` made the word from a `GRef`, which is valid for ever.
            let g: GRef = unsafe { &*g };
            return Joiner::Parked(Ticket { g, number: self.second.addr() as u32 });
        }
        // SAFETY: `new` took both words from a waker that it has not dropped, and these words are used once:
        // `self` is consumed.
        Joiner::Polls(unsafe { Waker::new(self.second, &*self.first.cast::<RawWakerVTable>()) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;
    use crate::g::table;

    struct Counted;

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn the_words_give_back_what_they_were_made_from() {
        let (g, counted) = (table::take(0, |_| ()).unwrap(), Arc::new(Counted));
        let mut words = JoinerWords::ABSENT;
        assert!(matches!(words.replace(Joiner::Polls(counted.clone().into())), Joiner::Absent));
        assert_eq!(Arc::strong_count(&counted), 2);
        let Joiner::Polls(waker) = words.replace(Joiner::Parked(Ticket { g, number: u32::MAX })) else {
            panic!("a waker");
        };
        waker.wake();
        assert_eq!(Arc::strong_count(&counted), 1);
        let Joiner::Parked(ticket) = words.replace(Joiner::Absent) else { panic!("a ticket") };
        assert!(ptr::eq(ticket.g, g) && ticket.number == u32::MAX);
        assert!(matches!(words.replace(Joiner::Absent), Joiner::Absent));
        table::give([g]);
    }
}
