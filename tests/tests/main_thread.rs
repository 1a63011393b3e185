//! Faults on the main thread, which a test harness keeps for itself: this one has none. They are what they always were.

#[cfg(unix)]
fn main() {
    use std::os::unix::process::ExitStatusExt;
    use tests::child::{run, stderr, text};

    #[inline(never)]
    fn endless(depth: u64) -> u64 {
        let block = std::hint::black_box([depth; 32]);
        if depth == u64::MAX { 0 } else { endless(depth + 1) + block[(depth % 32) as usize] }
    }

    // Of the default runtime and one of its own, idle and not.
    let with_runtimes = |fault: fn()| {
        move || {
            let runtime = runtime::Runtime::new().unwrap();
            runtime::block_on(|| runtime::spawn(|| ()).join().unwrap());
            runtime.spawn(|| {
                loop {
                    runtime::yield_now();
                }
            });
            fault();
        }
    };
    let overflow = || assert_ne!(endless(0), 1);
    run("main", "overflow", with_runtimes(overflow), |output| {
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", text(output));
        let said = stderr(output);
        assert!(said.contains("thread 'main'") && said.contains("has overflowed its stack"), "{said}");
        assert!(!said.contains("green thread"), "{said}");
    });
    let null = || {
        let nowhere = std::hint::black_box(std::ptr::null_mut::<u32>());
        // SAFETY: it is not; this process is to die of it.
        unsafe { nowhere.write_volatile(1) };
    };
    run("main", "null", with_runtimes(null), |output| {
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", text(output));
        assert!(!stderr(output).contains("overflowed"), "{}", text(output));
    });
    println!("main_thread: both faults are what they were");
}

#[cfg(not(unix))]
fn main() {}
