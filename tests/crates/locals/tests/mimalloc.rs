//! An allocator with a store for each thread, wrapped: green threads use the stores of the OS threads.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

use locals::{in_many, on_all, park};
use runtime::alloc::OfOsThread;

#[global_allocator]
static ALLOCATOR: OfOsThread<mimalloc::MiMalloc> = OfOsThread::new(mimalloc::MiMalloc);

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn green_threads_share_the_stores_of_os_threads() {
    on_all(|| in_many(100, park));
    let before = resident_bytes();
    on_all(|| {
        let (parked, over) = runtime::channel::bounded::<()>(0);
        let all: Vec<_> = (0..1_000)
            .map(|number| {
                let over = over.clone();
                runtime::spawn(move || {
                    let texts: Vec<String> = (0..20).map(|n| format!("{number} {n}")).collect();
                    park(number);
                    let _ = over.recv();
                    for (n, text) in texts.into_iter().enumerate() {
                        assert_eq!(text, format!("{number} {n}"));
                    }
                })
            })
            .collect();
        runtime::sleep(std::time::Duration::from_millis(50));
        let more = resident_bytes().saturating_sub(before) / 1_000;
        drop(parked);
        all.into_iter().for_each(|one| one.join().unwrap());
        // A stack of which some pages were touched, and a block. Without the wrapper a store takes 870 KB.
        assert!(more < 100_000, "{more} bytes for each green thread");
    });
}
