//! Debuggers: gdb's script lists green threads and walks their stacks, in a process and in its core file. The OS threads have names.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use runtime::channel::bounded;
use runtime::{Builder, spawn, thread};
use tests::{Watchdog, wait_until};

const CHILD: &str = "TESTS_DEBUGGERS";

#[inline(never)]
fn waits_for_a_message(depth: u32, channel: &runtime::channel::Receiver<u32>) -> u32 {
    if depth == 0 {
        return channel.recv().unwrap_or(1);
    }
    std::hint::black_box(waits_for_a_message(std::hint::black_box(depth) - 1, channel)) + 1
}

#[inline(never)]
fn computes_for_ever() {
    loop {
        std::hint::spin_loop();
    }
}

const SPAWN_LINE: u32 = line!() + 8;

/// The program under the debugger: a green thread waits for a message, one computes, and a future sleeps.
fn program() {
    let runtime = Builder::new().procs(2).thread_name("gdbtest").build().unwrap();
    runtime.block_on(|| {
        let builder = thread::Builder::new().name("receiver".into());
        let (sender, channel) = bounded(0);
        let _receiver = builder.spawn(move || waits_for_a_message(3, &channel)).unwrap();
        let _future = spawn(async { std::future::pending::<()>().await });
        let _hog = thread::Builder::new().name("hog".into()).spawn(computes_for_ever).unwrap();
        let dumped = || {
            let mut text = Vec::new();
            runtime::dump(&mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        wait_until("all are where they belong", || {
            let text = dumped();
            text.contains("'receiver': waits")
                && text.contains("'hog': running")
                && text.contains("of its future")
        });
        println!("ready");
        // Keeps the channel open.
        runtime::sleep(Duration::from_secs(3600));
        drop(sender);
    });
}

/// Starts this test once more, as the program. Its core file will be as large as it likes.
fn start(test: &str, folder: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c unlimited; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, "1").current_dir(folder);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.into_iter().any(|line| line.ends_with("ready")), "the program did not get ready");
    child
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/debug").join(name)
}

/// Returns `true` if `program` is installed. With `CI=true` it must be.
fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(found || std::env::var("CI").is_err(), "{program} is not installed; ci/setup.sh installs it");
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

/// Runs gdb with these arguments and commands. Returns its stdout and stderr.
fn gdb(args: &[&str], commands: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set width 0"]).args(args);
    let source = format!("source {}", script("green_gdb.py").display());
    for command in [source.as_str()].iter().chain(commands) {
        gdb.args(["-ex", command]);
    }
    let output = gdb.stdin(Stdio::null()).output().unwrap();
    [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
}

/// The commands whose output [`check`] reads.
const COMMANDS: [&str; 9] = [
    "info green",
    "echo == receiver\\n",
    "green receiver bt",
    "echo == hog\\n",
    "green hog bt",
    "echo == entered\\n",
    "green receiver",
    "bt",
    "green off",
];

/// Returns the part of gdb's output after the line `== name`.
fn part<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, after) = text.split_once(&format!("== {name}\n")).unwrap_or_else(|| panic!("no {name}: {text}"));
    after.split("\n== ").next().unwrap()
}

/// Checks what the commands of [`COMMANDS`] have printed.
fn check(text: &str) {
    let receiver = text.lines().find(|line| line.contains("'receiver'")).unwrap_or_else(|| panic!("{text}"));
    assert!(receiver.contains(": waiting for a channel to receive, for "), "{receiver}");
    let place = format!(", spawned at {}:{}", file!(), SPAWN_LINE);
    assert!(receiver.ends_with(&place), "{receiver} has not {place}");
    let hog = text.lines().find(|line| line.contains("'hog'")).unwrap();
    // A core file has no names of OS threads.
    assert!(hog.contains(": running on OS thread "), "{hog}");
    assert!(hog.contains("(gdbtest-") || hog.contains("(LWP "), "{hog}");
    assert!(text.lines().any(|line| line.contains(" (future): waiting for ")), "{text}");
    assert!(text.contains("\n4 green threads\n"), "{text}");
    let stack = part(text, "receiver");
    assert_eq!(stack.matches("waits_for_a_message (").count(), 4, "{text}");
    assert!(stack.contains("__rust_begin_short_backtrace"), "the walk reaches the first frame: {text}");
    assert!(!stack.contains("m_main") && !stack.contains("Backtrace stopped"), "it ends there: {text}");
    let stack = part(text, "hog");
    assert!(stack.contains("computes_for_ever") && !stack.contains("m_main"), "{text}");
    assert_eq!(part(text, "entered").matches("waits_for_a_message (").count(), 4, "{text}");
}

#[test]
fn gdb_lists_and_walks_green_threads_of_a_process_and_of_its_core() {
    const TEST: &str = "gdb_lists_and_walks_green_threads_of_a_process_and_of_its_core";
    if std::env::var_os(CHILD).is_some() {
        return program();
    }
    let _dog = Watchdog::after(Duration::from_secs(300));
    if !is_installed("gdb") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("green-core-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut child = start(TEST, &folder);
    check(&gdb(&["-p", &child.id().to_string()], &COMMANDS));
    let abort = format!("kill -ABRT {}", child.id());
    assert!(Command::new("sh").args(["-c", &abort]).status().unwrap().success());
    assert!(!child.wait().unwrap().success());
    let core = std::fs::read_dir(&folder).unwrap().next().map(|entry| entry.unwrap().path());
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    match core {
        Some(core) => {
            let program = std::env::current_exe().unwrap();
            check(&gdb(&[program.to_str().unwrap(), core.to_str().unwrap()], &COMMANDS));
        }
        // The system keeps core files elsewhere.
        None => {
            assert!(!pattern.starts_with("core"), "the kernel wrote no core file");
            eprintln!("SKIPPED: core files are not written here, but to {pattern}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn os_threads_have_names() {
    let _dog = Watchdog::new();
    let runtime = Builder::new().procs(2).thread_name("named").build().unwrap();
    runtime.block_on(|| thread::Builder::new().spawn(|| ()).unwrap().join().unwrap());
    let names = || -> Vec<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        tasks.filter_map(|task| name(task.ok()?).ok()).map(|name| name.trim().to_owned()).collect()
    };
    // A new OS thread has its name a moment after its start.
    wait_until("the monitor is named", || names().iter().any(|name| name == "named-sysmon"));
    let is_of_m = |name: &String| name.strip_prefix("named-").is_some_and(|rest| rest != "sysmon");
    wait_until("an M is named", || names().iter().any(is_of_m));
}
