//! In the place of `poll.rs` where no trait of another crate needs it.

#[derive(Default)]
pub(super) struct Begun(());
