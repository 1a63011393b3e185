//! A tour of the runtime: many sleepers, many files, a ticker beside two hogs, and the counters of the
//! scheduler.
//!
//! ```sh
//! cargo run --release --example tour              # counts the words of this project
//! cargo run --release --example tour -- DIR       # counts the words of another directory
//! ```

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use runtime::{JoinHandle, metrics, thread};
use support::{Args, Summary, bytes_each, commas, ms, resident_bytes};

mod support;

const USAGE: &str = "\
usage: tour [DIR] [--sleepers N]

  DIR            count the words of the files under it (default: this project's own tree)
  --sleepers N   number of green threads that sleep at the same time (default 100000, with 32-bit addresses 5000)";

/// The default number of sleepers: 32-bit addresses have room for fewer stacks.
const SLEEPERS: u64 = if cfg!(target_pointer_width = "64") { 100_000 } else { 5_000 };

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let sleepers = args.number("--sleepers", SLEEPERS, 1..=5_000_000) as usize;
    let dir = args.positional().map_or_else(own_tree, PathBuf::from);
    args.end();
    if let Err(error) = fs::read_dir(&dir) {
        args.wrong(format_args!("cannot read the directory \"{}\": {error}", dir.display()));
    }

    println!("1. {} green threads go to sleep", commas(sleepers));
    runtime::block_on(|| sleep_together(sleepers));

    println!("\n2. One green thread for each file under {}", dir.display());
    let right = count_words(&dir);

    println!("\n3. A 1 ms ticker beside two green threads that never yield (hogs)");
    runtime::block_on(tick_beside_hogs);

    println!("\n4. What the scheduler counted meanwhile");
    print_counters();

    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn own_tree() -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR"));
    examples.parent().unwrap_or(examples).into()
}

// 1. Sleepers.

fn sleep_together(count: usize) {
    let sleep = Duration::from_secs(2);
    let asleep = Arc::new(AtomicUsize::new(0));
    let mut sleepers = Vec::with_capacity(count);

    let before = resident_bytes();
    let start = Instant::now();
    for _ in 0..count {
        let asleep = Arc::clone(&asleep);
        sleepers.push(runtime::spawn(move || {
            let t0 = Instant::now();
            asleep.fetch_add(1, Ordering::Relaxed);
            runtime::sleep(sleep);
            t0.elapsed() - sleep
        }));
    }
    while asleep.load(Ordering::Relaxed) < count {
        runtime::sleep(Duration::from_millis(1));
    }
    let started = start.elapsed();
    println!("   all asleep after {started:.1?}");
    if started < sleep {
        println!("   {}", bytes_each(before, resident_bytes(), count));
    } else {
        println!("   the first had woken by then, so the memory of each is unknown");
    }

    let late =
        sleepers.into_iter().map(|sleeper| sleeper.join().expect("a sleeper does not panic")).collect();
    let late = Summary::of(late);
    println!("   woken after {sleep:?}, late by {:.2?} (mean), {:.2?} (p99)", late.mean, late.p99);
}

// 2. Files.

/// Larger files are left out, because each file is read into memory at once.
const TOO_BIG: u64 = 256 << 20;
/// The number of printed items of a long list.
const SHOWN: usize = 5;

/// The files in a directory and below it.
#[derive(Default)]
struct Tree {
    files: Vec<PathBuf>,
    /// Directories and files that cannot be read, with the reason.
    unreadable: Vec<(PathBuf, io::Error)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Text { bytes: usize, words: usize },
    Binary,
}

#[derive(Default)]
struct Sum {
    texts: usize,
    binaries: usize,
    bytes: usize,
    words: usize,
}

impl Sum {
    fn add(&mut self, content: &io::Result<Content>) {
        match *content {
            Ok(Content::Text { bytes, words }) => {
                self.texts += 1;
                self.bytes += bytes;
                self.words += words;
            }
            Ok(Content::Binary) => self.binaries += 1,
            Err(_) => {}
        }
    }
}

/// Counts the words twice, the second time without the runtime. Returns `false` if the counts differ.
fn count_words(dir: &Path) -> bool {
    let Tree { files, mut unreadable } = runtime::block_on(|| runtime::blocking(|| find_files(dir)));

    let start = Instant::now();
    let contents = runtime::block_on(|| {
        let counters: Vec<_> =
            files.iter().cloned().map(|file| runtime::spawn(move || count(&file))).collect();
        counters
            .into_iter()
            .map(|counter| counter.join().expect("counting does not panic"))
            .collect::<Vec<_>>()
    });
    let concurrent = start.elapsed();

    // Counts on this plain OS thread, file after file. The files are in the page cache by now.
    let start = Instant::now();
    let plain: Vec<_> = files.iter().map(|file| count(file)).collect();
    let sequential = start.elapsed();

    let mut sum = Sum::default();
    contents.iter().for_each(|content| sum.add(content));
    let mut differing = Vec::new();
    for ((file, content), plain) in files.into_iter().zip(contents).zip(plain) {
        match (content, plain) {
            (Ok(content), Ok(plain)) if content == plain => {}
            (Err(error), Err(_)) => unreadable.push((file, error)),
            _ => differing.push(file),
        }
    }

    let Sum { texts, binaries, bytes, words } = sum;
    let megabytes = bytes as f64 / 1e6;
    println!("   {} text files, {} words, {megabytes:.1} MB", commas(texts), commas(words));
    println!("   {} binary files left out, {} unreadable", commas(binaries), commas(unreadable.len()));
    list(unreadable.iter().map(|(path, error)| format!("{}: {error}", path.display())));
    println!("   {concurrent:.1?} on green threads; {sequential:.1?} file after file on one OS thread");
    if differing.is_empty() {
        println!("   both counts agree for every file");
    } else {
        println!(
            "   the two counts DIFFER for {} files: have they changed meanwhile?",
            commas(differing.len())
        );
        list(differing.iter().map(|path| path.display().to_string()));
    }
    differing.is_empty()
}

fn list(items: impl ExactSizeIterator<Item = String>) {
    let more = items.len().saturating_sub(SHOWN);
    items.take(SHOWN).for_each(|item| println!("     {item}"));
    if more > 0 {
        println!("     and {} more", commas(more));
    }
}

/// Finds all regular files that are not empty. Skips links, `target` and `.git`.
fn find_files(dir: &Path) -> Tree {
    let mut tree = Tree::default();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        if let Err(error) = enter(&dir, &mut dirs, &mut tree) {
            tree.unreadable.push((dir, error));
        }
    }
    tree
}

fn enter(dir: &Path, dirs: &mut Vec<PathBuf>, tree: &mut Tree) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            if entry.file_name() != "target" && entry.file_name() != ".git" {
                dirs.push(path);
            }
        } else if kind.is_file() {
            match entry.metadata() {
                Ok(about) if about.len() > TOO_BIG => {
                    tree.unreadable.push((path, io::Error::other("too big for this example")));
                }
                Ok(about) if about.len() > 0 => tree.files.push(path),
                Ok(_) => {}
                Err(error) => tree.unreadable.push((path, error)),
            }
        }
    }
    Ok(())
}

/// Reads a file and counts its words if it is a text. `blocking` lends the P to other green threads in that
/// time.
fn count(file: &Path) -> io::Result<Content> {
    let data = runtime::blocking(|| {
        let mut data = Vec::new();
        File::open(file)?.take(TOO_BIG).read_to_end(&mut data)?;
        io::Result::Ok(data)
    })?;
    if data.iter().take(8192).any(|&byte| byte == 0) {
        return Ok(Content::Binary);
    }
    let words = data.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
    Ok(Content::Text { bytes: data.len(), words })
}

// 3. Hogs.

const TICK: Duration = Duration::from_millis(1);

fn tick_beside_hogs() {
    let alone = Summary::of(tick_for(Duration::from_millis(500)));
    let stop = Arc::new(AtomicBool::new(false));
    let hogs = [
        // Computes without a call into the runtime.
        hog("computing hog", &stop, || {
            let mut x = 1_u64;
            for _ in 0..1_000_000 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            }
            black_box(x);
        }),
        // Blocks its OS thread without `blocking`.
        hog("sleeping hog", &stop, || std::thread::sleep(Duration::from_millis(100))),
    ];
    let beside = Summary::of(tick_for(Duration::from_secs(1)));
    stop.store(true, Ordering::Relaxed);
    for hog in hogs {
        hog.join().expect("a hog does not panic");
    }

    println!("   lateness in ms        p50      p99      max");
    for (what, late) in [("alone", alone), ("beside two hogs", beside)] {
        println!("   {what:<16} {:>8.3} {:>8.3} {:>8.3}", ms(late.p50), ms(late.p99), ms(late.max));
    }
}

#[track_caller]
fn hog(name: &str, stop: &Arc<AtomicBool>, work: fn()) -> JoinHandle<()> {
    let stop = Arc::clone(stop);
    let hog = move || {
        while !stop.load(Ordering::Relaxed) {
            work();
        }
    };
    thread::Builder::new().name(name.into()).spawn(hog).expect("the usual stack size is always allowed")
}

/// Returns how late each tick was. If the time of a tick has passed already, the tick ends at once and counts
/// too.
fn tick_for(time: Duration) -> Vec<Duration> {
    let start = Instant::now();
    let ticks = (time.as_nanos() / TICK.as_nanos()) as u32;
    (1..=ticks)
        .map(|tick| {
            let deadline = start + tick * TICK;
            runtime::sleep_until(deadline);
            deadline.elapsed()
        })
        .collect()
}

// 4. Counters.

fn print_counters() {
    let done = metrics::snapshot();
    let row = |what: &str, figure: u64, more: String| println!("   {what:<26} {:>9}  {more}", commas(figure));
    row("green threads", done.spawned, format!("spawned; {} have ended", commas(done.ended)));
    row("Ps", done.procs as u64, "the number of green threads that ran at the same moment".into());
    row("OS threads", done.threads as u64, format!("{} of them are idle now", done.idle_threads));
    row("parks", done.parks, "waits of green threads, while their OS threads ran others".into());
    row("timers fired", done.timers_fired, format!("{} of them by another P", commas(done.timers_stolen)));
    row("steals", done.steals, "an idle P took work from a busy one".into());
    row("hand-offs", done.hand_offs, "the P of a `blocking` call was taken for others".into());
    let rescues = done.rescues_computing + done.rescues_blocked;
    row("rescues", rescues, "the P of a hog was taken for others".into());
    row("  of computing hogs", done.rescues_computing, String::new());
    row("  of blocked hogs", done.rescues_blocked, String::new());
    row(
        "polls of the network",
        done.net_polls,
        format!("they woke {} green threads", commas(done.net_wakeups)),
    );
    row("wake-ups of sysmon", done.sysmon_wakeups, String::new());

    println!("   the last rescues:");
    if done.rescues.is_empty() {
        println!("     none");
    }
    for rescue in done.rescues.iter().rev().take(SHOWN) {
        let name = rescue.name.clone().unwrap_or_else(|| format!("green thread {}", rescue.id));
        let doing = match rescue.blocked {
            Some(true) => "blocked",
            Some(false) => "computing",
            None => "busy",
        };
        println!("     {name}, seen {doing} for {:.1?}; spawned at {}", rescue.away, rescue.spawned_at);
    }
}
