//! Context slots: what code keeps for "the running thread" in its OS thread follows the green thread.
//!
//! Some libraries keep a *context* in a variable of `std::thread_local!`: the current request, the entered
//! span, the locale. A green thread that parks leaves its OS thread, and other green threads run there. They
//! would see its context, and it would see theirs when it resumes. A [`Slot`] prevents that. It has a pair of
//! functions ([`ThreadContext`]) that take the context off the OS thread where the green thread leaves. They
//! put it back where the green thread goes on.
//!
//! ```
//! use runtime::context_slot::{Slot, ThreadContext};
//! use std::{cell::Cell, time::Duration};
//!
//! // A library that keeps the current request in its OS thread.
//! mod library {
//!     std::thread_local!(static REQUEST: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
//!     #[inline(never)]
//!     pub fn set_request(id: u32) -> u32 { REQUEST.replace(id) }
//!     #[inline(never)]
//!     pub fn request() -> u32 { REQUEST.get() }
//! }
//!
//! struct Request;
//!
//! impl ThreadContext for Request {
//!     type Saved = u32;
//!     fn save(&self) -> u32 { library::set_request(0) }
//!     fn restore(&self, id: u32) { library::set_request(id); }
//! }
//!
//! static REQUEST: Slot<Request> = Slot::new(Request);
//!
//! runtime::scope(|s| {
//!     for id in 1..100 {
//!         s.spawn(move || {
//!             REQUEST.attach();
//!             library::set_request(id);
//!             runtime::sleep(Duration::from_millis(1));
//!             assert_eq!(library::request(), id); // On whatever OS thread this is.
//!         });
//!     }
//! });
//! ```
//!
//! Code that can choose uses [`runtime::thread_local!`](macro@crate::thread_local) instead, whose values
//! belong to the green thread. Slots are for libraries that cannot be changed. The feature `tracing` of this
//! crate uses a slot for entered spans.
//!
//! Not to be confused with [`context`](crate::context), which has Go's contexts: deadlines and values that
//! are passed by hand.
//!
//! # When the functions run
//!
//! | what the green thread does | what runs |
//! | --- | --- |
//! | it [parks](crate::docs::moving#calls-that-park) or yields, also if it then stays on its OS thread ([strict](crate::Migration::BeforeStart), polls) | `save`, then `restore` when it goes on |
//! | it is a future, and a poll is over | `save`, and `restore` before the next poll |
//! | it ends, also by a panic or a cancellation | `save`, after its captures and thread-local values are dropped and before a join returns; what was saved is dropped |
//! | it begins with an inherited context | `restore` before its first line |
//! | it parks while it is [pinned](crate::thread::pin), or a closure parks while it unwinds | nothing, unless other green threads must run on that OS thread meanwhile |
//! | it computes, it is in [`blocking`](crate::blocking()) | nothing: it keeps its OS thread |
//! | it is a plain OS thread | nothing |
//!
//! With several slots, the one that was attached last is saved first, and restored last.
//!
//! # What the functions may do
//!
//! In `save`, `restore` and `inherit` the caller counts as a plain OS thread. They may call any function.
//! What waits there blocks the OS thread, and other green threads go on after 10 ms at most (see
//! [blocking](crate::docs::blocking)). No cancellation and no time-out ends such a wait.
//! [`thread::current`](crate::thread::current) is the OS thread. Attaching and detaching do nothing.
//!
//! A panic in one of them is reported by the panic hook and goes no further. The slot then keeps no context:
//! the green thread goes on with what `restore` has left, or without a context if `save` panicked.
//!
//! # What it costs
//!
//! A green thread without slots pays nothing. One with slots pays for the functions and for about 100 ns each
//! time it parks.

use std::fmt;

use sched::contexts;

/// A kind of context that code keeps in its OS thread: how to take it off, and how to put it back.
///
/// [Example and rules](crate::context_slot).
pub trait ThreadContext: Sync + 'static {
    /// What is kept while the green thread has no OS thread.
    type Saved: Send + 'static;

    /// Takes the calling OS thread's context off and returns it. Leaves the OS thread as one that has no
    /// context.
    fn save(&self) -> Self::Saved;

    /// Puts a context that `save` or `inherit` has returned onto the calling OS thread, which has none.
    fn restore(&self, saved: Self::Saved);

    /// Returns the context with which a green thread begins that the caller spawns now, or `None` if it
    /// begins without. The caller's context is on the OS thread, and stays there. By default children inherit
    /// nothing.
    ///
    /// It is called where the slot is attached to the thread that spawns, green or plain. The slot is then
    /// attached to the child. Functions of timers ([`after_func`](crate::time::after_func)) and foreign
    /// wakers inherit nothing.
    fn inherit(&self) -> Option<Self::Saved> {
        None
    }
}

/// A slot for one kind of context, in a `static`. [Example](crate::context_slot).
///
/// Two slots with the same kind of context are two slots: each saves and restores.
pub struct Slot<C> {
    context: C,
    // Not a zero-sized type, so that no two slots have the same address.
    _not_empty: u8,
}

impl<C: ThreadContext> Slot<C> {
    /// Makes a slot.
    ///
    /// ```
    /// # use runtime::context_slot::{Slot, ThreadContext};
    /// # struct Locale;
    /// # impl ThreadContext for Locale { type Saved = (); fn save(&self) {} fn restore(&self, (): ()) {} }
    /// static LOCALE: Slot<Locale> = Slot::new(Locale);
    /// ```
    pub const fn new(context: C) -> Self {
        Slot { context, _not_empty: 0 }
    }

    /// Makes the context of this kind follow the calling green thread from now on, until its end or
    /// [`detach`](Self::detach).
    ///
    /// Call it when the green thread's context begins. A context that is on the OS thread already counts as
    /// the caller's. A second call does nothing. On a plain OS thread it only makes the threads that the
    /// caller spawns [inherit](ThreadContext::inherit).
    ///
    /// ```
    /// # use runtime::context_slot::{Slot, ThreadContext};
    /// # struct Locale;
    /// # impl ThreadContext for Locale { type Saved = (); fn save(&self) {} fn restore(&self, (): ()) {} }
    /// # static LOCALE: Slot<Locale> = Slot::new(Locale);
    /// runtime::block_on(|| {
    ///     LOCALE.attach();
    ///     assert!(LOCALE.is_attached());
    ///     runtime::spawn(|| assert!(!LOCALE.is_attached())).join().unwrap();
    /// });
    /// ```
    pub fn attach(&'static self) {
        contexts::attach(self);
    }

    /// Makes the context of this kind follow the calling green thread no more. A green thread without slots
    /// parks at full speed.
    ///
    /// Call it when the context has been taken off the OS thread: what is there stays there. A second call
    /// does nothing.
    ///
    /// ```
    /// # use runtime::context_slot::{Slot, ThreadContext};
    /// # struct Locale;
    /// # impl ThreadContext for Locale { type Saved = (); fn save(&self) {} fn restore(&self, (): ()) {} }
    /// # static LOCALE: Slot<Locale> = Slot::new(Locale);
    /// LOCALE.attach();
    /// LOCALE.detach();
    /// assert!(!LOCALE.is_attached());
    /// ```
    pub fn detach(&'static self) {
        contexts::detach(self);
    }

    /// Returns `true` if the context of this kind follows the calling thread. Example at
    /// [`attach`](Self::attach).
    pub fn is_attached(&'static self) -> bool {
        contexts::is_attached(self)
    }

    /// Attaches the slot to every green thread that is spawned from now on, in every runtime of the process.
    /// This cannot be undone.
    ///
    /// It is for contexts that begin without a call at which [`attach`](Self::attach) could stand. All green
    /// threads then pay for the slot whenever they park. Plain OS threads have the slot too, for
    /// [inheritance](ThreadContext::inherit).
    ///
    /// ```
    /// # use runtime::context_slot::{Slot, ThreadContext};
    /// # struct Locale;
    /// # impl ThreadContext for Locale { type Saved = (); fn save(&self) {} fn restore(&self, (): ()) {} }
    /// # static LOCALE: Slot<Locale> = Slot::new(Locale);
    /// LOCALE.attach_to_all();
    /// runtime::block_on(|| assert!(LOCALE.is_attached()));
    /// ```
    pub fn attach_to_all(&'static self) {
        contexts::attach_to_all(self);
    }
}

impl<C> fmt::Debug for Slot<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl<C: ThreadContext> contexts::Slot for Slot<C> {
    fn carrier(&'static self) -> Box<dyn contexts::Carrier> {
        Box::new(Carrier { context: &self.context, saved: None })
    }
}

/// Keeps the context of one green thread.
struct Carrier<C: ThreadContext> {
    context: &'static C,
    saved: Option<C::Saved>,
}

impl<C: ThreadContext> contexts::Carrier for Carrier<C> {
    fn save(&mut self) {
        self.saved = Some(self.context.save());
    }

    fn restore(&mut self) {
        if let Some(saved) = self.saved.take() {
            self.context.restore(saved);
        }
    }

    fn inherit(&self) -> Option<Box<dyn contexts::Carrier>> {
        let saved = Some(self.context.inherit()?);
        Some(Box::new(Carrier { context: self.context, saved }))
    }
}
