//! `Node`: the part of a context that can be ended, with its timer and its children.
//!
//! ```text
//!   a node ends                                 a child is made
//!   lock the parent: remove the node            lock the parent
//!   lock the node: set the error if it has      the parent is over? end the child, after the lock
//!     none; take its children and its timer     else add the child
//!   unlock; disconnect `done`                   unlock
//!   end the children
//! ```
//!
//! So a child is ended by its parent, or has seen that the parent is over. No two locks are held at once, and none
//! while a waiter is woken. The error becomes visible when `done` is disconnected. A second thread that ends the node
//! at the same time also disconnects `done` before it returns, so it sees the error as well.
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use super::ContextError;
use crate::channel::{Receiver, Sender, TryRecvError, bounded};
use crate::time::Timer;

pub(super) struct Node {
    done: Receiver<()>,
    /// `done` is disconnected when this is dropped.
    _open: Sender<()>,
    /// Weak: a user of a child context keeps the parent context anyway.
    parent: Weak<Node>,
    state: Mutex<State>,
}

struct State {
    error: Option<ContextError>,
    /// The children by their addresses. A child is removed when it is over.
    children: HashMap<usize, Weak<Node>>,
    timer: Option<Timer>,
}

fn address(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node).addr()
}

impl Node {
    /// Makes a node that ends with `parent`.
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

    /// Sets a timer that ends the node at `deadline`.
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
        // If the node is over already, the timer is dropped, after the lock is released.
        let unneeded = if state.error.is_none() { state.timer.replace(timer) } else { Some(timer) };
        drop(state);
        drop(unneeded);
    }

    /// Ends the node and its descendants with `error`, unless it is over already.
    pub(super) fn end(self: &Arc<Self>, error: ContextError) {
        if self.error().is_some() {
            return;
        }
        if let Some(parent) = self.parent.upgrade() {
            parent.state.lock().children.remove(&address(self));
        }
        // In a loop and not by recursion: a tree may be deeper than a stack.
        let mut ending = vec![Arc::clone(self)];
        while let Some(node) = ending.pop() {
            ending.extend(node.end_alone(error).into_values().filter_map(|child| child.upgrade()));
        }
    }

    /// Ends this node only. Returns the children that are still to be ended.
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
