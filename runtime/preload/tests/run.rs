//! Programs that are there already, by `monochrome run`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output};
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

const LAUNCHER: &str = env!("CARGO_BIN_EXE_monochrome");
const PLAIN: &str = env!("CARGO_BIN_EXE_plain");
const FORKS: &str = env!("CARGO_BIN_EXE_forks");

/// Returns a command that runs the launcher with the library of this build, which `cargo test` does not
/// build.
fn launcher() -> Command {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build",
            "--quiet",
            "--locked",
            "--lib",
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ]);
        build.args((!cfg!(debug_assertions)).then_some("--release"));
        assert!(build.status().unwrap().success(), "the library cannot be built");
    });
    Command::new(LAUNCHER)
}

fn run(program: &str, args: &[&str], threads: &str) -> Output {
    // Builds the library.
    let launcher = launcher();
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "100"]).arg(launcher.get_program()).arg("run").arg(program).args(args);
    command.env("RUNTIME_THREADS", threads).output().unwrap()
}

/// Runs a program in both modes, which succeeds and prints the same. Returns what it has printed on stdout
/// and, with green threads, on stderr.
#[track_caller]
fn same(program: &str, args: &[&str]) -> (Vec<u8>, String) {
    let [green, os] = ["green", "os"].map(|threads| run(program, args, threads));
    let errors = String::from_utf8_lossy(&green.stderr).into_owned();
    assert!(green.status.success() && os.status.success(), "{program} {args:?}: {green:?}");
    assert!(green.stdout == os.stdout, "{program} {args:?} prints other things: {errors}");
    (green.stdout, errors)
}

/// Returns `false`, and says so, if the program is missing here. CI has all.
fn has(program: &str) -> bool {
    has_in(&[], program)
}

/// As `has`, also for programs in these folders.
fn has_in(more: &[&str], program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap();
    let mut folders = std::env::split_paths(&folders).chain(more.iter().map(Into::into));
    let there = folders.any(|folder| folder.join(program).is_file());
    assert!(
        there || std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "{program} is missing: run ci/setup.sh"
    );
    if !there {
        eprintln!("not tried: {program} is missing; ci/setup.sh installs it");
    }
    there
}

fn os_threads(errors: &str) -> usize {
    let line = errors.lines().find_map(|line| line.strip_prefix("OS threads: "));
    line.expect("a count of OS threads").parse().unwrap()
}

#[test]
fn a_program_of_std() {
    let (printed, errors) = same(PLAIN, &[]);
    assert_eq!(String::from_utf8(printed).unwrap(), "44850 44850 44850\nchild: \"\"\n");
    assert!(os_threads(&errors) < 60, "{errors}");
    assert!(os_threads(&String::from_utf8_lossy(&run(PLAIN, &[], "os").stderr)) > 300);
}

#[test]
fn children_are_as_ever_unless_they_are_asked_for() {
    let run = |children: &str| {
        let mut command = launcher();
        let output = command.args(["run", PLAIN]).env("RUNTIME_CHILDREN", children).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run("").contains("child: \"\""));
    assert!(run("green").contains("libmonochrome_preload.so\""));
}

#[test]
fn what_cannot_be_run_is_said() {
    let fails = |args: &[&str], code, text: &str| {
        let output = launcher().args(args).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains(text), "{errors}");
    };
    fails(&[], 2, "usage: monochrome run PROGRAM");
    fails(&["walk", PLAIN], 2, "usage: monochrome run PROGRAM");
    fails(&["run", "no-such-program"], 127, "no-such-program: there is no such program");
    fails(&["run", "/etc/passwd"], 127, "/etc/passwd: ");
}

/// 200 threads of Python's interpreter: locks of pthread, conditions and semaphores.
#[test]
fn threads_of_python() {
    let program = "
import os, threading, queue, sys, time
done, results, lock = queue.Queue(), [], threading.Lock()
def work(i):
    time.sleep(1)
    with lock: results.append(i)
    done.put(i * i)
threads = [threading.Thread(target=work, args=(i,)) for i in range(200)]
[t.start() for t in threads]
time.sleep(0.3)
print('OS threads:', len(os.listdir('/proc/self/task')), file=sys.stderr)
[t.join() for t in threads]
print(sum(done.get() for _ in threads), sorted(results) == list(range(200)))";
    // Not by a script that a version manager has in its place.
    let python = "/usr/bin/python3";
    if has(python) {
        let (printed, errors) = same(python, &["-c", program]);
        assert_eq!(printed, b"2646700 True\n");
        assert!(os_threads(&errors) < 60, "{errors}");
    }
}

#[test]
fn a_forked_child_starts_threads_and_returns_from_main() {
    let (printed, _) = same(FORKS, &[]);
    assert_eq!(printed, b"children: 7 8\n");
}

/// Compressors and a sort with threads: the same bytes come out.
#[test]
fn tools_with_threads() {
    let input = Path::new(env!("CARGO_TARGET_TMPDIR")).join("input");
    let lines: String =
        (0..400_000_u64).map(|i| format!("{:016x}\n", i.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
    std::fs::write(&input, &lines).unwrap();
    let tools: [(&str, &[&str], bool); 4] = [
        ("pigz", &["-p", "8", "-c", "-n"], true),
        ("xz", &["-T", "8", "-c", "-1", "--block-size=500000"], true),
        ("zstd", &["-T8", "-c", "-q", "-3"], true),
        ("sort", &["--parallel=8", "-S", "2M"], false),
    ];
    for (program, args, packs) in tools.into_iter().filter(|(program, ..)| has(program)) {
        let (output, _) = same(program, &[args, &[input.to_str().unwrap()]].concat());
        if packs {
            let packed = input.with_extension(program);
            std::fs::write(&packed, output).unwrap();
            let unpacked = Command::new(program)
                .args(["-d", "-c"])
                .stdin(std::fs::File::open(packed).unwrap())
                .output()
                .unwrap();
            assert!(unpacked.stdout == lines.as_bytes(), "{program}: other bytes");
        } else {
            assert!(output.split(|&byte| byte == b'\n').is_sorted_by(|a, b| b.is_empty() || a <= b));
        }
    }
}

/// A search by threads that share a queue of folders: the same lines are found.
#[test]
fn ripgrep() {
    if has("rg") {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../src");
        let find = |threads| {
            let output = run("rg", &["-j", "8", "-n", "unsafe", folder], threads);
            assert!(output.status.success(), "{output:?}");
            // The threads find them in any order.
            let mut lines: Vec<String> =
                String::from_utf8(output.stdout).unwrap().lines().map(Into::into).collect();
            lines.sort_unstable();
            lines
        };
        let found = find("green");
        assert!(found.len() > 100 && found == find("os"), "{found:?}");
    }
}

/// Threads of pthread in forked children, checked by stress-ng itself.
#[test]
fn stress_ng() {
    if has("stress-ng") {
        let args = ["--pthread", "2", "--pthread-ops", "1000", "--timeout", "60", "--verify"];
        same_but_for_its_log("stress-ng", &args);
    }
}

/// Runs a program in both modes, which succeeds.
#[track_caller]
fn same_but_for_its_log(program: &str, args: &[&str]) {
    for threads in ["green", "os"] {
        let output = run(program, args, threads);
        assert!(output.status.success(), "{program} {args:?} with {threads} threads: {output:?}");
    }
}

/// A server with threads of its own: memcached, with 20 clients.
#[test]
fn memcached() {
    if !has("memcached") {
        return;
    }
    for threads in ["green", "os"] {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = launcher();
        command.args([
            "run",
            "memcached",
            "-l",
            "127.0.0.1",
            "-t",
            "4",
            "-u",
            "root",
            "-p",
            &port.to_string(),
        ]);
        let _server = Server(command.env("RUNTIME_THREADS", threads).spawn().unwrap());
        let connect = || {
            let end = Instant::now() + Duration::from_secs(20);
            loop {
                match TcpStream::connect(("127.0.0.1", port)) {
                    Err(_) if Instant::now() < end => thread::sleep(Duration::from_millis(10)),
                    connected => return connected.unwrap(),
                }
            }
        };
        let client = |number: usize| {
            let (stream, mut line) = (connect(), String::new());
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut replies = BufReader::new(&stream);
            for i in 0..100 {
                let (key, value) = (format!("key-{number}-{i}"), format!("{:08}", number * i));
                let mut reply = |request: &str| {
                    (&stream).write_all(request.as_bytes()).unwrap();
                    line.clear();
                    replies.read_line(&mut line).unwrap();
                    line.clone()
                };
                assert_eq!(reply(&format!("set {key} 0 0 8\r\n{value}\r\n")), "STORED\r\n");
                assert_eq!(reply(&format!("get {key}\r\n")), format!("VALUE {key} 0 8\r\n"));
                let mut rest = [0; 15];
                replies.read_exact(&mut rest).unwrap();
                assert_eq!(rest, *format!("{value}\r\nEND\r\n").as_bytes());
            }
        };
        thread::scope(|scope| (0..20).for_each(|number| _ = scope.spawn(move || client(number))));
    }
}

/// MariaDB's server, with a client of 20 threads, is shut down by a signal, and by a client. It blocks the
/// signal in all threads, and one of them waits for it.
#[test]
fn mariadb() {
    let programs = ["mariadbd", "mariadb-install-db", "mariadb-slap", "mariadb-admin"];
    if !programs.into_iter().all(|program| has_in(&["/usr/sbin"], program)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let of_folder = |name: &str| format!("--{name}={}", folder.path().join(name).display());
    let (data, socket) = (of_folder("datadir"), of_folder("socket"));
    // A user is refused by all but the superuser.
    // SAFETY: the call has no requirements.
    let user = if unsafe { libc::getuid() } == 0 { &["--user=root"][..] } else { &[] };
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", &data, "--skip-test-db", "--auth-root-authentication-method=normal"]);
    let installed = install.args(user).output().unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let client = |program: &str, args: &[&str]| {
        let mut command = Command::new("timeout");
        command.args(["60", program, "--no-defaults", &socket, "--user=root"]).args(args);
        command.output().unwrap()
    };
    for (threads, by_signal) in [("green", true), ("green", false), ("os", true)] {
        let mut command = launcher();
        command.args(["run", "/usr/sbin/mariadbd", "--no-defaults", &data, &socket, &of_folder("pid-file")]);
        command.args(["--skip-networking", "--innodb-buffer-pool-size=16M"]).args(user);
        let log = folder.path().join("log");
        command.stderr(std::fs::File::create(&log).unwrap());
        let mut server = Server(command.env("RUNTIME_THREADS", threads).spawn().unwrap());
        let log = || std::fs::read_to_string(&log).unwrap();
        let start = Instant::now();
        while !client("mariadb-admin", &["ping"]).status.success() {
            assert!(start.elapsed() < Duration::from_secs(60), "it does not begin: {}", log());
            thread::sleep(Duration::from_millis(50));
        }
        let load = ["--auto-generate-sql", "--concurrency=20", "--number-of-queries=1000"];
        let loaded = client("mariadb-slap", &load);
        assert!(loaded.status.success(), "{loaded:?} {}", log());
        if by_signal {
            // SAFETY: the call has no pointers.
            assert_eq!(unsafe { libc::kill(server.0.id() as libc::pid_t, libc::SIGTERM) }, 0);
        } else {
            let shut_down = client("mariadb-admin", &["shutdown"]);
            assert!(shut_down.status.success(), "{shut_down:?} {}", log());
        }
        let start = Instant::now();
        let status = loop {
            if let Some(status) = server.0.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "it does not end: {}", log());
            thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success() && log().contains("Shutdown complete"), "{status:?} {}", log());
    }
}

/// Threads of C are cancelled in each kind of wait, with and without unwind tables for exceptions.
#[test]
fn threads_of_c_are_cancelled() {
    if !has("gcc") {
        return;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/cancel.c");
    for (name, flags) in [("plain", &["-O0"][..]), ("exceptions", &["-O2", "-fexceptions"])] {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cancel-{name}"));
        let mut build = Command::new("gcc");
        build.args(["-Wall", "-Wno-unused-result", "-pthread", "-o"]).arg(&program).arg(source).args(flags);
        assert!(build.status().unwrap().success());
        let program = program.to_str().unwrap();
        let [green, os] = [run(program, &[], "green"), Command::new(program).output().unwrap()];
        let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
        let (printed, errors) = (text(&green), String::from_utf8_lossy(&green.stderr));
        assert_eq!(printed, text(&os), "{errors}");
        assert_eq!(printed.matches(": 4 cancelled, 4 handled\n").count(), 15, "{printed}{errors}");
        let rest = "pthread_join: cancelled, 1 handled\nits thread can be joined: cancelled\nsemaphore: 0, 0\n\
            mutex: 0\nnested: cancelled, xbac\nexit: returned, xbac\ndisabled: cancelled, 3\n\
            data: cancelled, 1 left\nitself: cancelled, 1\nearly: 500 500\n\
            at any moment: 1200, semaphore: 0\n";
        assert!(printed.ends_with(rest), "{printed}{errors}");
        // Only at cancellation points.
        let [green, os] = ["green", "os"].map(|threads| run(program, &["asynchronous"], threads).stdout);
        assert_eq!((green, os), (format!("{}\n", libc::ENOTSUP).into_bytes(), b"0\n".to_vec()));
    }
}

/// A server, which ends with the test, also if that fails.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// No library can be preloaded into a static program. (Skipped where there is no C compiler.)
#[test]
fn a_static_program_is_refused() {
    if !has("gcc") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("static.c"), folder.join("static"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let built = Command::new("gcc").args(["-static", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(built.success());
    let output = run(program.to_str().unwrap(), &[], "green");
    assert_eq!(output.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&output.stderr).contains("it is linked statically"), "{output:?}");
}
