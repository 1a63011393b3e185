//! Settings of runtimes: those of the program, those of the environment, the defaults; and the default
//! runtime's.

use std::io::ErrorKind;
use std::process::Output;
use std::sync::Barrier;

use runtime::{Builder, Handle, Runtime, spawn};
use tests::{Watchdog, child, os_thread, panics_with};

/// Runs `body` in a child process with one environment variable, and checks that the child succeeds.
fn with_variable(test: &str, variable: &str, value: &str, body: impl FnOnce()) {
    let watched = || {
        let _dog = Watchdog::new();
        body();
    };
    child::run_with(test, &format!("{variable}={value}"), &[(variable, value)], watched, |output| {
        assert!(output.status.success(), "{variable}={value:?}: {}", child::text(output));
    });
}

#[test]
fn the_environment_sets_the_number_of_ps() {
    const TEST: &str = "the_environment_sets_the_number_of_ps";
    for (value, procs) in [("3", 3), (" 5 ", 5), ("4096", 4096)] {
        with_variable(TEST, "RUNTIME_PROCS", value, || {
            assert_eq!(Runtime::new().unwrap().handle().procs(), procs);
            assert_eq!(Handle::current().procs(), procs, "the default runtime");
        });
    }
}

/// A machine with more processors than std's set of processors has places for.
#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(
    target_feature = "crt-static",
    ignore = "a static program loads no library that replaces a function of libc"
)]
fn the_default_number_of_ps_is_that_of_the_set_also_where_std_does_not_know_it() {
    const TEST: &str = "the_default_number_of_ps_is_that_of_the_set_also_where_std_does_not_know_it";
    const PROCESSORS: &str = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <sched.h>
        #include <unistd.h>
        int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) { errno = EINVAL; return -1; }
        long sysconf(int name) {
            if (name == _SC_NPROCESSORS_ONLN) return 5000;
            return ((long (*)(int))dlsym(RTLD_NEXT, "sysconf"))(name);
        }"#;
    let folder = tests::folder::Folder::new();
    let (source, library) = (folder.path("processors.c"), folder.path("processors.so"));
    std::fs::write(&source, PROCESSORS).unwrap();
    // A compiler for the processor of this program.
    let mut compiles = std::process::Command::new(std::env::var("TESTS_CC").unwrap_or("cc".into()));
    compiles.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    assert!(compiles.status().unwrap().success());
    let body = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).unwrap();
        let digits = mask.chars().filter_map(|digit| digit.to_digit(16));
        let in_set = digits.map(u32::count_ones).sum::<u32>() as usize;
        // What stands in for other systems knows no set. A limit of the control group may be lower.
        let expected = if cfg!(portable) { 4096 } else { in_set };
        assert_eq!(runtime::block_on(|| Handle::current().procs()), expected.min(available()));
        println!("{} processors", available());
    };
    child::run_with(TEST, "", &[("LD_PRELOAD", library.to_str().unwrap())], body, |output| {
        assert!(output.status.success(), "{}", child::text(output));
    });
}

/// Where a green thread cannot have thread-locals of its own, the setting is an error that says where it can.
#[test]
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, tsan, portable))
)))]
fn thread_locals_of_green_threads_are_refused_where_there_are_none() {
    const TEST: &str = "thread_locals_of_green_threads_are_refused_where_there_are_none";
    let check = |refused: std::io::Result<Runtime>| {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("need Linux with glibc on x86-64 or AArch64"), "{error}");
    };
    check(Builder::new().thread_locals(runtime::ThreadLocals::OfGreenThread).build());
    with_variable(TEST, "RUNTIME_THREAD_LOCALS", "green", || check(Runtime::new()));
}

#[test]
fn the_program_takes_precedence_over_the_environment() {
    const TEST: &str = "the_program_takes_precedence_over_the_environment";
    for value in ["3", "many"] {
        with_variable(TEST, "RUNTIME_PROCS", value, || {
            assert_eq!(Builder::new().procs(2).build().unwrap().handle().procs(), 2);
        });
    }
}

#[test]
fn a_blank_variable_is_no_setting() {
    let body = || assert_eq!(Runtime::new().unwrap().handle().procs(), available());
    with_variable("a_blank_variable_is_no_setting", "RUNTIME_PROCS", " ", body);
}

fn available() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

#[test]
fn a_wrong_variable_is_named_with_what_is_allowed() {
    const TEST: &str = "a_wrong_variable_is_named_with_what_is_allowed";
    let wrong = [
        ("RUNTIME_PROCS", "0", "a number from 1 to 4096 is expected"),
        ("RUNTIME_PROCS", "many", "a number from 1 to 4096 is expected"),
        ("RUNTIME_PROCS", "-1", "a number from 1 to 4096 is expected"),
        ("RUNTIME_PROCS", "4097", "a number from 1 to 4096 is expected"),
        ("RUNTIME_FOLLOW_PROCESSORS", "yes", "on or off is expected"),
        ("RUNTIME_MIGRATION", "never", "anytime or before-start is expected"),
        ("RUNTIME_LATE_LIBRARIES", "yes", "on or off is expected"),
        ("RUNTIME_STACK_SIZE", "1", "a number of bytes from"),
        ("RUNTIME_STACK_SIZE", "256kb", "such as 262144 or 256KiB, is expected"),
        ("RUNTIME_MAX_THREADS", "0", "a number from 1 is expected"),
        ("RUNTIME_BLOCKING_THREADS", "0", "a number from 1 is expected"),
        ("RUNTIME_SYSMON", "yes", "on or off is expected"),
        #[cfg(unix)]
        ("RUNTIME_DUMP", "KILL", "QUIT, HUP, USR1 or USR2 is expected"),
    ];
    for (variable, value, allowed) in wrong {
        with_variable(TEST, variable, value, || {
            let error = Runtime::new().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let text = error.to_string();
            let named = text.starts_with(&format!("{variable} is \"{value}\": ")) && text.contains(allowed);
            assert!(named && text.ends_with(", or no such variable"), "{text}");
            panics_with("cannot start the default runtime: RUNTIME_", || spawn(|| ()));
        });
    }
}

#[test]
fn the_environment_sets_the_mode() {
    const TEST: &str = "the_environment_sets_the_mode";
    for (value, strict) in [("anytime", false), ("before-start", true)] {
        with_variable(TEST, "RUNTIME_MIGRATION", value, || {
            let runtime = Builder::new().procs(1).build().unwrap();
            let moved = runtime.block_on(move || (0..).find_map(|_| moves(strict)).unwrap());
            assert_eq!(moved, !strict, "{value}");
        });
    }
}

/// Parks, and lets another green thread wake the caller and block the caller's OS thread: in the default mode
/// until the caller runs again, elsewhere. Returns whether the caller has moved, or `None` if the other one
/// ran on another OS thread.
fn moves(strict: bool) -> Option<bool> {
    let (first, caller) = (os_thread(), runtime::thread::current());
    let (resume, resumed) = std::sync::mpsc::channel();
    let other = spawn(move || {
        let here = os_thread() == first;
        caller.unpark();
        runtime::blocking(|| match (here, strict) {
            (true, false) => resumed.recv().unwrap(),
            (true, true) => std::thread::sleep(std::time::Duration::from_millis(20)),
            (false, _) => {}
        });
        here
    });
    runtime::thread::park();
    let moved = os_thread() != first;
    // The other one receives this only if it waits.
    let _ = resume.send(());
    other.join().unwrap().then_some(moved)
}

#[test]
fn the_environment_sets_the_stack_size() {
    const TEST: &str = "the_environment_sets_the_stack_size";
    for (value, fits) in [("64KiB", false), ("8MiB", true), ("8388608", true)] {
        let body = || {
            let _dog = Watchdog::new();
            assert_eq!(runtime::block_on(|| deep(1000)), 1000);
        };
        let check = |output: &Output| {
            let said = child::text(output);
            assert_eq!(output.status.success(), fits, "{value}: {said}");
            assert!(fits || said.contains("overflow"), "{value}: {said}");
        };
        child::run_with(TEST, value, &[("RUNTIME_STACK_SIZE", value)], body, check);
    }
}

/// Uses about `depth` KiB of stack, and returns `depth`.
#[inline(never)]
fn deep(depth: usize) -> usize {
    let kept = std::hint::black_box([1u8; 1024]);
    if depth == 0 { 0 } else { deep(depth - 1) + usize::from(std::hint::black_box(&kept)[depth % 1024]) }
}

#[test]
fn the_environment_bounds_the_os_threads() {
    with_variable("the_environment_bounds_the_os_threads", "RUNTIME_MAX_THREADS", "3", || {
        let runtime = Builder::new().procs(2).build().unwrap();
        runtime.block_on(|| {
            let calls = [(); 20].map(|()| spawn(|| runtime::blocking(|| std::thread::sleep(MOMENT))));
            calls.into_iter().for_each(|call| call.join().unwrap());
        });
        assert!(runtime.handle().metrics().threads <= 3);
    });
}

const MOMENT: std::time::Duration = std::time::Duration::from_millis(2);

#[test]
#[cfg(target_os = "linux")]
fn the_environment_turns_sysmon_off() {
    const TEST: &str = "the_environment_turns_sysmon_off";
    for (value, on) in [("on", true), ("off", false)] {
        with_variable(TEST, "RUNTIME_SYSMON", value, || {
            let runtime = Builder::new().thread_name("named").build().unwrap();
            // A thread that has just started may not have its name yet.
            if on {
                tests::wait_until("sysmon has its name", || has_thread("named-sysmon"));
            } else {
                runtime.block_on(|| runtime::sleep(10 * MOMENT));
                assert!(!has_thread("named-sysmon"));
            }
        });
    }
}

#[test]
fn the_environment_names_the_os_threads() {
    with_variable("the_environment_names_the_os_threads", "RUNTIME_THREAD_NAME", "worker", || {
        let name = runtime::block_on(name_of_os_thread);
        assert!(name.starts_with("worker"), "{name}");
    });
}

/// Returns the name of the caller's OS thread. std's name may be that of the green thread.
#[inline(never)]
fn name_of_os_thread() -> String {
    if cfg!(target_os = "linux") {
        return std::fs::read_to_string("/proc/thread-self/comm").unwrap();
    }
    std::thread::current().name().unwrap_or_default().to_string()
}

#[cfg(target_os = "linux")]
fn has_thread(name: &str) -> bool {
    !tests::system::threads_named(name).is_empty()
}

#[test]
fn the_default_runtime_is_built_once_before_its_first_use() {
    const TEST: &str = "the_default_runtime_is_built_once_before_its_first_use";
    child::passes(TEST, "built", || {
        Builder::new().procs(7).thread_name("mine").build_global().unwrap();
        assert_eq!(Handle::current().procs(), 7);
        assert_eq!(spawn(|| Handle::current().procs()).join().unwrap(), 7);
        let name = runtime::block_on(name_of_os_thread);
        assert!(name.starts_with("mine"), "{name}");
        let again = Builder::new().procs(8).build_global().unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        assert_eq!(Handle::current().procs(), 7);
    });
    child::passes(TEST, "used", || {
        spawn(|| ()).join().unwrap();
        let late = Builder::new().procs(8).build_global().unwrap_err();
        assert_eq!(late.kind(), ErrorKind::AlreadyExists);
        assert!(late.to_string().contains("before the first use"), "{late}");
    });
    child::passes(TEST, "wrong", || {
        let wrong = Builder::new().procs(0).build_global().unwrap_err();
        assert_eq!(wrong.kind(), ErrorKind::InvalidInput);
        Builder::new().procs(5).build_global().unwrap();
        assert_eq!(Handle::current().procs(), 5);
    });
    child::passes(TEST, "green", || {
        // A green thread of another runtime builds the default runtime, too.
        let other = Builder::new().procs(2).build().unwrap();
        other.block_on(|| Builder::new().procs(6).build_global()).unwrap();
        assert_eq!(Handle::current().procs(), 6);
    });
}

#[test]
fn one_of_many_builds_the_default_runtime() {
    child::passes("one_of_many_builds_the_default_runtime", "", || {
        let start = Barrier::new(8);
        let built = std::thread::scope(|scope| {
            let builders = [1, 2, 3, 4, 5, 6, 7, 8].map(|procs| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    Builder::new().procs(procs).build_global().is_ok().then_some(procs)
                })
            });
            builders.into_iter().filter_map(|builder| builder.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(built, [Handle::current().procs()]);
    });
}

/// The environment of a setuid program is that of the user that starts it.
#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(asan, ignore = "LeakSanitizer reads its options from the environment, too")]
fn a_setuid_program_does_not_read_the_environment() {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown};
    const TEST: &str = "a_setuid_program_does_not_read_the_environment";
    const PROGRAM: &str = "SETTINGS_SETUID_PROGRAM";
    const NOBODY: u32 = 65_534;
    if std::env::var_os(PROGRAM).is_some() {
        // SAFETY: `getauxval` reads what the kernel has left at the start of the process.
        if unsafe { libc::getauxval(libc::AT_SECURE) } == 0 {
            println!("no more rights");
            return;
        }
        assert_ne!(Runtime::new().unwrap().handle().procs(), 7);
        // The default runtime would record a trace.
        assert!(spawn(|| panic!("on purpose")).join().is_err());
        runtime::block_on(|| ());
        return;
    }
    let folder = tests::folder::Folder::new();
    std::fs::set_permissions(folder.root(), Permissions::from_mode(0o777)).unwrap();
    let (program, trace) = (folder.path("program"), folder.path("trace.html"));
    // Copied by another process, because a file that is open for writing cannot be executed. A child that
    // another test starts during the copy would keep a descriptor of this process open until its `exec`.
    let copied =
        std::process::Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    if let Err(error) = chown(&program, Some(NOBODY), None) {
        return eprintln!("ignored: a program of another user cannot be made: {error}");
    }
    std::fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let mut command = std::process::Command::new(&program);
    command.args(["--exact", &child::path(TEST), "--nocapture", "--test-threads=1"]);
    command.env(PROGRAM, "1").env("RUNTIME_PROCS", "7").env("RUNTIME_TRACE", &trace);
    let output = command.output().unwrap();
    let said = child::text(&output);
    if said.contains("no more rights") {
        return eprintln!("ignored: this file system has no setuid programs");
    }
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert!(!trace.exists(), "{said}");
}
