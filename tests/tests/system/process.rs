//! Child processes: results are those of std, and waits for a child and its pipes end by a time-out or a
//! cancellation.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use runtime::process::{Child, Command, Stdio};
use runtime::thread::Cancelled;
use runtime::time::timeout;
use runtime::{block_on, scope, spawn};
use tests::{everywhere, on, on_each, until_it_waits, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);
/// Longer than a step takes on a busy machine, and shorter than the children of these tests sleep.
const LONG: Duration = Duration::from_secs(40);

const PROGRAM: &str = env!("CARGO_BIN_EXE_child");

/// A command of the program `child`.
fn program(words: &[&str]) -> Command {
    tests::child::child(PROGRAM, words)
}

#[cfg(unix)]
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn sleeper() -> Child {
    program(&["sleep"]).kill_on_drop(true).spawn().unwrap()
}

/// True if the process exists, as a zombie too.
#[cfg(unix)]
fn exists(id: u32) -> bool {
    // SAFETY: the call takes no pointer, and signal 0 only checks.
    unsafe { libc::kill(id as i32, 0) == 0 }
}

#[test]
fn a_wait_returns_the_exit_status() {
    everywhere(|| {
        for code in [0, 1, 77] {
            let mut child = program(&["exit", &code.to_string()]).spawn().unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(code));
            // The status is kept.
            assert_eq!(child.wait().unwrap().code(), Some(code));
            assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(code));
        }
        let mut child = sleeper();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), if cfg!(unix) { None } else { Some(1) });
        // It has exited, so there is nothing to kill.
        child.kill().unwrap();
        assert_eq!(Command::new("/no/such/program").spawn().unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[cfg(unix)]
#[test]
fn a_wait_returns_the_signal_that_has_ended_the_child() {
    use std::os::unix::process::ExitStatusExt;
    everywhere(|| {
        assert_eq!(shell("kill -TERM $$").status().unwrap().signal(), Some(libc::SIGTERM));
        let mut child = sleeper();
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    });
}

#[cfg(windows)]
#[test]
fn settings_of_windows_reach_the_child() {
    use std::os::windows::process::CommandExt;
    const CREATE_NO_WINDOW: u32 = 0x0800_0000;
    everywhere(|| {
        let mut command = Command::new("cmd");
        command.as_std_mut().creation_flags(CREATE_NO_WINDOW).raw_arg("/c \"exit 7\"");
        assert_eq!(command.status().unwrap().code(), Some(7));
        let output = Command::new("cmd").args(["/c", "echo hello"]).output().unwrap();
        assert_eq!(output.stdout, b"hello\r\n");
    });
}

#[test]
fn a_child_is_awaited() {
    everywhere(|| {
        block_on(async {
            let mut child = program(&["pause"]).spawn().unwrap();
            assert!(child.wait_async().await.unwrap().success());
            let mut child = sleeper();
            let late = runtime::time::timeout_async(5 * MILLI, child.wait_async()).await;
            assert!(late.is_err());
            child.kill().unwrap();
            assert!(!child.wait_async().await.unwrap().success());

            let mut child = program(&["fill", "300000", "3"]);
            let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let output = child.spawn().unwrap().wait_with_output_async().await.unwrap();
            assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 300_000));
            assert_eq!(output.status.code(), Some(3));
        });
    });
}

#[test]
fn output_is_captured_from_both_streams() {
    everywhere(|| {
        // More than the pipes hold, so the child waits for its reader.
        let ours = program(&["fill", "200000", "3"]).output().unwrap();
        let theirs = tests::child::program(PROGRAM).args(["fill", "200000", "3"]).output().unwrap();
        assert!(ours == theirs && ours.stdout.len() == 200_000 && ours.stderr.len() == 200_000);

        // Streams that are set stay as they are; standard input is empty.
        assert_eq!(program(&["count"]).output().unwrap().stdout, b"0");
        assert_eq!(program(&["complain", "err"]).output().unwrap().stderr, b"err");
        let output = program(&["fill", "1000", "0"]).stderr(Stdio::null()).output().unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (1000, 0));
        let mut command = program(&["env", "TESTS_NAME"]);
        assert_eq!(command.env("TESTS_NAME", "world").output().unwrap().stdout, b"world");
        // What `output` has set is not kept.
        let mut command = program(&["exit", "0"]);
        assert!(command.output().unwrap().status.success());
        let mut child = command.spawn().unwrap();
        assert!(child.stdin.is_none() && child.stdout.is_none() && child.stderr.is_none());
        child.wait().unwrap();
    });
}

#[test]
fn pipes_carry_what_is_written() {
    everywhere(|| {
        let mut cat = program(&["cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        let data: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(i) >> 8) as u8).collect();
        let sent = data.clone();
        let writer = spawn(move || input.write_all(&sent));
        let mut got = Vec::new();
        output.read_to_end(&mut got).unwrap();
        writer.join().unwrap().unwrap();
        assert!(got == data && cat.wait().unwrap().success());
    });
}

#[test]
fn a_write_to_a_child_that_has_exited_fails() {
    on(1, || {
        let mut child = program(&["exit", "0"]).stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        child.wait().unwrap();
        // Another child that was just forked may have the other end until it begins its program.
        wait_until("the pipe is broken", || {
            (&input).write(b"x").is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
        });
    });
}

#[test]
fn a_wait_closes_standard_input_first() {
    on(1, || {
        let mut cat = program(&["cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        assert!(cat.wait().unwrap().success());
    });
}

#[test]
fn a_pipe_becomes_a_stream_of_another_child() {
    everywhere(|| {
        // `cat` waits for its input, which is written when the other child has started. It would fail on a
        // non-blocking pipe that is empty.
        let mut first = program(&["cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let into_first = first.stdin.take().unwrap();
        let mut second = program(&["cat"]);
        let second = second.stdin(first.stdout.take().unwrap()).stdout(Stdio::piped()).spawn().unwrap();
        (&into_first).write_all(b"hello").unwrap();
        drop(into_first);
        let output = second.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"hello");
        assert!(output.status.success() && first.wait().unwrap().success());
    });
}

#[test]
fn a_time_out_ends_each_wait() {
    on_each(|| {
        let start = Instant::now();
        let mut child = sleeper();
        assert!(timeout(5 * MILLI, || child.wait()).is_err());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        assert!(!timeout(LONG, || child.wait()).unwrap().unwrap().success());

        let mut child = program(&["sleep"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        assert!(timeout(5 * MILLI, || output.read(&mut [0])).is_err());
        assert!(timeout(5 * MILLI, || input.write_all(&[0; 1 << 20])).is_err());

        assert!(timeout(5 * MILLI, || program(&["sleep"]).kill_on_drop(true).status()).is_err());
        assert!(timeout(5 * MILLI, || program(&["sleep"]).kill_on_drop(true).output()).is_err());
        assert!(start.elapsed() < LONG, "a child was waited for");
    });
}

#[test]
fn a_cancellation_ends_each_wait() {
    type Wait = fn() -> io::Result<()>;
    let waits: [Wait; 4] = [
        || sleeper().wait().map(drop),
        || program(&["sleep"]).kill_on_drop(true).status().map(drop),
        || program(&["sleep"]).kill_on_drop(true).output().map(drop),
        || {
            let mut child = program(&["sleep"]).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
            io::read_to_string(child.stdout.take().unwrap()).map(drop)
        },
    ];
    on_each(|| {
        for wait in waits {
            let start = Instant::now();
            let waits = spawn(wait);
            until_it_waits(&waits);
            waits.cancel();
            assert!(waits.join().unwrap_err().is::<Cancelled>());
            assert!(start.elapsed() < LONG, "a child was waited for");
        }
    });
}

#[test]
fn a_dropped_child_is_killed_if_asked() {
    everywhere(|| {
        let cat = |kill| {
            let mut command = program(&["cat"]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(kill);
            let mut child = command.spawn().unwrap();
            (child.stdin.take().unwrap(), child.stdout.take().unwrap())
        };
        let (_input, output) = cat(true);
        assert_eq!(timeout(LONG, || io::read_to_string(output)).unwrap().unwrap(), "");
        let (input, output) = cat(false);
        (&input).write_all(b"it goes on").unwrap();
        drop(input);
        assert_eq!(timeout(LONG, || io::read_to_string(output)).unwrap().unwrap(), "it goes on");
    });
}

#[cfg(unix)]
#[test]
fn a_dropped_child_is_killed_if_asked_and_leaves_no_zombie() {
    everywhere(|| {
        let killed = sleeper();
        let ends = program(&["line"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut goes_on = program(&["sleep"]).spawn().unwrap();
        let ids = [killed.id(), ends.id()];
        let id = goes_on.id();
        drop((killed, ends));
        wait_until("the children have exited, and their statuses are taken", || !ids.into_iter().any(exists));
        assert!(goes_on.try_wait().unwrap().is_none());
        drop(goes_on);
        assert!(exists(id));
        // SAFETY: the call takes no pointer. The child exists, because its runtime has not taken its status.
        assert_eq!(unsafe { libc::kill(id as i32, libc::SIGKILL) }, 0);
        wait_until("the status is taken", || !exists(id));
    });
}

#[test]
fn many_children_are_waited_for_at_the_same_time() {
    on_each(|| {
        scope(|s| {
            for code in 0..50 {
                s.spawn(move || {
                    let status = program(&["exit", &code.to_string()]).status();
                    assert_eq!(status.unwrap().code(), Some(code))
                });
            }
        });
    });
}

#[test]
fn a_child_of_a_runtime_that_has_ended_can_be_waited_for() {
    let mut child = with_child_of_ended_runtime();
    assert!(child.stdin.take().unwrap().write(b"x").is_ok());
    let error = child.stdout.as_mut().unwrap().read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
}

fn with_child_of_ended_runtime() -> Child {
    let mut made = None;
    with(1, |runtime| {
        let mut command = program(&["sleep"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        made = Some(runtime.block_on(move || command.spawn().unwrap()));
    });
    made.unwrap()
}

/// Waits for `n` children at the same time, until the waits are cancelled. Returns the number of OS threads
/// during the waits.
#[cfg(any(target_os = "linux", windows))]
fn threads_while_children_are_waited_for(n: usize) -> usize {
    // One start at a time, because a start blocks its OS thread.
    let start = |_| {
        let mut command = program(&["sleep"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..n).map(start).collect();
    let wait = |child: Child| spawn(move || child.wait_with_output().map(drop));
    let waiters: Vec<_> = children.into_iter().map(wait).collect();
    waiters.iter().for_each(until_it_waits);
    let threads = tests::system::threads();
    waiters.iter().for_each(|waiter| waiter.cancel());
    waiters.into_iter().for_each(|waiter| assert!(waiter.join().is_err()));
    threads
}

#[cfg(target_os = "linux")]
#[test]
fn waiting_takes_no_os_threads_and_leaves_no_descriptors() {
    use tests::system::descriptors;
    tests::child::passes("waiting_takes_no_os_threads_and_leaves_no_descriptors", "", || {
        runtime::block_on(|| threads_while_children_are_waited_for(1));
        let before = descriptors();
        let threads = runtime::block_on(|| threads_while_children_are_waited_for(100));
        assert!(threads < 50, "100 children took {threads} OS threads");
        wait_until("all descriptors are closed", || descriptors() <= before);
    });
}

/// The system's threads wait, one for some dozens of children.
#[cfg(windows)]
#[test]
fn waiting_takes_few_os_threads() {
    tests::child::passes("waiting_takes_few_os_threads", "", || {
        let few = runtime::block_on(|| threads_while_children_are_waited_for(1));
        let threads = runtime::block_on(|| threads_while_children_are_waited_for(50));
        assert!(threads < few + 15, "50 children took {threads} OS threads, and one took {few}");
    });
}
