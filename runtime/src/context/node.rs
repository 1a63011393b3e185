//! `Node`: the part of a context that can be ended, with its timer and its children.
//!
//! ```text
//!   a node ends                                 a child is made
//!   lock the parent: remove the node            lock the parent
//!   lock the node: set the error if it has      the parent is over? end the child, after the lock
//!     none; take its children and its timer     else add the child
//!   unlock; disconnect `done`                   unlock
//!   end the children; call the functions
//! ```
//!
//! So a child is ended by its parent, or has seen that the parent is over. No two locks are held at once, and
//! none while a waiter is woken. The error becomes visible when `done` is disconnected. A second thread that
//! ends the node at the same time also disconnects `done` before it returns, so it sees the error as well.
use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Weak};
use std::time::Instant;

use sched::sync::Mutex;
use slab::Slab;

use super::ContextError;
use crate::channel::{Receiver, Sender, TryRecvError, bounded};
use crate::time::Timer;

pub(super) struct Node {
    done: Receiver<()>,
    /// `done` is disconnected when this is dropped.
    _open: Sender<()>,
    /// Weak: a user of a child context keeps the parent context anyway.
    parent: Weak<Node>,
    state: Mutex<NodeState>,
}

/// Why a node has ended.
#[derive(Clone)]
pub(super) struct End {
    pub(super) error: ContextError,
    pub(super) cause: Option<Cause>,
}

/// The cause that the user gave.
pub(super) type Cause = Arc<dyn Error + Send + Sync>;

impl End {
    /// Returns the cause: the user's, else the error.
    pub(super) fn into_cause(self) -> Cause {
        self.cause.unwrap_or_else(|| Arc::new(self.error))
    }
}

impl From<ContextError> for End {
    fn from(error: ContextError) -> Self {
        End { error, cause: None }
    }
}

/// What the end of a node calls, on the thread that ends the node, after all descendants have ended. It does
/// not panic.
type AtEnd = Box<dyn FnOnce() + Send>;

struct NodeState {
    end: Option<End>,
    functions: Slab<AtEnd>,
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
        let state = NodeState { end: None, functions: Slab::new(), children: HashMap::new(), timer: None };
        let node = Arc::new(Node {
            done,
            _open: open,
            parent: parent.map_or_else(Weak::new, Arc::downgrade),
            state: Mutex::new(state),
        });
        if let Some(end) = parent.and_then(|parent| parent.adopt(&node).err()) {
            node.end(end);
        }
        node
    }

    fn adopt(&self, child: &Arc<Node>) -> Result<(), End> {
        let mut state = self.state.lock();
        match &state.end {
            Some(end) => Err(end.clone()),
            None => {
                state.children.insert(address(child), Arc::downgrade(child));
                Ok(())
            }
        }
    }

    pub(super) fn done(&self) -> &Receiver<()> {
        &self.done
    }

    /// Returns why the node has ended, or `None` if it has not.
    pub(super) fn ended(&self) -> Option<End> {
        let end = self.state.lock().end.clone();
        end.filter(|_| self.done.try_recv() == Err(TryRecvError::Disconnected))
    }

    /// Returns why the node has ended. *Runs on: a function of the node, or after `at_end` has returned an
    /// error.*
    pub(super) fn end_of_ended(&self) -> End {
        self.state.lock().end.clone().expect("the node has ended")
    }

    /// Sets a timer that ends the node at `deadline`, with the cause `cause`.
    #[track_caller]
    pub(super) fn end_at(self: &Arc<Self>, deadline: Instant, cause: Option<Cause>) {
        let end = End { error: ContextError::DeadlineExceeded, cause };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return self.end(end);
        }
        let node = Arc::downgrade(self);
        let timer = Timer::after_func(left, move || {
            if let Some(node) = node.upgrade() {
                node.end(end.clone());
            }
        });
        let mut state = self.state.lock();
        // If the node is over already, the timer is dropped, after the lock is released.
        let unneeded = if state.end.is_none() { state.timer.replace(timer) } else { Some(timer) };
        drop(state);
        drop(unneeded);
    }

    /// Lets the end of the node call `function`, and returns the key for `forget`. If the node has ended,
    /// returns `function`.
    pub(super) fn at_end<F: FnOnce() + Send + 'static>(&self, function: F) -> Result<usize, F> {
        let mut state = self.state.lock();
        if state.end.is_some() {
            drop(state);
            // Another thread may be about to do this. Then `ended` returns the end, here and from now on.
            self.done.disconnect();
            return Err(function);
        }
        Ok(state.functions.insert(Box::new(function)))
    }

    /// Takes the function of `key` out. Returns `None` if the end of the node has taken it. The caller
    /// forgets each key once.
    pub(super) fn forget(&self, key: usize) -> Option<AtEnd> {
        self.state.lock().functions.try_remove(key)
    }

    /// Ends the node and its descendants, unless it is over already.
    pub(super) fn end(self: &Arc<Self>, end: impl Into<End>) {
        if self.ended().is_some() {
            return;
        }
        if let Some(parent) = self.parent.upgrade() {
            parent.state.lock().children.remove(&address(self));
        }
        let (end, mut functions) = (end.into(), Vec::new());
        // In a loop and not by recursion: a tree may be deeper than a stack.
        let mut ending = vec![Arc::clone(self)];
        while let Some(node) = ending.pop() {
            let children = node.end_alone(end.clone(), &mut functions);
            ending.extend(children.into_values().filter_map(|child| child.upgrade()));
        }
        functions.into_iter().for_each(|function| function());
    }

    /// Ends this node only, and adds its functions to `functions`. Returns the children that are still to be
    /// ended.
    fn end_alone(&self, end: End, functions: &mut Vec<AtEnd>) -> HashMap<usize, Weak<Node>> {
        let mut state = self.state.lock();
        state.end.get_or_insert(end);
        let (children, timer) = (std::mem::take(&mut state.children), state.timer.take());
        let own = std::mem::take(&mut state.functions);
        drop(state);
        self.done.disconnect();
        drop(timer);
        functions.extend(own.into_iter().map(|(_, function)| function));
        children
    }
}
