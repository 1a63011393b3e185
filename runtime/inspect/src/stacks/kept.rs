//! What the walks over stacks keep from look to look: the tables of the program's code.

use sched::StackCopy;
use sched::sync::Mutex;

use super::frame::{self, Frame};
use super::walk::Stacks;

/// Locked during a look: a second look would miss what the first one holds at that moment.
pub(crate) static KEPT: Mutex<Option<Stacks>> = Mutex::new(None);

/// Returns the addresses on the stack of a green thread on its OS thread, the innermost first. `interrupted`
/// says that it was interrupted.
pub(crate) fn addresses_now(copy: &StackCopy, interrupted: bool) -> Box<[usize]> {
    let mut kept = KEPT.lock();
    Stacks::of_now(&mut kept).map(|stacks| stacks.addresses_of(copy, interrupted)).unwrap_or_default()
}

/// Returns the frames at the addresses of a stack. The first call reads the debug information of the program,
/// which takes time and memory.
pub(crate) fn frames_at(addresses: &[usize]) -> Vec<Frame> {
    let mut kept = KEPT.lock();
    let Some(stacks) = Stacks::of_now(&mut kept).filter(|_| !addresses.is_empty()) else { return Vec::new() };
    frame::without_ours(stacks.frames(addresses))
}
