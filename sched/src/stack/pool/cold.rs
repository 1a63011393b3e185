//! The cold stacks of a pool: they gave their pages back to the system, and later their page tables.
//!
//! They lie in *bundles*, each on a page of one of its stacks. So making stacks cold allocates nothing.

use std::mem::{self, MaybeUninit};
use std::ptr;
use std::slice;

use crate::stack::Stack;

/// How many stacks fit into a bundle, which lies on one page of one of them.
pub(super) const BUNDLED: usize = (4096 - 64) / size_of::<Stack>();

/// A list of stacks that gave their pages back to the system. It lies on a page of another idle stack, so
/// making stacks cold allocates nothing.
pub(super) struct Bundle {
    next: *mut Bundle,
    /// The stack on which the bundle itself lies. Its lower pages went back to the system too.
    own: Option<Stack>,
    stage: Stage,
    /// How many of the stacks, from the first, may have no guard.
    bare: usize,
    len: usize,
    stacks: [MaybeUninit<Stack>; BUNDLED],
}

impl Bundle {
    /// Makes an empty bundle on `stack`. The content of the stack is lost.
    fn on(stack: Stack) -> *mut Bundle {
        const { assert!(size_of::<Bundle>() <= 4096) };
        let (place, own) = stack.reserve_top(size_of::<Bundle>());
        let place = place.cast::<Bundle>().as_ptr();
        // SAFETY: `reserve_top` kept these bytes, aligned to 16, for this bundle alone.
        unsafe {
            (&raw mut (*place).next).write(ptr::null_mut());
            (&raw mut (*place).own).write(Some(own));
            (&raw mut (*place).stage).write(Stage::Cold);
            (&raw mut (*place).bare).write(0);
            (&raw mut (*place).len).write(0);
        }
        place
    }

    fn push(&mut self, stack: Stack) {
        self.stacks[self.len].write(stack);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<ColdStack> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the first `len` entries are initialised (`push`); the shorter `len` gives this entry away.
        let stack = unsafe { self.stacks[self.len].assume_init_read() };
        Some(ColdStack { stack, is_bare: self.len < self.bare })
    }

    fn stacks_mut(&mut self) -> &mut [Stack] {
        // SAFETY: the first `len` entries are initialised (`push`), and `MaybeUninit<Stack>` has the layout
        // of `Stack`.
        unsafe { slice::from_raw_parts_mut(self.stacks.as_mut_ptr().cast(), self.len) }
    }
}

/// What the stacks of a bundle have given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Their pages.
    Cold,
    /// As above; and neighbours lie side by side.
    Sorted,
    /// Their page tables, too.
    Bare,
}

const STAGES: usize = 3;

/// Stacks of this many bundles are sorted together. Stacks that Ps have used by turns end up in bundles by
/// turns, so the neighbours of a stack are in other bundles.
pub(super) const SORTED_TOGETHER: usize = 32;

/// A stack without its pages.
pub(super) struct ColdStack {
    pub(super) stack: Stack,
    /// True if it may have no guard.
    pub(super) is_bare: bool,
}

/// The cold stacks of a pool. *Under its lock.*
pub(super) struct Cold {
    /// A list for each `Stage`. The stacks of the first sorted bundle may be bare in part.
    bundles: [*mut Bundle; STAGES],
    /// How many stacks these lists have.
    len: usize,
}

// SAFETY: a bundle is reached only through its list, and the list only under the lock of the pool. No thread
// runs on the stacks of a bundle.
unsafe impl Send for Cold {}

impl Cold {
    pub(super) const fn new() -> Cold {
        Cold { bundles: [ptr::null_mut(); STAGES], len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn keep(&mut self, cooled: Cooled) {
        if !cooled.bundle.is_null() {
            self.len += cooled.len;
        }
        cooled.each(|bundle| bundle.next = mem::replace(&mut self.bundles[bundle.stage as usize], bundle));
    }

    /// Takes a stack, one that has its guard if there is any.
    pub(super) fn pop(&mut self) -> Option<ColdStack> {
        let list = self.bundles.iter_mut().find(|list| !list.is_null())?;
        // SAFETY: the list alone owns a bundle that lies in it, and the bundle's stack stays mapped while its
        // pool lives.
        let bundle = unsafe { list.as_mut()? };
        debug_assert!(self.len > bundle.len, "fewer cold stacks are counted than one bundle has");
        self.len -= 1;
        bundle.pop().or_else(|| {
            *list = bundle.next;
            bundle.own.take().map(|stack| ColdStack { stack, is_bare: false })
        })
    }

    /// Returns `true` if there are stacks that are not bare.
    pub(super) fn has_guarded(&self) -> bool {
        !self.bundles[Stage::Cold as usize].is_null() || !self.bundles[Stage::Sorted as usize].is_null()
    }

    /// Takes up to `most` bundles of a stage. Returns `None` if there are none.
    pub(super) fn take(&mut self, stage: Stage, most: usize) -> Option<Cooled> {
        let list = &mut self.bundles[stage as usize];
        let mut taken = Cooled { bundle: *list, len: 0 };
        let mut last = ptr::null_mut();
        for _ in 0..most {
            // SAFETY: as in `pop`.
            let Some(bundle) = (unsafe { list.as_mut() }) else { break };
            taken.len += bundle.len + 1;
            last = *list;
            *list = bundle.next;
        }
        // SAFETY: as above; the bundle was taken out of the list.
        unsafe { last.as_mut()? }.next = ptr::null_mut();
        self.len -= taken.len;
        Some(taken)
    }
}

/// Bundles that lie in no list of a pool but are linked to each other, and the number of their stacks, those
/// under the bundles included. There is no bundle if the stacks have ended, with their memory.
pub(super) struct Cooled {
    bundle: *mut Bundle,
    len: usize,
}

impl Cooled {
    /// `len` stacks that have ended.
    pub(super) fn ended(len: usize) -> Cooled {
        Cooled { bundle: ptr::null_mut(), len }
    }

    /// Makes a bundle on the stack `own`, of all that `next` returns. The content of the stacks is lost.
    pub(super) fn of(own: Stack, next: impl FnMut() -> Option<Stack>) -> Cooled {
        let place = Bundle::on(own);
        // SAFETY: only this thread knows the new bundle.
        let bundle = unsafe { &mut *place };
        std::iter::from_fn(next).for_each(|stack| bundle.push(stack));
        Cooled { bundle: place, len: bundle.len + 1 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn each(&self, mut work: impl FnMut(&mut Bundle)) {
        let mut next = self.bundle;
        // SAFETY: the bundles lie on idle stacks that this value alone has.
        while let Some(bundle) = unsafe { next.as_mut() } {
            next = bundle.next;
            work(bundle);
        }
    }

    /// Gives the pages of all stacks back by `release`.
    pub(super) fn release_pages(&self, release: impl Fn(&mut [Stack])) {
        self.each(|bundle| {
            release(bundle.stacks_mut());
            release(bundle.own.as_mut_slice());
        });
    }

    /// Gives some page tables back by `release`, which gets the stacks of a sorted bundle and how many of
    /// them are bare already, and returns how many are bare then.
    pub(super) fn release_tables(&self, release: impl Fn(&mut [Stack], usize) -> usize) {
        self.each(|bundle| {
            let from = bundle.bare;
            // The last stacks may have been taken.
            if from < bundle.len {
                bundle.bare = release(bundle.stacks_mut(), from);
            }
            if bundle.bare >= bundle.len {
                bundle.stage = Stage::Bare;
            }
        });
    }

    /// Sorts the stacks of all bundles together. Without memory for that, each bundle stays as it is.
    pub(super) fn sort(&mut self) {
        let mut all = Vec::new();
        if all.try_reserve_exact(self.len).is_ok() {
            self.each(|bundle| all.extend(std::iter::from_fn(|| Some(bundle.pop()?.stack))));
            all.sort_unstable_by_key(Stack::limit);
        }
        let mut sorted = all.into_iter();
        self.each(|bundle| {
            sorted.by_ref().take(BUNDLED).for_each(|stack| bundle.push(stack));
            bundle.stage = Stage::Sorted;
        });
    }
}
