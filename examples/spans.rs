//! Log lines under their spans: green threads handle requests, and each line of `tracing` is under the span
//! of its own request. That holds although every request parks several times and may change its OS thread.
//!
//! The program counts the lines that are under the span of another request: with
//! `runtime::tracing::Following`, and without.
//!
//! ```sh
//! cargo run --release --example spans --features tracing            # 1,000 requests
//! cargo run --release --example spans --features tracing -- 5       # 5 requests, and all their lines
//! ```

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use runtime::tracing::{Following, with_default};
use support::Args;
use tracing::{Dispatch, Span, info, info_span};
use tracing_subscriber::fmt::MakeWriter;

mod support;

const USAGE: &str = "\
usage: spans [REQUESTS]

  REQUESTS      the number of requests that are handled at the same time (default 1000)";

fn main() {
    let mut args = Args::new(USAGE);
    let requests: u64 =
        args.positional().map_or(1000, |text| args.parse("REQUESTS", &text.to_string_lossy(), 1..=100_000));
    args.end();

    let lines = Lines::default();
    let subscriber = || {
        tracing_subscriber::fmt()
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .with_writer(lines.clone())
    };
    for (name, dispatch) in [
        ("with Following", Dispatch::new(Following::new(subscriber().finish()).inherited())),
        ("without", Dispatch::new(subscriber().finish())),
    ] {
        let panicked = runtime::block_on(|| serve(&dispatch, requests));
        let lines = lines.take();
        if requests <= 10 {
            lines.iter().for_each(|line| println!("{line}"));
        }
        let misplaced = lines.iter().filter(|line| is_misplaced(line)).count();
        println!("{name}: {} lines, {misplaced} of them not under the span of their request", lines.len());
        if panicked > 0 {
            // In a debug build `tracing-subscriber` panics if the current span is closed.
            println!("{name}: {panicked} requests panicked");
        }
    }
}

/// Handles all requests at the same time. Returns how many panicked.
fn serve(dispatch: &Dispatch, requests: u64) -> usize {
    let request = |id| {
        let dispatch = dispatch.clone();
        runtime::spawn(move || {
            with_default(&dispatch, || {
                let _entered = info_span!(parent: Span::none(), "request", id).entered();
                handle(id);
            });
        })
    };
    let threads: Vec<_> = (0..requests).map(request).collect();
    threads.into_iter().filter_map(|thread| thread.join().err()).count()
}

fn handle(id: u64) {
    info!(id, "received");
    runtime::sleep(Duration::from_micros(id * 37 % 2000));
    // A child of the request, which inherits its span.
    let query = runtime::spawn(move || {
        runtime::sleep(Duration::from_micros(id * 11 % 1000));
        info!(id, "queried");
    });
    query.join().expect("the query does not panic");
    info!(id, "answered");
}

fn is_misplaced(line: &str) -> bool {
    let id = line.rsplit_once("id=").map_or("", |(_, id)| id);
    !line.contains(&format!("request{{id={id}}}: "))
}

/// The lines that a subscriber has written.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().expect("no writer panics"));
        String::from_utf8_lossy(&bytes).lines().map(str::to_string).collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Lines;

    fn make_writer(&self) -> Lines {
        self.clone()
    }
}
