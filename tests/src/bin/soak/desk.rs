//! The desk: clerks answer questions of actors and park while there is no question. They are green and plain
//! threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use runtime::thread::{self, Thread};

use crate::actor::{Actor, set};
use crate::board::Other;
use crate::mailbox::Mailbox;

#[derive(Debug)]
pub(crate) struct Desk {
    questions: [Mailbox<Question>; Desk::CLERKS],
    stop: AtomicBool,
    asked: AtomicU64,
    answered: AtomicU64,
}

#[derive(Debug)]
struct Question {
    asker: Thread,
    value: u64,
    answer: Arc<AtomicU64>,
}

impl Desk {
    pub(crate) const CLERKS: usize = 6;

    pub(crate) fn new() -> Desk {
        Desk {
            questions: std::array::from_fn(|_| Mailbox::new()),
            stop: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        }
    }

    /// Answers the questions of clerk `clerk` until the desk stops.
    pub(crate) fn serve(&self, clerk: usize, actor: &mut Actor) {
        let questions = &self.questions[clerk];
        questions.open();
        actor.rests(Other::Desk);
        while let Some(question) = questions.take(&self.stop, &mut actor.random) {
            question.answer.store(question.value + 1, SeqCst);
            question.asker.unpark();
            self.answered.fetch_add(1, SeqCst);
        }
    }

    /// Asks a random clerk and parks until the answer arrives.
    pub(crate) fn ask(&self, actor: &mut Actor) {
        let (value, answer) = (actor.random.below(1 << 40), Arc::new(AtomicU64::new(0)));
        let question = Question { asker: thread::current(), value, answer: answer.clone() };
        let clerk = actor.random.below(Desk::CLERKS as u64) as usize;
        self.asked.fetch_add(1, SeqCst);
        self.questions[clerk].put(question);
        while answer.load(SeqCst) == 0 {
            if actor.one_in(4) {
                thread::park_timeout(actor.micros(100));
            } else {
                thread::park();
            }
        }
        assert_eq!(answer.load(SeqCst), value + 1, "the answer");
    }

    pub(crate) fn stop(&self) {
        set(&self.stop);
        self.questions.iter().for_each(Mailbox::wake);
    }

    pub(crate) fn comes_out_even(&self) {
        assert_eq!(self.asked.load(SeqCst), self.answered.load(SeqCst), "questions and answers");
    }
}
