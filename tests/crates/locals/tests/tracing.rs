//! `tracing-subscriber` knows 4,096 threads: how more green threads than that are in spans.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

use locals::{in_many, park};
use runtime::tracing::{Following, OfOsThread};
use runtime::{Builder, ThreadLocals};
use tracing::info_span;

const ALL: usize = 100_000;

#[test]
fn a_hundred_thousand_green_threads_are_in_spans() {
    // SAFETY: there is no layer, and the values are numbers.
    let registry = unsafe { OfOsThread::new(tracing_subscriber::registry()) };
    tracing::subscriber::set_global_default(Following::new(registry)).unwrap();
    let runtime = Builder::new().procs(2).thread_locals(ThreadLocals::OfGreenThread).build().unwrap();
    runtime.block_on(|| {
        let all_are_in = runtime::sync::Barrier::new(ALL);
        in_many(ALL, |number| {
            let span = info_span!("request", number);
            let id = span.id();
            let _entered = span.enter();
            if number % 100 == 0 {
                park(number);
            }
            all_are_in.wait();
            assert_eq!(tracing::Span::current().id(), id);
        });
    });
}
