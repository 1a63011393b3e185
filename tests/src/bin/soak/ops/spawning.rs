//! Spawning and joining, in all forms.

use std::io::ErrorKind;

use runtime::thread;

use crate::actor::{Actor, Child};

pub(super) fn yields(a: &mut Actor) {
    (0..a.number(1..6)).for_each(|_| thread::yield_now());
}

pub(super) fn spawn_and_join(a: &mut Actor) {
    let value = a.random.number();
    let child = a.spawn(move |b| {
        b.anything();
        value
    });
    if a.one_in(2) {
        a.anything();
    }
    if a.one_in(8) {
        while !child.handle().is_finished() {
            thread::yield_now();
        }
        // A cancellation after the end has no effect.
        child.cancel();
    }
    let got = if a.one_in(3) { a.block_on(child.awaited()) } else { child.value() };
    assert_eq!(got, value);
}

/// A tree of green threads that counts its leaves.
pub(super) fn tree(a: &mut Actor) {
    let depth = a.number(1..5) as u32;
    assert_eq!(grow(a, depth), 2u64.pow(depth));
}

fn grow(a: &mut Actor, depth: u32) -> u64 {
    if depth == 0 || !a.may_grow() && a.one_in(4) {
        if a.may_grow() && a.one_in(4) {
            a.anything();
        }
        return 2u64.pow(depth);
    }
    let children: [Child<u64>; 2] = std::array::from_fn(|_| a.spawn(move |b| grow(b, depth - 1)));
    children.map(|child| child.value()).into_iter().sum()
}

/// A spawned thread that is never joined.
pub(super) fn detach(a: &mut Actor) {
    let child = a.spawn(|b| {
        b.pause();
        b.anything();
    });
    child.detach();
}

/// Many short threads, joined in random order.
pub(super) fn burst(a: &mut Actor) {
    let number = a.number(20..400);
    let mut children: Vec<_> = (0..number)
        .map(|i| {
            a.spawn(move |b| {
                if i % 3 == 0 {
                    b.pause();
                }
                i
            })
        })
        .collect();
    let mut sum = 0;
    while !children.is_empty() {
        let next = a.random.below(children.len() as u64) as usize;
        sum += children.swap_remove(next).value();
    }
    assert_eq!(sum, number * (number - 1) / 2);
}

pub(super) fn named(a: &mut Actor) {
    let name = format!("soak-{}", a.random.below(1000));
    let child = a.spawn_with(thread::Builder::new().name(name.clone()), |b| {
        b.pause();
        thread::current().name().map(str::to_string)
    });
    let child = child.expect("a green thread");
    assert_eq!(child.handle().thread().name(), Some(&*name));
    assert_eq!(child.value().as_deref(), Some(&*name));
}

/// Stacks of a few unusual sizes. Each size has its own pool, so the sizes are few.
pub(super) fn odd_stack(a: &mut Actor) {
    const SIZES: [usize; 5] = [96 * 1024, 100_001, 1 << 20, 3 << 20, 64 << 20];
    let bytes = SIZES[a.random.below(5) as usize];
    let child = a.spawn_with(thread::Builder::new().stack_size(bytes), move |b| {
        b.pause();
        dig(if bytes >= 1 << 20 { 200 } else { 8 })
    });
    assert_eq!(child.expect("a stack").value(), if bytes >= 1 << 20 { 200 } else { 8 });
}

/// Recurses `steps` deep with more than a KiB of stack each, and yields at the bottom.
fn dig(steps: u64) -> u64 {
    let hole = std::hint::black_box([steps as u8; 1024]);
    if steps == 0 {
        thread::yield_now();
        return u64::from(hole[511]);
    }
    let below = dig(steps - 1);
    assert!(std::hint::black_box(&hole).iter().all(|&byte| byte == steps as u8), "the frame is unchanged");
    below + 1
}

pub(super) fn impossible_stack(a: &mut Actor) {
    // A refused spawn by a plain thread counts as spawned and ended in the default runtime; the actor makes
    // the soak count it too.
    let _counts = (!a.green).then(|| a.offspring());
    let bytes = [0, 1, usize::MAX, usize::MAX >> 23][a.random.below(4) as usize];
    let error = thread::Builder::new().stack_size(bytes).spawn(|| ()).expect_err("the size is refused");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

/// Spawns or blocks in another runtime.
pub(super) fn elsewhere(a: &mut Actor) {
    let sites = [a.world.home.clone(), a.world.default.clone()];
    let site = &sites[a.random.below(2) as usize];
    if a.one_in(2) {
        let value = a.random.number();
        let got = a.block_on_at(site, |b| {
            b.anything();
            value
        });
        assert_eq!(got, value);
    } else {
        a.spawn_on(site, |b| b.anything()).value();
    }
}
