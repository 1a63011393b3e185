//! What can be cancelled, and those below it.
//!
//! ```text
//!   one ends                                    one is made below it
//!   lock its parent: leave its children         lock the parent
//!   lock it: the error, if there is none yet;   it is over? end likewise, after the lock
//!     take its children and its timer           else become one of its children
//!   unlock; disconnect `done`                   unlock
//!   end the children
//! ```
//!
//! So one is told by its parent, or has seen that it is over. No two locks are held at once, and none while anybody is woken.
//! The error shows only when `done` is disconnected; whoever else ends it meanwhile disconnects that too, so for it both are
//! so when it has ended it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use super::ContextError;
use crate::channel::{Receiver, Sender, TryRecvError, bounded};
use crate::time::Timer;

pub(super) struct Node {
    done: Receiver<()>,
    /// `done` is disconnected otherwise.
    _open: Sender<()>,
    /// Not kept by it: whoever has a context below has it as well.
    parent: Weak<Node>,
    state: Mutex<State>,
}

struct State {
    error: Option<ContextError>,
    /// By their addresses. They keep themselves, and leave when they are over.
    children: HashMap<usize, Weak<Node>>,
    timer: Option<Timer>,
}

fn address(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node).addr()
}

impl Node {
    /// A new one, which ends with `parent`.
    pub(super) fn below(parent: Option<&Arc<Node>>) -> Arc<Node> {
        let (open, done) = bounded(0);
        let state = State { error: None, children: HashMap::new(), timer: None };
        let node = Arc::new(Node {
            done,
            _open: open,
            parent: parent.map_or_else(Weak::new, Arc::downgrade),
            state: Mutex::new(state),
        });
        if let Some(error) = parent.and_then(|parent| parent.adopt(&node).err()) {
            node.end(error);
        }
        node
    }

    fn adopt(&self, child: &Arc<Node>) -> Result<(), ContextError> {
        let mut state = self.state.lock();
        match state.error {
            Some(error) => Err(error),
            None => {
                state.children.insert(address(child), Arc::downgrade(child));
                Ok(())
            }
        }
    }

    pub(super) fn done(&self) -> &Receiver<()> {
        &self.done
    }

    pub(super) fn error(&self) -> Option<ContextError> {
        let error = self.state.lock().error;
        error.filter(|_| self.done.try_recv() == Err(TryRecvError::Disconnected))
    }

    /// It ends at `deadline` at the latest.
    #[track_caller]
    pub(super) fn end_at(self: &Arc<Self>, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return self.end(ContextError::DeadlineExceeded);
        }
        let node = Arc::downgrade(self);
        let timer = Timer::after_func(left, move || {
            if let Some(node) = node.upgrade() {
                node.end(ContextError::DeadlineExceeded);
            }
        });
        let mut state = self.state.lock();
        // If it is over already, the timer is dropped, after the lock.
        let unneeded = if state.error.is_none() { state.timer.replace(timer) } else { Some(timer) };
        drop(state);
        drop(unneeded);
    }

    /// It is over, and all below it are, unless it was before.
    pub(super) fn end(self: &Arc<Self>, error: ContextError) {
        if self.error().is_some() {
            return;
        }
        if let Some(parent) = self.parent.upgrade() {
            parent.state.lock().children.remove(&address(self));
        }
        // Not by recursion: a tree may be deeper than a stack.
        let mut ending = vec![Arc::clone(self)];
        while let Some(node) = ending.pop() {
            ending.extend(node.end_alone(error).into_values().filter_map(|child| child.upgrade()));
        }
    }

    /// Gives its children, if they are still to be told.
    fn end_alone(&self, error: ContextError) -> HashMap<usize, Weak<Node>> {
        let mut state = self.state.lock();
        state.error.get_or_insert(error);
        let (children, timer) = (std::mem::take(&mut state.children), state.timer.take());
        drop(state);
        self.done.disconnect();
        drop(timer);
        children
    }
}
