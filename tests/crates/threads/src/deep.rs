//! Deep stacks, and one that is too deep.

use std::hint::black_box;
use std::thread;

const MIB: usize = 1 << 20;

/// Returns when the stack below `top` has taken `bytes`.
#[inline(never)]
fn recurse(top: usize, bytes: usize) -> usize {
    let frame = black_box([1_u8; 100]);
    if top - frame.as_ptr().addr() >= bytes { 0 } else { usize::from(frame[0]) + recurse(top, bytes) }
}

/// Uses `bytes` of the stack.
fn uses(bytes: usize) -> bool {
    let top = black_box([0_u8; 1]);
    recurse(top.as_ptr().addr(), bytes) > bytes / 10_000
}

/// Uses nearly the whole stacks of `main`, of a thread of the default size, and of large ones.
pub fn recurses() {
    println!("main: {}", uses(8 * MIB - 200_000));
    println!("default: {}", thread::spawn(|| uses(2 * MIB - 50_000)).join().unwrap());
    for mib in [3, 16, 200] {
        let builder = thread::Builder::new().stack_size(mib * MIB);
        println!("{mib} MiB: {}", builder.spawn(move || uses(mib * MIB - 50_000)).unwrap().join().unwrap());
    }
}

/// Overflows the stack of a thread with a name.
pub fn overflows() {
    let thread = thread::Builder::new().name("bottomless".into()).spawn(|| uses(usize::MAX)).unwrap();
    println!("{:?}", thread.join());
}
