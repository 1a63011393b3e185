//! The texts of events. An event has room for two numbers, so its texts lie in two tables. A *name* is one of
//! few texts, such as that of a region. It stays for ever, and its number fits into the argument of an event.
//! A *message* is kept until newer ones need its place.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::g::labels::Labels;
use crate::sync::Mutex;

/// How many names there are at most. Later ones are all `OTHER_NAME`.
const MOST_NAMES: usize = 4096;
/// The bytes of a text that are kept.
const MOST_BYTES: usize = 1024;
/// How many messages are kept.
const KEPT_MESSAGES: usize = 4096;
/// The number of the name that stands for those without a place.
const OTHER_NAME: u16 = 0;
/// The argument of an event that says that a green thread has no labels. No name has this number.
pub const NO_LABELS: u16 = u16::MAX;
/// What a reader finds under `OTHER_NAME`.
const OTHER: &str = "(another)";

static NAMES: Mutex<Option<HashMap<Box<str>, u16>>> = Mutex::new(None);
static MESSAGES: Mutex<VecDeque<(u64, Box<str>)>> = Mutex::new(VecDeque::new());
/// The number of the next message. From 1, because 0 stands for none.
static NEXT_MESSAGE: AtomicU64 = AtomicU64::new(1);

/// Keeps a message. Returns its number.
pub(crate) fn keep(message: &str) -> u64 {
    // The number under the lock, too, so that the messages lie in the order of their numbers.
    let mut messages = MESSAGES.lock();
    if messages.len() == KEPT_MESSAGES {
        messages.pop_front();
    }
    let number = NEXT_MESSAGE.fetch_add(1, Ordering::Relaxed);
    messages.push_back((number, shortened(message).into()));
    number
}

/// Returns the number of a name, which it adds if it is new.
pub(crate) fn number_of(name: &str) -> u16 {
    let name = shortened(name);
    let mut names = NAMES.lock();
    let names = names.get_or_insert_with(HashMap::new);
    if let Some(&number) = names.get(name) {
        return number;
    }
    if names.len() == MOST_NAMES {
        return OTHER_NAME;
    }
    // At most `MOST_NAMES`, which fits.
    let number = names.len() as u16 + 1;
    names.insert(name.into(), number);
    number
}

/// Returns the number of the name that stands for `labels`; `NO_LABELS` for none.
pub fn name_of_labels(labels: Option<&Labels>) -> u16 {
    labels.map_or(NO_LABELS, |labels| number_of(&labels.to_string()))
}

/// Returns the first bytes of a text.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_BYTES)]
}

/// The texts of user's events.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    names: HashMap<u16, Box<str>>,
    messages: HashMap<u64, Box<str>>,
    /// The number of the message after the last one that was taken.
    next: u64,
}

impl Texts {
    /// Returns copies of all texts that are kept.
    pub fn now() -> Texts {
        let mut texts = Texts::default();
        texts.renew(0);
        texts
    }

    /// Adds the texts that have come since, and forgets the messages before the number `from`. Returns the
    /// number of the next message.
    pub fn renew(&mut self, from: u64) -> u64 {
        let names = NAMES.lock();
        if let Some(names) = names.as_ref().filter(|names| names.len() > self.names.len()) {
            self.names = names.iter().map(|(name, &number)| (number, name.clone())).collect();
        }
        drop(names);
        self.messages.retain(|&number, _| number >= from);
        let messages = MESSAGES.lock();
        // Their numbers follow each other.
        let first = messages.front().map_or(0, |(number, _)| *number);
        let known = self.next.max(from).saturating_sub(first) as usize;
        self.messages.extend(messages.iter().skip(known).cloned());
        self.next = messages.back().map_or(self.next, |(number, _)| number + 1);
        self.next
    }

    /// Returns the name of this number.
    pub fn name(&self, number: u16) -> &str {
        self.names.get(&number).map_or(OTHER, |name| name)
    }

    /// Returns the message of this number; `None` if newer ones have its place.
    pub fn message(&self, number: u64) -> Option<&str> {
        self.messages.get(&number).map(|message| &**message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_and_is_cut_between_characters() {
        let long = "\u{e4}".repeat(MOST_BYTES);
        let (a, b) = (number_of("a name of this test"), number_of(&long));
        assert_ne!(a, b);
        assert_eq!((number_of("a name of this test"), number_of(&long)), (a, b));
        let texts = Texts::now();
        assert_eq!((texts.name(a), texts.name(b).len()), ("a name of this test", MOST_BYTES));
        assert_eq!((texts.name(OTHER_NAME), texts.message(u64::MAX)), (OTHER, None));
    }

    #[test]
    fn texts_take_each_message_once_and_forget_old_ones() {
        let mut texts = Texts::now();
        let next = texts.next;
        let first = keep("first");
        assert_eq!(texts.message(first), None);
        assert_eq!(texts.renew(next), first + 1);
        let second = keep("second");
        assert_eq!(texts.renew(next), second + 1);
        assert_eq!((texts.message(first), texts.message(second)), (Some("first"), Some("second")));
        assert_eq!(texts.renew(second), second + 1);
        assert_eq!((texts.message(first), texts.message(second)), (None, Some("second")));
        if cfg!(miri) {
            return;
        }
        // More than are kept: minutes for Miri.
        let many: Vec<u64> = (0..=KEPT_MESSAGES).map(|n| keep(&n.to_string())).collect();
        texts.renew(second);
        assert_eq!((texts.message(many[0]), texts.message(many[1])), (None, Some("1")));
    }
}
