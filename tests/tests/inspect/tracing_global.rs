//! A subscriber for the whole process that follows green threads (feature `tracing`). Apart from the other
//! tests of spans, because it cannot be taken back.

use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Duration;

use runtime::tracing::Following;
use runtime::{Builder, Migration, spawn};
use tests::with_built;
use tracing::{info, info_span};

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_thousand_green_threads_log_in_their_own_spans() {
    tests::alone!();
    let subscriber = tracing_subscriber::fmt().without_time().with_ansi(false).with_target(false);
    let subscriber = Following::new(subscriber.with_writer(|| Lines).finish()).inherited();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        for procs in [1, 4] {
            with_built(Builder::new().procs(procs).migration(migration), |runtime| {
                runtime.block_on(|| {
                    let threads: Vec<_> = (0..1000u64).map(|id| spawn(move || request(id))).collect();
                    threads.into_iter().for_each(|thread| thread.join().unwrap());
                });
            });
            let lines = std::mem::take(&mut *LINES.lock().unwrap());
            let lines = String::from_utf8(lines).unwrap();
            assert_eq!(lines.lines().count(), 2000);
            for line in lines.lines() {
                let id = line.rsplit_once("id=").unwrap().1;
                assert!(line.starts_with(&format!(" INFO request{{id={id}}}: ")), "{line}");
            }
        }
    }
}

fn request(id: u64) {
    let span = info_span!("request", id);
    let _entered = span.enter();
    runtime::sleep(Duration::from_micros(id * 37 % 2000));
    info!(id, "slept");
    // The child inherits the span.
    let child = spawn(move || {
        runtime::sleep(Duration::from_micros(id * 17 % 500));
        info!(id, "child");
    });
    child.join().unwrap();
}
