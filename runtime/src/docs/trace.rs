//! Traces: what the scheduler did in the last moments, and how to read it.
//!
//! A [dump](crate::docs::dumps) shows what each green thread does now. The flight recorder shows what
//! happened before: which green thread ran where and for how long, what it waited for, and which waker woke
//! it. It also shows how long the green thread then waited for a P. It is cheap enough to stay on in a
//! server, so the trace is there when something goes wrong.
//!
//! # A late handler
//!
//! A server answers each request from a green thread of its own, and some answers are late although the
//! handlers do little:
//!
//! ```no_run
//! use runtime::{Builder, sleep, spawn, thread};
//! use std::time::{Duration, Instant};
//!
//! # fn main() -> std::io::Result<()> {
//! let runtime = Builder::new().procs(1).trace_to("late.html").build()?;
//! runtime.block_on(|| {
//!     let report = thread::Builder::new().name("report".into()).spawn(|| {
//!         sleep(Duration::from_millis(20));
//!         let start = Instant::now();
//!         while start.elapsed() < Duration::from_millis(150) {} // It computes.
//!     });
//!     for i in 0..200 {
//!         spawn(move || sleep(Duration::from_millis(i % 7)));
//!         sleep(Duration::from_millis(1));
//!     }
//!     report.unwrap().join().unwrap();
//! });
//! # Ok(())
//! # }
//! ```
//!
//! The recorder notices that a green thread has kept its P, and says so:
//!
//! ```text
//! runtime: a green thread kept its P: the trace is in late.html
//! ```
//!
//! The page shows the row of the P: the handlers' short slices, and then one long slice. The label of that
//! slice is the name and the id of the culprit, such as "report (2)". The P is taken from it (the mark below
//! its row says "taken from report (2), which computes"). The P goes on with the handlers on another OS
//! thread. A slice under the pointer shows how long it lasted, what it then waited for, and how long after
//! its wake-up it began.
//!
//! # How to record
//!
//! - **In the program:** [`trace::start`](crate::trace::start), [`snapshot`](crate::trace::snapshot) whenever
//!   you like, and [`stop`](crate::trace::stop). [`Snapshot::events`](crate::trace::Snapshot::events) has the
//!   events, and [`Snapshot::save`](crate::trace::Snapshot::save) writes a file.
//! - **Without a change:** `RUNTIME_TRACE=trace.html`, as [`Builder::trace_to`](crate::Builder::trace_to). A
//!   file is written when a green thread panics, when one keeps its P (a [hog](crate::docs::blocking)), and
//!   when a timer fires over 100 ms late. `RUNTIME_TRACE_ON=panic,late=5ms` chooses among these. No file is
//!   overwritten: the next gets a number, also after a restart.
//!   [`Builder::trace_to`](crate::Builder::trace_to) says how many there are at most, and which ends of a
//!   program wait for the file.
//! - **All the time:** [`trace::stream`](crate::trace::stream) (feature `perfetto`) writes all events into
//!   files that follow each other, until the program ends. See [below](#a-stream).
//!
//! # How to read
//!
//! | file | shows | open it with |
//! | --- | --- | --- |
//! | `*.html` | the last second, or the last 200,000 slices | any browser; it needs no network |
//! | any other name (feature `perfetto`) | all that is in the rings | <https://ui.perfetto.dev>, which keeps the file on your machine, or `trace_processor` |
//!
//! `runtime/src/docs/trace.png` is a picture of the page of the example `trace`, in Chromium: `cargo run
//! --release --example trace`.
//!
//! There is a row for each P and for each OS thread, in groups by runtime. A slice of a P is a green thread:
//! its name, or its id and where it was spawned. An arrow leads from the moment of a wake-up, or a spawn, to
//! the slice that it led to. Its length is the time for which the green thread waited for a P.
//! A slice of an OS thread says which P it had, or that it was parked or waited for the network.
//!
//! # What is recorded
//!
//! Each P has a ring of its newest events, 65,536 unless [`start_with`](crate::trace::start_with) says
//! otherwise. How far back they reach depends on the load. A P that switches a hundred thousand times a
//! second fills its ring in about a third of a second. [`What`](crate::trace::What) lists the events.
//! [`Snapshot::lost`](crate::trace::Snapshot::lost) says how many were overwritten.
//!
//! If the cause of an event was overwritten, or came before its P noticed the recording, the event stands at
//! its time alone. The other events are in the order of cause and effect. Their times are those of the
//! processor's counter where that is steady (x86-64, 64-bit Arm), else of the clock. Counters of two
//! processors may differ by some ten nanoseconds. When another green thread of the same P follows, the stop
//! of the first and the begin of the second have the same time. The switch took some nanoseconds.
//!
//! A P notices the start of a recording at its next event other than a switch, and after 61 switches at the
//! latest. A green thread that ran before has no name in the trace if it has ended since.
//!
//! # A stream
//!
//! A snapshot has what is in the rings: a fraction of a second of a busy program. A
//! [`stream`](crate::trace::stream) has all of it, for as long as there is room for files:
//!
//! ```ignore
//! use std::time::Duration;
//!
//! # fn main() -> std::io::Result<()> {
//! let stream = runtime::trace::stream("/var/tmp/my-server").max_file_age(Duration::from_secs(60)).start()?;
//! runtime::block_on(|| {
//!     // The server.
//! });
//! stream.finish()
//! # }
//! ```
//!
//! An OS thread of the stream reads the rings ten times a second, and up to a thousand times a second while
//! they fill fast. It brings the events into the order of cause and effect, and appends them to a file. Each
//! file can be opened alone: names, places and open regions are in it. After a crash, the last file shows
//! what ran, up to a tenth of a second before the end.
//!
//! The stream never holds up a green thread. If its thread cannot keep up, the rings are overwritten, and a
//! mark in the row of the P says how many events are missing there. Larger rings help against bursts
//! ([`StreamBuilder::events`](crate::trace::StreamBuilder::events)). So does a processor for the thread. With
//! 2 Ps on two processors (AMD EPYC) and 20,000 HTTP requests a second of another process, a stream raises
//! the processor time of a request from 31 to 39 us, the median of the times from 78 to 109 us, and the 99th
//! percentile from 0.3 to 0.6 ms (`recorder http --rate 20000 --apart --window 500 --stream FOLDER`, with the
//! feature `stream` of `benches`). An echo server with 64 connections that ask at once again answers a fifth
//! fewer requests (`recorder echo`). If a program that did little begins to do much, the thread may need a
//! processor for some milliseconds once.
//!
//! # Spans of tracing
//!
//! With the feature `tracing`, a span that is entered during a recording is a region of the trace, with the
//! name of the span. The subscriber has to be wrapped in `runtime::tracing::Following`, and has to know its
//! current span, as those of `tracing_subscriber` do. A region ends where the span is exited; a park in
//! between does not end it. Children that inherit a span have no region of it.
//!
//! # What it costs
//!
//! While it is off, a park takes two more instructions, a yield none, and other calls at most three. While it
//! is on, a switch costs one reading of the processor's counter and sixteen bytes. A wake-up, a spawn or a
//! timer costs the same once more. Some events share one reading, and so have one time:
//!
//! - the green threads that the network or a timer wakes together, and the first of them that runs;
//! - a timer that is armed for a wait, and the park;
//! - an OS thread that gives its P up, and its sleep.
//!
//! | | AMD EPYC: without, with | | Intel Xeon: without, with | |
//! | --- | --- | --- | --- | --- |
//! | a yield | 12.0 ns, 18.2 ns | +6 ns | 13.9 ns, 28.3 ns | +14 ns |
//! | a park with its wake-up, which are two events | 46 ns, 56 ns | +10 ns | 45 ns, 74 ns | +29 ns |
//! | echo, 64 connections that ask at once again: requests in 50 ms | 10,500, 10,469 | -0.4 % | 14,560, 14,340 | -1.7 % |
//! | HTTP: the same | 9,224, 9,705 | -0.3 % | 13,484, 13,267 | -1.8 % |
//! | echo, 20,000 requests a second of another process: 99th percentile | 174 us, 176 us | +0.5 % | 0.58 ms, 0.56 ms | +0.8 % |
//! | HTTP: the same | 179 us, 179 us | -0.2 % | | |
//! | HTTP: the same, 60,000 requests a second | 1.08 ms, 1.09 ms | +0.2 % | 1.18 ms, 1.20 ms | +2.4 % |
//! | echo, 60,000 requests a second of the same process: 99th percentile | 93 us, 99 us | +1 % | 129 us, 141 us | +6 % |
//! | HTTP: the same | 120 us, 131 us | +3 % | 161 us, 171 us | +5 % |
//!
//! Measured on 2026-11-25 on two cores of virtual machines with these processors. One reading of the counter
//! takes 7 to 10 ns on the Xeon, because it waits for all earlier instructions there. The servers run with 2
//! Ps. Each run has 200 to 500 pairs of windows with and without the recorder, side by side. The commands are
//! `cargo run --release -p benches --bin recorder -- echo`, with `--rate 60000`, and with `--apart` for
//! clients in another process. A percentage is the median of the ratios of the pairs, so it need not be that
//! of the two columns before it. If nothing is switched, the 99th percentiles differ by 0.5 % at 20,000
//! requests a second, and by up to 4 % in the last two rows. There the clients are green threads of the same
//! process, so both sides of a request are recorded. The switches: `cargo run --release -p benches --bin
//! instructions -- yield 10000000`, with `--trace` and without.
//!
//! On the Xeon the recorder makes a request slower mainly because it reads the counter, about five times a
//! request at this rate. Requests that wait behind it are delayed, too. A build that writes a constant
//! instead shows no difference at the 50th and the 90th percentile of HTTP.
