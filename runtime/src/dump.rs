//! Dumps: what each green thread does, what it waits for, and its stack if it is parked.
//!
//! [`dump()`](crate::dump()) writes the text. A [`Snapshot`] has the same as values, and other forms of it.
//! The page about [dumps](crate::docs::dumps) shows examples.

#[doc(inline)]
pub use inspect::dump::{
    Deadlock, DeadlockKind, DeadlockMember, Frame, GreenThread, Object, Place, Reason, Snapshot, State, Wait,
    dump, on_deadlock,
};
