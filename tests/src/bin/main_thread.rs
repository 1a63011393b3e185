//! Faults on the main thread, with the default runtime, which is idle, and a runtime with a busy green
//! thread. Programs for `tests/misuse/main_thread.rs`.
//!
//! `main_thread CASE` runs a case. The fault of the case ends the process.

#[inline(never)]
fn endless(depth: u64) -> u64 {
    let block = std::hint::black_box([depth; 32]);
    if depth == u64::MAX { 0 } else { endless(depth + 1) + block[(depth % 32) as usize] }
}

fn overflow() {
    start_runtimes();
    assert_ne!(endless(0), 1);
}

fn null() {
    start_runtimes();
    let nowhere = std::hint::black_box(std::ptr::null_mut::<u32>());
    // SAFETY: none. The write must kill this process.
    unsafe { nowhere.write_volatile(1) };
}

fn start_runtimes() {
    let runtime = runtime::Runtime::new().unwrap();
    runtime::block_on(|| runtime::spawn(|| ()).join().unwrap());
    runtime.spawn(|| {
        loop {
            runtime::yield_now();
        }
    });
    std::mem::forget(runtime);
}

fn main() {
    #[cfg(unix)]
    tests::system::no_core_dump();
    tests::child::run_case(&[("overflow", overflow), ("null", null)]);
}
