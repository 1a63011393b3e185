//! The memory behind an `AfterFunc`: one allocation with timer, counts and function, so one word in a heap
//! entry is enough. `User` is a counted right to call the function. The last user drops the function, outside
//! the runtime; the last owner frees the memory (`timer/refcount.rs`).
//!
//! The users are the handle (`api/after_func.rs`) and each run of the function. A heap entry is an owner of
//! the memory only: it may stay in its heap long after the timer was stopped. An M drops the entry, where no
//! user code may run.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr::NonNull;

use timers::Timer;

use crate::choices::simulation;
use crate::g::mask::Mask;
use crate::m::current::current_g;
use crate::m::os_thread;
use crate::sys::catch_panic::contain;
use crate::timer::refcount::Keepers;

/// The part without the function's type; the function follows it in memory.
#[repr(C)]
pub(crate) struct Head {
    pub(crate) timer: Timer,
    keepers: Keepers,
    /// The node of a simulation on which the handle was made. The function runs there.
    node: u32,
    /// Where the handle was made. Dumps show it as the place of the runs' green threads.
    place: &'static Location<'static>,
    kind: &'static Kind,
}

/// The whole allocation, with a function of type `F`.
#[repr(C)]
struct Whole<F> {
    head: Head,
    /// Valid until the last user has left.
    function: ManuallyDrop<F>,
}

/// What depends on the function's type.
struct Kind {
    /// Calls the function. The caller is a user.
    call: unsafe fn(NonNull<Head>),
    /// Drops the function, if that does anything. The caller was the last user.
    drop: Option<unsafe fn(NonNull<Head>)>,
    /// Frees the memory. The caller was the last owner.
    free: unsafe fn(NonNull<Head>),
}

struct KindOf<F>(PhantomData<F>);

impl<F: Fn() + Send + Sync + 'static> KindOf<F> {
    const KIND: Kind = Kind { call: Self::call, drop: Self::DROP, free: Self::free };
    const DROP: Option<unsafe fn(NonNull<Head>)> =
        if std::mem::needs_drop::<F>() { Some(Self::drop) } else { None };

    unsafe fn call(head: NonNull<Head>) {
        // SAFETY: `User::new` made a `Whole<F>`, of which `Head` is the first field. The caller is a user, so
        // the function is valid.
        let whole = unsafe { head.cast::<Whole<F>>().as_ref() };
        (whole.function)();
    }

    unsafe fn drop(head: NonNull<Head>) {
        // SAFETY: `User::new` made a `Whole<F>`, of which `Head` is the first field. The last user has left,
        // so no thread uses the function any more.
        unsafe { ManuallyDrop::drop(&mut (*head.cast::<Whole<F>>().as_ptr()).function) };
    }

    unsafe fn free(head: NonNull<Head>) {
        // SAFETY: `User::new` made the memory from a `Box<Whole<F>>`, and no owner is left. `ManuallyDrop`
        // does not drop the function again.
        drop(unsafe { Box::from_raw(head.cast::<Whole<F>>().as_ptr()) });
    }
}

/// Adds an owner of the memory, such as a heap entry.
pub(crate) fn retain(head: &Head) {
    head.keepers.retain();
}

/// Removes an owner of the memory, and frees the memory if it was the last.
///
/// # Safety
/// The caller is an owner, and does not use the memory any more.
pub(crate) unsafe fn release(head: NonNull<Head>) {
    // SAFETY: the caller is an owner until `release`, by this function's contract.
    let this = unsafe { head.as_ref() };
    let free = this.kind.free;
    if this.keepers.release() {
        // SAFETY: that was the last owner, so no thread uses the memory any more.
        unsafe { free(head) };
    }
}

/// Returns the node of the caller; 0 while there is no simulation.
fn node_of_caller() -> u32 {
    if simulation::is_anywhere() { simulation::node() } else { 0 }
}

/// A user: it may call the function.
pub(crate) struct User(NonNull<Head>);

// SAFETY: the counts are atomic, and the function is `Send + Sync`.
unsafe impl Send for User {}
// SAFETY: the counts are atomic, and the function is `Send + Sync`.
unsafe impl Sync for User {}

impl User {
    /// Allocates a timer with its function. Returns the first user. The count has one more owner, for the
    /// heap entry that the caller makes.
    pub(crate) fn new<F: Fn() + Send + Sync + 'static>(
        function: F,
        place: &'static Location<'static>,
    ) -> User {
        let whole = Box::new(Whole {
            head: Head {
                timer: Timer::new(),
                // One other owner: the heap entry that the caller makes.
                keepers: Keepers::new(1),
                node: node_of_caller(),
                place,
                kind: &KindOf::<F>::KIND,
            },
            function: ManuallyDrop::new(function),
        });
        User(NonNull::from(Box::leak(whole)).cast::<Head>())
    }

    /// Returns the word for a heap entry. The entry must count as an owner or be borrowed
    /// (`TimerRef::borrow_func`).
    pub(crate) fn head_ptr(&self) -> NonNull<Head> {
        self.0
    }

    /// Returns the timer.
    pub(crate) fn timer(&self) -> &Timer {
        &self.head().timer
    }

    /// Returns where the handle was made.
    pub(crate) fn place(&self) -> &'static Location<'static> {
        self.head().place
    }

    /// Returns the node of a simulation on which the handle was made.
    pub(crate) fn node(&self) -> u32 {
        self.head().node
    }

    fn head(&self) -> &Head {
        // SAFETY: the users count as an owner, so the memory is alive.
        unsafe { self.0.as_ref() }
    }

    /// Takes over a user that `count_run` has counted.
    ///
    /// # Safety
    /// The caller is an owner, and takes each counted user over once.
    pub(crate) unsafe fn of_run(head: NonNull<Head>) -> User {
        User(head)
    }

    /// Calls the function.
    pub(crate) fn call(self) {
        // SAFETY: `self` is a user, so the function is valid.
        unsafe { (self.head().kind.call)(self.0) };
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if !self.head().keepers.leave() {
            return;
        }
        if let Some(drop) = self.head().kind.drop {
            // The user may be the handle or a run: which of them is the last is decided by a race. So the
            // destructor may neither panic in its thread nor be cancelled with it.
            let _mask = current_g().or_else(os_thread::proxy_g_if_any).map(Mask::begin);
            // SAFETY: `leave` returned `true`, so this was the last user.
            contain(|| unsafe { drop(self.0) });
        }
        // SAFETY: all users have left, and counted as one owner, which this is.
        unsafe { release(self.0) };
    }
}

/// Counts a user for the run of a timer that is being taken out of its heap. *Runs on: the holder of the
/// heap's lock, while the timer is Running.* The handle is still a user then: it stops its timer before it
/// leaves.
pub(crate) fn count_run(head: &Head) {
    head.keepers.join();
}
