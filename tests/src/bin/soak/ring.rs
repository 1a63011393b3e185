//! The ring: green and plain threads pass tokens round as long as a round lasts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tests::Token;

use crate::actor::{Actor, set};
use crate::board::Other;
use crate::mailbox::Mailbox;

#[derive(Debug)]
pub(crate) struct Ring {
    boxes: [Mailbox<Round>; Ring::MEMBERS],
    stop: AtomicBool,
    passed: AtomicU64,
}

/// A token, and how often the token was passed on.
#[derive(Debug)]
struct Round {
    passed: u64,
    _token: Token,
}

impl Ring {
    pub(crate) const MEMBERS: usize = 7;
    const TOKENS: usize = 3;

    pub(crate) fn new() -> Ring {
        Ring {
            boxes: std::array::from_fn(|_| Mailbox::new()),
            stop: AtomicBool::new(false),
            passed: AtomicU64::new(0),
        }
    }

    /// Passes tokens from member `i` to the next member until the ring stops.
    pub(crate) fn pass_on(&self, i: usize, actor: &mut Actor) {
        let (mine, next) = (&self.boxes[i], &self.boxes[(i + 1) % Ring::MEMBERS]);
        mine.open();
        if i == 0 {
            (0..Ring::TOKENS).for_each(|_| mine.put(Round { passed: 0, _token: actor.token() }));
        }
        loop {
            // Tokens arrive continually, so a long wait is a defect: `works`, not `rests`.
            actor.works(Other::Ring);
            let Some(mut round) = mine.take(&self.stop, &mut actor.random) else { return };
            if self.stop.load(SeqCst) {
                return mine.put(round);
            }
            if i == 2 {
                // Slows the ring down, to leave CPU time to the operations.
                runtime::sleep(Duration::from_micros(300));
            }
            round.passed += 1;
            self.passed.fetch_add(1, SeqCst);
            next.put(round);
        }
    }

    pub(crate) fn stop(&self) {
        set(&self.stop);
        self.boxes.iter().for_each(Mailbox::wake);
    }

    /// Checks the number of tokens and of their passes, and takes the tokens away.
    pub(crate) fn comes_out_even(&self) {
        let rounds: Vec<_> =
            self.boxes.iter().flat_map(|letters| std::iter::from_fn(|| letters.try_take())).collect();
        let passed: u64 = rounds.iter().map(|round| round.passed).sum();
        assert_eq!((rounds.len(), passed), (Ring::TOKENS, self.passed.load(SeqCst)), "tokens and passes");
    }
}
