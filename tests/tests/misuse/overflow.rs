//! Stack overflows: the report names the green thread, and the process ends. Other faults keep their usual
//! effect.

use std::process::Output;

use runtime::{spawn, thread};
use tests::child::{run, stderr, text};
use tests::{OnDrop, on};

/// Overflows any stack in small frames.
#[inline(never)]
fn endless(depth: u64) -> u64 {
    let block = std::hint::black_box([depth; 32]);
    if depth == u64::MAX { 0 } else { endless(depth + 1) + block[(depth % 32) as usize] }
}

/// Overflows in frames that are larger than the guard and touch only their far end.
#[inline(never)]
fn leaps(depth: u64) -> u64 {
    let block = std::hint::black_box([depth as u8; 20_000]);
    if depth == u64::MAX { 0 } else { leaps(depth + 1) + u64::from(block[19_999]) }
}

/// How a process dies.
#[derive(Clone, Copy)]
enum Death {
    Overflow,
    Fault,
}

impl Death {
    #[cfg(unix)]
    fn is_of(self, output: &Output) -> bool {
        use std::os::unix::process::ExitStatusExt;
        let signal = match self {
            Death::Overflow => libc::SIGABRT,
            Death::Fault => libc::SIGSEGV,
        };
        output.status.signal() == Some(signal)
    }

    /// The code is the exception that ended the process.
    #[cfg(windows)]
    fn is_of(self, output: &Output) -> bool {
        let exception: u32 = match self {
            Death::Overflow => 0xC000_00FD,
            Death::Fault => 0xC000_0005,
        };
        output.status.code() == Some(exception as i32)
    }
}

fn assert_dies_by(output: &Output, death: Death, says: &[&str]) {
    assert!(death.is_of(output), "{}: {}", output.status, text(output));
    let said = stderr(output);
    for words in says {
        assert!(said.contains(words), "{words:?} is not in {said:?}");
    }
}

#[test]
fn the_report_has_the_name_the_id_the_place_and_the_size() {
    run(
        "the_report_has_the_name_the_id_the_place_and_the_size",
        "",
        || {
            on(2, || {
                let named = thread::Builder::new().name("deep one".into());
                let deep = named
                    .spawn(|| {
                        eprintln!("I am {:?}", thread::current().id());
                        endless(0)
                    })
                    .unwrap();
                deep.join().unwrap();
            });
        },
        |output| {
            assert_dies_by(
                output,
                Death::Overflow,
                &["green thread 'deep one' (id ", "overflow.rs:", "has overflowed its stack", "KiB)"],
            );
            // The reported id is the id that the green thread has.
            let said = stderr(output);
            let id = said.split("ThreadId(").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
            assert!(said.contains(&format!("(id {id}, spawned at ")), "{said}");
        },
    );
}

#[test]
fn the_reported_size_is_that_of_the_stack() {
    for kib in [64, 512] {
        run(
            "the_reported_size_is_that_of_the_stack",
            &kib.to_string(),
            || {
                on(1, || {
                    let sized = thread::Builder::new().stack_size(kib << 10);
                    sized.spawn(|| endless(0)).unwrap().join().unwrap();
                });
            },
            |output| {
                assert_dies_by(output, Death::Overflow, &["green thread '<unnamed>'"]);
                let said = stderr(output);
                let told = said.split("stack (").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
                let told: usize = told.parse().unwrap();
                // With thread-locals of its own there is room for their destructors.
                let more = if tests::has_own_locals() { 64 } else { 32 };
                assert!((kib..kib + more).contains(&told), "{told} instead of {kib}");
            },
        );
    }
}

#[test]
fn the_overflow_of_a_future_is_reported_by_its_name() {
    run(
        "the_overflow_of_a_future_is_reported_by_its_name",
        "",
        || {
            on(2, || {
                let future = async {
                    runtime::time::sleep_async(std::time::Duration::from_millis(1)).await;
                    endless(0)
                };
                thread::Builder::new().name("deep future".into()).spawn(future).unwrap().join().unwrap();
            });
        },
        |output| {
            assert_dies_by(
                output,
                Death::Overflow,
                &["green thread 'deep future'", "has overflowed its stack"],
            );
        },
    );
}

#[test]
fn the_report_names_the_overflowing_thread_among_many() {
    run(
        "the_report_names_the_overflowing_thread_among_many",
        "",
        || {
            on(2, || {
                for i in 0..50 {
                    let name = format!("bystander {i}");
                    thread::Builder::new()
                        .name(name)
                        .spawn(|| {
                            loop {
                                thread::yield_now()
                            }
                        })
                        .unwrap();
                }
                let deep = thread::Builder::new().name("culprit".into());
                deep.spawn(|| {
                    (0..100).for_each(|_| thread::yield_now());
                    endless(0)
                })
                .unwrap()
                .join()
                .unwrap();
            });
        },
        |output| {
            assert_dies_by(output, Death::Overflow, &["green thread 'culprit'"]);
            assert!(!stderr(output).contains("bystander"));
        },
    );
}

#[test]
fn large_frames_do_not_skip_the_guard() {
    run(
        "large_frames_do_not_skip_the_guard",
        "",
        || {
            on(1, || drop(spawn(|| leaps(0)).join()));
        },
        |output| {
            assert_dies_by(output, Death::Overflow, &["has overflowed its stack"]);
        },
    );
}

#[test]
fn an_overflow_in_a_blocking_section_or_a_destructor_is_named() {
    run(
        "an_overflow_in_a_blocking_section_or_a_destructor_is_named",
        "blocking",
        || {
            on(1, || drop(spawn(|| runtime::blocking(|| endless(0))).join()));
        },
        |output| {
            assert_dies_by(
                output,
                Death::Overflow,
                &["green thread '<unnamed>'", "has overflowed its stack"],
            );
        },
    );
    run(
        "an_overflow_in_a_blocking_section_or_a_destructor_is_named",
        "destructor",
        || {
            on(1, || {
                let unwinds = || {
                    let _deep = OnDrop(|| assert_eq!(endless(0), 0));
                    std::panic::resume_unwind(Box::new(1))
                };
                drop(spawn(unwinds).join());
            });
        },
        |output| {
            assert_dies_by(
                output,
                Death::Overflow,
                &["green thread '<unnamed>'", "has overflowed its stack"],
            );
        },
    );
}

#[test]
fn a_null_write_in_a_green_thread_is_a_segmentation_fault() {
    run(
        "a_null_write_in_a_green_thread_is_a_segmentation_fault",
        "",
        || {
            on(2, || {
                let writes = spawn(|| {
                    let nowhere = std::hint::black_box(std::ptr::null_mut::<u32>());
                    // SAFETY: none. The write must kill this process.
                    unsafe { nowhere.write_volatile(1) };
                });
                writes.join().unwrap();
            });
        },
        |output| {
            assert_dies_by(output, Death::Fault, &[]);
            assert!(!stderr(output).contains("overflowed"), "{}", text(output));
        },
    );
}

#[test]
fn an_overflow_of_a_plain_thread_keeps_the_report_of_std() {
    run(
        "an_overflow_of_a_plain_thread_keeps_the_report_of_std",
        "",
        || {
            // The runtime is started, and its signal handler is installed.
            on(2, || spawn(|| ()).join().unwrap());
            runtime::block_on(|| ());
            let plain = std::thread::Builder::new().name("plain".into()).spawn(|| endless(0));
            plain.unwrap().join().unwrap();
        },
        |output| {
            assert_dies_by(output, Death::Overflow, &["thread 'plain'", "has overflowed its stack"]);
            assert!(!stderr(output).contains("green thread"), "{}", text(output));
        },
    );
}

#[test]
fn deep_recursion_within_the_stack_works_repeatedly() {
    #[inline(never)]
    fn deep(left: usize) -> usize {
        let block = std::hint::black_box([1u8; 512]);
        if left == 0 { 0 } else { deep(left - 1) + usize::from(block[left % 512]) }
    }
    on(2, || {
        for _ in 0..200 {
            // The recursion needs much less than 256 KiB, also in debug builds.
            assert_eq!(spawn(|| deep(100)).join().unwrap(), 100);
        }
    });
}
