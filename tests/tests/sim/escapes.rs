//! What would get out of a simulation fails the run by its name, and does nothing. These are the rows of the
//! table on the page of `runtime::sim`.

use std::ffi::CString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use runtime::sim::{self, Builder};
use runtime::{sleep, spawn};

/// Runs `main`, which must fail the run with this name. Outside of a simulation it is not refused.
#[track_caller]
fn is_refused(name: &str, main: impl Fn() + Send + Sync) {
    let failure = Builder::new().shrink(false).try_explore(1, || {
        main();
        // The run fails at the next step, and not only where an unwrap panics.
        sleep(Duration::from_secs(1));
    });
    let failure = failure.unwrap_err();
    assert!(failure.message().starts_with(&format!("the simulation cannot control {name}")), "{failure}");
    assert!(failure.message().contains("escapes::"), "the stack is missing: {failure}");
}

fn of_c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).unwrap()
}

#[test]
fn files_are_not_read() {
    type Reads = (&'static str, fn(&str));
    let reads: [Reads; 11] = [
        ("open64", |path| drop(fs::File::open(path))),
        ("statx", |path| drop(fs::metadata(path))),
        ("statx", |path| drop(fs::symlink_metadata(path))),
        ("statx", |path| assert!(!fs::exists(path).unwrap_or(false))),
        ("opendir", |path| drop(fs::read_dir(path))),
        ("readlink", |path| drop(fs::read_link(path))),
        ("realpath", |path| drop(fs::canonicalize(path))),
        ("open64", |path| drop(fs::copy(path, "copy"))),
        ("stat64", |path| {
            // SAFETY: the place is that of the type, of which zeros are a value.
            unsafe { libc::stat64(of_c(Path::new(path)).as_ptr(), &mut std::mem::zeroed()) };
        }),
        ("fopen", |path| {
            // SAFETY: both are C strings.
            assert!(unsafe { libc::fopen(of_c(Path::new(path)).as_ptr(), c"r".as_ptr()) }.is_null());
        }),
        ("openat", |path| {
            // SAFETY: the path is a C string.
            unsafe { libc::openat(libc::AT_FDCWD, of_c(Path::new(path)).as_ptr(), 0) };
        }),
    ];
    for (function, read) in reads {
        is_refused(&format!("a file of the system ({function} of Cargo.toml)"), || read("Cargo.toml"));
    }
}

#[test]
fn files_are_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, new) = (folder.path().join("file"), folder.path().join("new"));
    fs::write(&file, "kept").unwrap();
    type Changes = (&'static str, fn(&Path, &Path));
    let changes: [Changes; 11] = [
        ("open64", |file, _| drop(fs::write(file, "lost"))),
        ("open64", |_, new| drop(fs::write(new, "made"))),
        ("mkdir", |_, new| drop(fs::create_dir(new))),
        ("unlink", |file, _| drop(fs::remove_file(file))),
        ("rename", |file, new| drop(fs::rename(file, new))),
        ("linkat", |file, new| drop(fs::hard_link(file, new))),
        ("symlink", |file, new| drop(std::os::unix::fs::symlink(file, new))),
        ("chmod", |file, _| {
            drop(fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o0)));
        }),
        ("rmdir", |file, _| drop(fs::remove_dir(file))),
        // It looks at the path first.
        ("", |file, _| drop(fs::remove_dir_all(file))),
        ("chdir", |_, _| drop(std::env::set_current_dir("/"))),
    ];
    let here = std::env::current_dir().unwrap();
    for (function, change) in changes {
        is_refused(&format!("a file of the system ({function}"), || change(&file, &new));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    assert!(!new.exists());
    assert_eq!(std::env::current_dir().unwrap(), here);
}

#[test]
fn a_refused_call_has_an_error() {
    _ = Builder::new().shrink(false).try_explore(1, || {
        for kind in [fs::read("Cargo.toml").unwrap_err(), fs::metadata("Cargo.toml").unwrap_err()] {
            assert_eq!(kind.kind(), ErrorKind::PermissionDenied);
        }
        std::process::Command::new("true").spawn().unwrap_err();
        std::net::TcpStream::connect("127.0.0.1:1").unwrap_err();
        REFUSED.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(REFUSED.load(Ordering::Relaxed), 1, "the code has gone on after the errors");
    // Metadata of a simulated disk still come through std.
    sim::run(1, || assert!(runtime::fs::metadata("/tmp").unwrap().is_dir()));
}

static REFUSED: AtomicU32 = AtomicU32::new(0);

#[test]
fn child_processes_are_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let command = format!("touch {}", made.display());
    let system = CString::new(&*command).unwrap();
    is_refused("a child process", || drop(std::process::Command::new("sh").args(["-c", &command]).output()));
    is_refused("a child process", || {
        drop(runtime::process::Command::new("sh").args(["-c", &command]).output())
    });
    is_refused("a child process", || {
        use std::os::unix::process::CommandExt;
        let mut forks = std::process::Command::new("sh");
        // SAFETY: the closure does nothing.
        drop(unsafe { forks.args(["-c", &command]).pre_exec(|| Ok(())) }.output());
    });
    // SAFETY: the commands are C strings.
    is_refused("a child process", || assert_eq!(unsafe { libc::system(system.as_ptr()) }, -1));
    is_refused("a child process", || {
        // SAFETY: as above.
        assert!(unsafe { libc::popen(system.as_ptr(), c"r".as_ptr()) }.is_null())
    });
    assert!(!made.exists());
}

#[test]
fn signals_are_not_sent() {
    is_refused("a signal of the system", || {
        // SAFETY: a call of libc without pointers. The signal does nothing by default.
        assert_eq!(unsafe { libc::kill(libc::getpid(), libc::SIGURG) }, -1)
    });
    // SAFETY: as above.
    is_refused("a signal of the system", || assert_eq!(unsafe { libc::raise(libc::SIGURG) }, -1));
    // SAFETY: as above. The alarm would end this process.
    is_refused("a signal of the system", || assert_eq!(unsafe { libc::alarm(1) }, 0));
    // SAFETY: no alarm is set.
    assert_eq!(unsafe { libc::alarm(0) }, 0, "an alarm was set");
}

#[test]
fn the_environment_is_not_changed() {
    const NAME: &str = "TESTS_OF_SIM_ESCAPES";
    // SAFETY: the simulation refuses the change.
    is_refused("a change of the environment", || unsafe { std::env::set_var(NAME, "1") });
    // SAFETY: as above.
    is_refused("a change of the environment", || unsafe { std::env::remove_var("PATH") });
    assert_eq!((std::env::var_os(NAME), std::env::var_os("PATH").is_some()), (None, true));
    sim::run(1, || assert!(std::env::var_os("PATH").is_some(), "it is read"));
}

#[test]
fn sockets_of_the_system_are_not_made() {
    is_refused("a socket of the system", || drop(std::net::TcpListener::bind("127.0.0.1:0")));
    is_refused("a socket of the system", || drop(std::net::UdpSocket::bind("127.0.0.1:0")));
    is_refused("a socket of the system", || drop(std::os::unix::net::UnixListener::bind("/tmp/no-socket")));
    is_refused("a look-up of a name", || drop(std::net::ToSocketAddrs::to_socket_addrs("localhost:1")));
}

#[test]
fn waits_in_real_time_are_not_made() {
    // SAFETY: a call of libc without pointers.
    is_refused("a sleep of the OS thread", || assert_eq!(unsafe { libc::usleep(1_000_000_000) }, 0));
    // SAFETY: as above.
    is_refused("a sleep of the OS thread", || assert_eq!(unsafe { libc::sleep(1_000) }, 0));
    is_refused("a wait for descriptors", || {
        // SAFETY: no descriptor is asked for.
        assert_eq!(unsafe { libc::poll(std::ptr::null_mut(), 0, -1) }, -1)
    });
    // SAFETY: as above.
    sim::run(1, || assert_eq!(unsafe { libc::poll(std::ptr::null_mut(), 0, 0) }, 0, "a look is no wait"));
}

#[test]
fn what_describes_the_process_is_read() {
    sim::run(1, || {
        drop(fs::File::open("/dev/null").unwrap());
        assert!(fs::read_to_string("/proc/self/status").unwrap().contains("Pid"));
        std::thread::available_parallelism().unwrap();
        let stack = std::backtrace::Backtrace::force_capture().to_string();
        assert!(stack.contains("what_describes_the_process_is_read"), "the stack has its names");
    });
}

#[test]
fn calls_are_real_where_the_code_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real");
    let read = sim::run(1, || {
        sim::real(|| fs::write(&path, "real").unwrap());
        let read = sim::real(|| sim::real(|| 1) + fs::read(&path).unwrap().len());
        sim::real(|| fs::remove_file(&path).unwrap());
        assert!(sim::real(|| std::process::Command::new("true").status().unwrap()).success());
        read
    });
    assert_eq!((read, path.exists()), (5, false));
    assert_eq!(sim::real(|| 7), 7, "outside of a simulation");
    // The permission ends with the call, also by a panic, and is that of one green thread.
    is_refused("a file of the system", || {
        _ = std::panic::catch_unwind(|| sim::real(|| std::panic::resume_unwind(Box::new(()))));
        drop(fs::read("Cargo.toml"));
    });
    is_refused("a file of the system", || {
        let other = spawn(|| {
            sleep(Duration::from_secs(1));
            drop(fs::read("Cargo.toml"));
        });
        sim::real(|| sleep(Duration::from_secs(2)));
        other.join().unwrap();
    });
}
