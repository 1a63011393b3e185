//! Hogs, green threads that kept their P until sysmon took it, and wake-ups that came late: what is noted of
//! them, and how the stack of a running green thread is copied. The reader of the notes is in
//! `runtime/inspect`.
//!
//! ```text
//!   sysmon, or the M that gives its P up       a plain OS thread of `runtime`            the M's thread
//!   take the P; count it (`notes/rescue.rs`)   wait for a note
//!   note: `HogNotes::note`                ───> ask the M of the hog, and signal it  ───> the handler copies
//!                                              unwind the copy, find the names,     <───  registers and stack
//!                                              call the user
//! ```
//!
//! Neither sysmon nor the handler allocates stacks, unwinds or runs code of the user. Notes are rare: one a
//! second for each spawn place. Other rescues are only counted.
//!
//! The handler copies only if the same green thread still runs without its P, on its own stack. The runtime
//! knows the bounds of that stack.
//!
//! A hog that is blocked in the kernel gets no signal, because that would interrupt its system call. The
//! kernel says where it is blocked, and copies its stack. Such a copy counts only if the OS thread stayed
//! blocked (`sys::BlockedAt`).
//!
//! A dump asks in the same way for the stacks of the green threads that run at that moment, or wait in place
//! (`look_at_running`).

#![allow(unsafe_code)]

use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::time::Duration;

use crate::g::GRef;
use crate::m::{M, MRef};
use crate::notes::capture::Capture;
use crate::notes::rescue::Rescue;
use crate::p::lease::Seen;
use crate::stack::saved::StackCopy;
use crate::sync::Mutex;
use crate::sys;
use crate::sys::preempt::{self, Registers};

/// What is noted.
pub enum Noted {
    /// A rescue, and where to find the green thread.
    Hog(Rescue, Hogging),
    /// A green thread that ran a long time after it could have.
    Late {
        /// Its id.
        id: u64,
        /// Its name, if it has one.
        name: Option<String>,
        /// Where it was spawned.
        place: Option<&'static Location<'static>>,
        /// How long it waited for a P after it was woken or spawned.
        late: Duration,
    },
}

/// Where a runtime leaves its notes (`Config::hogs`).
pub trait HogNotes: Send + Sync + UnwindSafe + RefUnwindSafe + fmt::Debug {
    /// Leaves a note, which `noted` makes. *Runs on: sysmon, or an M, inside the runtime: it returns at once
    /// and does not park.*
    fn note(&self, noted: &dyn Fn() -> Noted);
}

/// A green thread that runs without its P.
#[derive(Clone, Copy)]
pub struct Hogging {
    pub(crate) m: MRef,
    g: GRef,
    pub(crate) id: u64,
    /// The word by which it had lent its P, while it has not entered the runtime since. `None` for one that
    /// waits for a P in place.
    lent: Option<Seen>,
    /// True if a signal may interrupt it: no system call of the user's ends by that.
    pub(crate) computes: bool,
}

impl Hogging {
    pub(crate) fn new(m: &M, g: GRef, lent: Option<Seen>, computes: bool) -> Self {
        Hogging { m: MRef::new(m), g, id: g.id(), lent, computes }
    }

    /// Returns `true` if the green thread still runs as it did. *Runs on: any thread.*
    pub(crate) fn is_still_there(&self, m: &M) -> bool {
        let same = m.running().is_some_and(|g| ptr::eq(g, self.g) && g.id() == self.id);
        same && self.lent.is_none_or(|lent| m.lender.has_lent(lent))
    }
}

impl Hogging {
    /// Copies the stack of the green thread if its OS thread is blocked in the kernel. Returns `false` if it
    /// is not, or did not stay so.
    pub(crate) fn copy_blocked(&self, copy: &mut StackCopy) -> bool {
        // On Arm the link register is not known, which the innermost function may need.
        if cfg!(not(target_arch = "x86_64")) {
            return false;
        }
        let (m, tid) = (self.m.m(), self.m.m().tid());
        let Some(at) = sys::blocked_at(tid) else { return false };
        // While the thread is blocked, neither what it runs nor the stack changes.
        self.is_still_there(m) && copy.fill_blocked(self.g, at.pc, at.sp) && sys::blocked_at(tid) == Some(at)
    }
}

/// What the handler fills.
pub(crate) struct Copied {
    pub(crate) whose: Option<Hogging>,
    pub(crate) stack: StackCopy,
}

/// Requests for the stacks of the running green threads of one runtime, one at a time.
pub(crate) struct StackRequests {
    pub(crate) capture: Capture<Copied>,
    /// Held by the thread that asks for a capture.
    pub(crate) asking: Mutex<()>,
}

impl StackRequests {
    pub(crate) fn new() -> Self {
        let copied = Copied { whose: None, stack: StackCopy::empty() };
        StackRequests { capture: Capture::new(copied), asking: Mutex::default() }
    }

    /// Copies the stack of `m`'s green thread if the reader has asked for it. *Runs on: `m`, in the handler
    /// of the signal: it allocates nothing and takes no lock.*
    pub(crate) fn fill(&self, m: &M, registers: &Registers) {
        let filled = self.capture.fill(m.number, |copied| {
            let still = copied.whose.is_some_and(|whose| whose.is_still_there(m));
            // SAFETY: the green thread runs on this thread, which is interrupted and so uses neither the
            // stack nor the coroutine.
            still && m.running().is_some_and(|g| unsafe { copied.stack.fill_running(g.coro(), registers) })
        });
        if filled {
            self.capture.wake_reader(preempt::wake);
        }
    }
}
