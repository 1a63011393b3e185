//! A flight recorder: handlers of requests, and a report that computes beside them. The page shows whom the
//! report delays.
//!
//! Usage: `trace [FILE]`: writes the page to FILE, or to `trace.html` in the directory for temporary files.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use runtime::{Builder, channel, sleep, thread, trace};

fn main() -> io::Result<()> {
    let path =
        std::env::args_os().nth(1).map_or_else(|| std::env::temp_dir().join("trace.html"), PathBuf::from);
    let runtime = Builder::new().procs(2).build()?;
    let recorded = runtime.block_on(|| {
        trace::start();
        let (requests, inbox) = channel::unbounded();
        let handlers: Vec<_> = (1..=4)
            .map(|n| {
                let inbox = inbox.clone();
                thread::Builder::new().name(format!("handler {n}")).spawn(move || handle(&inbox))
            })
            .collect::<io::Result<_>>()?;
        let report =
            thread::Builder::new().name("report".into()).spawn(|| compute(Duration::from_millis(8)))?;
        for request in 0..200 {
            requests.send(request).expect("the handlers live");
            sleep(Duration::from_micros(100));
        }
        drop(requests);
        let handled: u32 =
            handlers.into_iter().map(|handler| handler.join().expect("no handler panics")).sum();
        assert_eq!(handled, 200);
        report.join().expect("the report does not panic");
        io::Result::Ok(trace::snapshot())
    })?;
    // A trace replaces no file. That of an earlier run goes first.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => recorded.save(&path)?,
    }
    println!("{} events of {:?} are in {}", recorded.events().len(), recorded.duration(), path.display());
    Ok(())
}

/// Returns how many requests it has handled.
fn handle(inbox: &channel::Receiver<u32>) -> u32 {
    let handled = inbox.iter().map(|request| {
        compute(Duration::from_micros(30));
        sleep(Duration::from_micros(u64::from(request % 5) * 100));
        1
    });
    handled.sum()
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}
