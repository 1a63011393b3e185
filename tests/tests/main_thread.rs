//! Faults on the main thread, in a test without a harness: the runtime's handlers leave their effects unchanged.

#[cfg(unix)]
fn main() {
    use std::os::unix::process::ExitStatusExt;
    use tests::child::{run, stderr, text};

    #[inline(never)]
    fn endless(depth: u64) -> u64 {
        let block = std::hint::black_box([depth; 32]);
        if depth == u64::MAX { 0 } else { endless(depth + 1) + block[(depth % 32) as usize] }
    }

    // With the default runtime, which is idle, and a runtime with a busy green thread.
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
        // SAFETY: none. The write must kill this process.
        unsafe { nowhere.write_volatile(1) };
    };
    run("main", "null", with_runtimes(null), |output| {
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", text(output));
        assert!(!stderr(output).contains("overflowed"), "{}", text(output));
    });
    println!("main_thread: both faults have their usual effect");
}

#[cfg(not(unix))]
fn main() {}
