//! Debuggers: the scripts for gdb and lldb list green threads and walk their stacks, in a process and in its
//! core file. The OS threads have names.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use runtime::channel::bounded;
use runtime::{Builder, spawn, thread};
use tests::folder::Folder;
use tests::{Watchdog, wait_until};

const CHILD: &str = "TESTS_DEBUGGERS";

#[inline(never)]
fn waits_for_a_message(depth: u32, channel: &runtime::channel::Receiver<u32>) -> u32 {
    if depth == 0 {
        return channel.recv().unwrap_or(1);
    }
    std::hint::black_box(waits_for_a_message(std::hint::black_box(depth) - 1, channel)) + 1
}

/// Has the name of the runtime's function at which a walk ends.
#[inline(never)]
fn root(channel: &runtime::channel::Receiver<u32>) -> u32 {
    std::hint::black_box(waits_for_a_message(3, channel)) + 1
}

#[inline(never)]
fn computes_for_ever() {
    loop {
        std::hint::spin_loop();
    }
}

/// Two functions that wait on the OS threads that called them, because the green threads are pinned.
#[inline(never)]
fn waits_pinned_here(channel: &runtime::channel::Receiver<u32>) -> u32 {
    let _pin = thread::pin();
    channel.recv().unwrap_or(1)
}

#[inline(never)]
fn waits_pinned_there(channel: &runtime::channel::Receiver<u32>) -> u32 {
    let _pin = thread::pin();
    channel.recv().unwrap_or(2)
}

/// A function at which a debugger can stop the program.
#[inline(never)]
fn ticks() {
    std::hint::black_box(());
}

const TICK_LINE: u32 = line!() - 3;

const SPAWN_LINE: u32 = line!() + 10;

/// The program under the debugger: a green thread waits for a message, two wait on their OS threads, one
/// computes, and a future sleeps.
fn program() {
    let runtime = Builder::new().procs(2).thread_name("gdbtest").build().unwrap();
    runtime.block_on(|| {
        let named = |name: &str| thread::Builder::new().name(name.into());
        let (sender, channel) = bounded(0);
        let [receiver, here, there] = [channel.clone(), channel.clone(), channel];
        let _receiver = named("receiver").spawn(move || root(&receiver)).unwrap();
        let _here = named("here").spawn(move || waits_pinned_here(&here)).unwrap();
        let _there = named("there").spawn(move || waits_pinned_there(&there)).unwrap();
        let _future = spawn(async { std::future::pending::<()>().await });
        let _hog = named("the hog").spawn(computes_for_ever).unwrap();
        let dumped = || {
            let mut text = Vec::new();
            runtime::dump(&mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        wait_until("all are where they belong", || {
            let text = dumped();
            let waits =
                ["receiver", "here", "there"].iter().all(|name| text.contains(&format!("'{name}': waits")));
            waits && text.contains("'the hog': running") && text.contains("of its future")
        });
        println!("ready");
        for _ in 0..36_000 {
            runtime::sleep(Duration::from_millis(100));
            ticks();
        }
        // Keeps the channel open.
        drop(sender);
    });
}

/// Starts this test once more, as the program. Its core file will be as large as it likes.
fn start(test: &str, folder: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c unlimited; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    command
        .args(["--exact", &tests::child::path(test), "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .current_dir(folder);
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

/// Runs lldb with these arguments and commands. Returns its stdout and stderr.
fn lldb(args: &[&str], commands: &[&str]) -> String {
    let mut lldb = Command::new("lldb");
    lldb.args(["--no-lldbinit", "--batch"]).args(args);
    let import = format!("command script import {}", script("green_lldb.py").display());
    for command in [import.as_str()].iter().chain(commands) {
        lldb.args(["-o", command]);
    }
    // Debian's lldb 14 names a folder that does not exist.
    let folders = std::fs::read_dir("/usr/lib/llvm-14/lib").into_iter().flatten().flatten();
    let packages = folders.map(|folder| folder.path().join("dist-packages"));
    if let Some(packages) =
        packages.into_iter().find(|path| path.join("lldb/embedded_interpreter.py").exists())
    {
        lldb.env("PYTHONPATH", packages);
    }
    let output = lldb.env("DEBUGINFOD_URLS", "").stdin(Stdio::null()).output().unwrap();
    [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
}

/// The commands. [`check`] reads their output.
const GDB_COMMANDS: [&str; 15] = [
    "info green",
    "echo == receiver\\n",
    "green receiver bt",
    "echo == hog\\n",
    "green 'the hog' bt",
    "echo == entered\\n",
    "green receiver",
    "bt",
    "echo == while entered\\n",
    // The selected frame is one of Rust.
    "info green",
    "green 'the hog' bt",
    "green off",
    "echo == all\\n",
    "green all bt",
    "echo == end\\n",
];

/// The same for lldb. It prints each command before its output.
const LLDB_COMMANDS: [&str; 15] = [
    "green list",
    "script print('\\n== receiver')",
    "green receiver bt",
    "script print('\\n== hog')",
    "green 'the hog' bt",
    "script print('\\n== entered')",
    "green receiver",
    "bt",
    "script print('\\n== while entered')",
    "green list",
    "green 'the hog' bt",
    "green off",
    "script print('\\n== all')",
    "green all bt",
    "script print('\\n== end')",
];

/// Returns the part of a debugger's output after the line `== name`.
fn part<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, after) = text.split_once(&format!("== {name}\n")).unwrap_or_else(|| panic!("no {name}: {text}"));
    after.split("\n== ").next().unwrap()
}

/// Returns how many frames are calls of [`waits_for_a_message`].
fn frames_of_waits(text: &str) -> usize {
    // lldb names the outer function beside each that is inlined.
    text.lines().filter(|line| line.contains("waits_for_a_message") && !line.contains("[inlined]")).count()
}

/// Checks what a debugger has printed for its commands.
fn check(text: &str) {
    let receiver = text.lines().find(|line| line.contains("'receiver'")).unwrap_or_else(|| panic!("{text}"));
    assert!(receiver.contains(": waiting for a channel to receive, for "), "{receiver}");
    let place = format!(", spawned at {}:{}", file!(), SPAWN_LINE);
    assert!(receiver.ends_with(&place), "{receiver} has not {place}");
    let hog = text.lines().find(|line| line.contains("'the hog'")).unwrap();
    // A core file has no names of OS threads.
    assert!(hog.contains(": running on OS thread "), "{hog}");
    assert!(hog.contains("(gdbtest-") || hog.contains("(LWP "), "{hog}");
    assert!(text.lines().any(|line| line.contains(" (future): waiting for ")), "{text}");
    assert!(text.contains("\n6 green threads\n"), "{text}");
    let stack = part(text, "receiver");
    assert_eq!(frames_of_waits(stack), 4, "{text}");
    assert!(stack.contains("debuggers::root"), "the walk goes past the user's function `root`: {text}");
    assert!(stack.contains("__rust_begin_short_backtrace"), "the walk reaches the first frame: {text}");
    assert!(!stack.contains("m_main") && !stack.contains("Backtrace stopped"), "it ends there: {text}");
    let stack = part(text, "hog");
    assert!(stack.contains("computes_for_ever") && !stack.contains("m_main"), "{text}");
    assert_eq!(frames_of_waits(part(text, "entered")), 4, "{text}");
    let meanwhile = part(text, "while entered");
    assert!(meanwhile.contains("\n6 green threads\n") && meanwhile.contains("computes_for_ever"), "{text}");
    check_all(part(text, "all"));
}

/// Checks the stacks of all green threads: each of the pinned ones has its own.
fn check_all(text: &str) {
    let stack_of = |name: &str| {
        let found = text.split("\n\n").find(|stack| stack.contains(&format!("'{name}'")));
        found.unwrap_or_else(|| panic!("no stack of {name}: {text}"))
    };
    for name in ["here", "there"] {
        assert!(stack_of(name).contains(&format!("waits_pinned_{name}")), "{text}");
    }
}

/// Checks what `debug` prints of a process and of its core file. `debug` runs a debugger: on a process, or on
/// a program and its core.
fn checks_process_and_core(test: &str, debug: impl Fn(Result<u32, (&str, &str)>) -> String) {
    let folder = Folder::new();
    let mut child = Killed(start(test, folder.root()));
    check(&debug(Ok(child.0.id())));
    let abort = format!("kill -ABRT {}", child.0.id());
    assert!(Command::new("sh").args(["-c", &abort]).status().unwrap().success());
    assert!(!child.0.wait().unwrap().success());
    let core = std::fs::read_dir(folder.root()).unwrap().next().map(|entry| entry.unwrap().path());
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    match core {
        Some(core) => {
            let program = std::env::current_exe().unwrap();
            check(&debug(Err((program.to_str().unwrap(), core.to_str().unwrap()))));
        }
        // The system keeps core files elsewhere.
        None => {
            assert!(!pattern.starts_with("core"), "the kernel wrote no core file");
            eprintln!("SKIPPED: core files are not written here, but to {pattern}");
        }
    }
}

#[test]
#[cfg_attr(portable, ignore = "the program has no table for debuggers")]
fn gdb_lists_and_walks_green_threads_of_a_process_and_of_its_core() {
    const TEST: &str = "gdb_lists_and_walks_green_threads_of_a_process_and_of_its_core";
    if std::env::var_os(CHILD).is_some() {
        return program();
    }
    let _dog = Watchdog::after(Duration::from_secs(300));
    if is_installed("gdb") {
        checks_process_and_core(TEST, |of| match of {
            Ok(pid) => gdb(&["-p", &pid.to_string()], &GDB_COMMANDS),
            Err((program, core)) => gdb(&[program, core], &GDB_COMMANDS),
        });
    }
}

#[test]
#[cfg_attr(portable, ignore = "the program has no table for debuggers")]
fn lldb_lists_and_walks_green_threads_of_a_process_and_of_its_core() {
    const TEST: &str = "lldb_lists_and_walks_green_threads_of_a_process_and_of_its_core";
    if std::env::var_os(CHILD).is_some() {
        return program();
    }
    let _dog = Watchdog::after(Duration::from_secs(300));
    if is_installed("lldb") {
        checks_process_and_core(TEST, |of| match of {
            Ok(pid) => lldb(&["-p", &pid.to_string()], &LLDB_COMMANDS),
            Err((program, core)) => lldb(&[program, "--core", core], &LLDB_COMMANDS),
        });
    }
}

/// A core file of gdb's own may lack the stacks, which then read as zeros. The scripts say so, and show no
/// other stack in their place.
#[test]
#[cfg_attr(portable, ignore = "the program has no table for debuggers")]
fn debuggers_say_which_stacks_a_core_file_lacks() {
    const TEST: &str = "debuggers_say_which_stacks_a_core_file_lacks";
    if std::env::var_os(CHILD).is_some() {
        return program();
    }
    let _dog = Watchdog::after(Duration::from_secs(300));
    if !is_installed("gdb") {
        return;
    }
    let folder = Folder::new();
    let child = Killed(start(TEST, &folder.path("")));
    let core = folder.path("gcore");
    let written =
        gdb(&["-p", &child.0.id().to_string()], &[&format!("generate-core-file {}", core.display())]);
    assert!(written.contains("Saved corefile"), "{written}");
    drop(child);
    let program = std::env::current_exe().unwrap();
    let (program, core) = (program.to_str().unwrap(), core.to_str().unwrap());
    check_without_stacks(&gdb(&[program, core], &GDB_COMMANDS));
    if is_installed("lldb") {
        check_without_stacks(&lldb(&[program, "--core", core], &LLDB_COMMANDS));
    }
}

/// Checks what a debugger prints of a core file without stacks. Some kernels let gdb write the stacks.
fn check_without_stacks(text: &str) {
    let lacks = "no stack: its stack is not in the core file";
    if !text.contains(lacks) {
        eprintln!("this core file has the stacks");
        return check(text);
    }
    assert!(text.contains("\n6 green threads\n"), "{text}");
    assert!(!text.contains(" on OS thread "), "the stacks of none are known: {text}");
    for name in ["receiver", "hog"] {
        assert!(part(text, name).contains(lacks), "{name}: {text}");
    }
    assert!(!text.contains("waits_for_a_message") && !text.contains("computes_for_ever"), "{text}");
}

/// In code of Rust, gdb evaluates expressions as Rust. An entered green thread is left when the program goes
/// on.
#[test]
#[cfg_attr(portable, ignore = "the program has no table for debuggers")]
fn debuggers_stop_in_code_of_rust_and_go_on() {
    const TEST: &str = "debuggers_stop_in_code_of_rust_and_go_on";
    if std::env::var_os(CHILD).is_some() {
        return program();
    }
    let _dog = Watchdog::after(Duration::from_secs(300));
    let child = Killed(start(TEST, &std::env::temp_dir()));
    let pid = child.0.id().to_string();
    if is_installed("gdb") {
        let commands = [
            format!("break debuggers.rs:{TICK_LINE}").leak(),
            "continue",
            "show language",
            "info green",
            "echo == entered\\n",
            "green receiver",
            "bt",
            "continue",
            "echo == later\\n",
            "bt",
            "echo == end\\n",
        ];
        let text = gdb(&["-p", &pid], &commands);
        assert!(text.contains("currently rust"), "{text}");
        check_stopped(&text);
    }
    if is_installed("lldb") {
        let commands = [
            format!("breakpoint set --file debuggers.rs --line {TICK_LINE}").leak(),
            "process continue",
            "green list",
            "script print('\\n== entered')",
            "green receiver",
            "bt",
            "process continue",
            "script print('\\n== later')",
            "thread list",
            "bt",
            "script print('\\n== end')",
        ];
        check_stopped(&lldb(&["-p", &pid], &commands));
    }
}

/// Checks what a debugger prints when the program has stopped at [`ticks`], and when it has stopped there
/// again.
fn check_stopped(text: &str) {
    assert!(text.contains("\n6 green threads\n"), "{text}");
    assert_eq!(frames_of_waits(part(text, "entered")), 4, "{text}");
    let later = part(text, "later");
    assert!(later.contains("ticks"), "{text}");
    assert!(frames_of_waits(later) == 0 && !later.contains("green "), "{text}");
}

/// How many green threads are many: 3,000, or `DEBUGGERS_MANY`.
fn how_many() -> usize {
    std::env::var("DEBUGGERS_MANY").map_or(3_000, |many| many.parse().expect("DEBUGGERS_MANY is a number"))
}

/// Lists of so many green threads are short, and the debuggers need seconds for them.
#[test]
#[cfg_attr(portable, ignore = "the program has no table for debuggers")]
fn debuggers_list_many_green_threads_in_seconds() {
    const TEST: &str = "debuggers_list_many_green_threads_in_seconds";
    if std::env::var_os(CHILD).is_some() {
        return many();
    }
    let _dog = Watchdog::after(Duration::from_secs(300));
    let child = Killed(start(TEST, &std::env::temp_dir()));
    let pid = child.0.id().to_string();
    let total = format!("{} green threads", how_many() + 2);
    let debuggers: [(&str, &dyn Fn() -> String); 2] = [
        ("gdb", &|| gdb(&["-p", &pid], &["info green", "info green single", "green all bt"])),
        ("lldb", &|| lldb(&["-p", &pid], &["green list", "green list single", "green all bt"])),
    ];
    for (name, debug) in debuggers {
        if is_installed(name) {
            let start = Instant::now();
            let text = debug();
            eprintln!("{name}: {:?}", start.elapsed());
            assert!(start.elapsed() < Duration::from_secs(100), "{name}: {:?}", start.elapsed());
            assert!(text.contains(&format!("\n{total}\n")), "{text}");
            assert!(text.contains(&format!("\n1 of {total}\n")), "{text}");
            assert!(
                text.contains(" more with this stack\n") && text.contains("waits_for_a_message"),
                "{text}"
            );
            assert!(text.lines().count() < 3_000, "{} lines", text.lines().count());
        }
    }
}

/// A child that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// The program with many green threads.
fn many() {
    let runtime = Builder::new().procs(2).build().unwrap();
    let handle = runtime.handle();
    runtime.block_on(|| {
        let (sender, channel) = bounded(0);
        let single = channel.clone();
        let builder = thread::Builder::new().name("single".into());
        let mut all = vec![builder.spawn(move || waits_for_a_message(1, &single)).unwrap()];
        for _ in 0..how_many() {
            let channel = channel.clone();
            all.push(spawn(move || waits_for_a_message(3, &channel)));
        }
        wait_until("all wait", || handle.metrics().waiting >= how_many() as u64);
        println!("ready");
        runtime::sleep(Duration::from_secs(3600));
        drop(sender);
    });
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
