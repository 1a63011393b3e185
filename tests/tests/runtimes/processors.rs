//! The default number of Ps is that of the processors that the process may use, and follows its changes.
#![cfg(target_os = "linux")]

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use runtime::{Builder, Handle, Runtime};
use tests::child;
use tests::folder::Folder;
use tests::refused::replace_cgroups;
use tests::{Watchdog, wait_until};

const LEFT_OUT: &str = "left out:";
/// Longer than the two questions for the number that are a second apart.
const SOME_QUESTIONS: Duration = Duration::from_millis(2500);

fn processors() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// The files of the cgroup of this process, which the test writes itself.
struct Quota {
    version: u32,
    processors: usize,
    _folder: Folder,
}

impl Quota {
    /// Puts the files into the place of the system's, for the calling thread and the threads it starts.
    fn replaced(version: u32) -> io::Result<Quota> {
        let folder = Folder::new();
        let groups = folder.path("cgroup");
        fs::write(&groups, if version == 1 { "3:cpu:/\n" } else { "0::/\n" })?;
        replace_cgroups(&groups)?;
        match version {
            1 => fs::create_dir("/sys/fs/cgroup/cpu")?,
            _ => fs::write("/sys/fs/cgroup/cgroup.controllers", "cpu\n")?,
        }
        Ok(Quota { version, processors: processors(), _folder: folder })
    }

    /// Allows half a processor more than `n` processors: the quota is rounded down.
    fn set(&self, n: usize) {
        let (limit, period) = (n * 100_000 + 50_000, 100_000);
        self.write(&limit.to_string(), period);
    }

    fn remove(&self) {
        self.write(if self.version == 1 { "-1" } else { "max" }, 100_000);
    }

    fn write(&self, limit: &str, period: usize) {
        if self.version == 1 {
            fs::write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", format!("{limit}\n")).unwrap();
            fs::write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", format!("{period}\n")).unwrap();
        } else {
            // At once, so that no reader finds an empty file.
            fs::write("/sys/fs/cgroup/new", format!("{limit} {period}\n")).unwrap();
            fs::rename("/sys/fs/cgroup/new", "/sys/fs/cgroup/cpu.max").unwrap();
        }
    }
}

/// Runs `body` in a child with a quota for one processor, for both versions of cgroups.
#[track_caller]
fn with_quota(test: &str, env: &[(&str, &str)], body: impl Fn(&Quota)) {
    for version in [1, 2] {
        let watched = || {
            let _dog = Watchdog::new();
            match Quota::replaced(version) {
                Ok(quota) if quota.processors > 1 => {
                    quota.set(1);
                    body(&quota);
                }
                Ok(_) => println!("{LEFT_OUT} there is one processor"),
                Err(error) => println!("{LEFT_OUT} {error}"),
            }
        };
        child::run_with(test, &format!("v{version}"), env, watched, |output| {
            let said = child::text(output);
            assert!(output.status.success(), "version {version}: {}\n{said}", output.status);
            said.lines()
                .filter(|line| line.starts_with(LEFT_OUT))
                .for_each(|line| println!("{test}: {line}"));
        });
    }
}

/// Keeps the runtime busy for a while, in which it has `n` Ps.
fn keeps(runtime: &Runtime, n: usize) {
    runtime.block_on(|| {
        let start = Instant::now();
        while start.elapsed() < SOME_QUESTIONS {
            assert_eq!(Handle::current().procs(), n);
            runtime::sleep(Duration::from_millis(1));
        }
    });
}

/// Waits, on a green thread, until the runtime has `n` Ps.
fn gets(runtime: &Runtime, n: usize) {
    let start = Instant::now();
    runtime.block_on(|| wait_until("the number of Ps follows", || Handle::current().procs() == n));
    println!("{n} Ps after {:?}", start.elapsed());
}

#[test]
fn a_quota_bounds_the_default_number_of_ps() {
    with_quota("a_quota_bounds_the_default_number_of_ps", &[], |quota| {
        assert_eq!(Runtime::new().unwrap().handle().procs(), 1);
        quota.remove();
        assert_eq!(Runtime::new().unwrap().handle().procs(), quota.processors);
        // More than there are.
        quota.set(quota.processors + 1);
        assert_eq!(Runtime::new().unwrap().handle().procs(), quota.processors);
        // Less than one: half a processor.
        quota.set(0);
        assert_eq!(Runtime::new().unwrap().handle().procs(), 1);
    });
}

#[test]
fn the_default_number_follows_the_quota() {
    with_quota("the_default_number_follows_the_quota", &[], |quota| {
        let runtime = Runtime::new().unwrap();
        assert_eq!(runtime.handle().procs(), 1);
        for _ in 0..2 {
            quota.remove();
            gets(&runtime, quota.processors);
            quota.set(1);
            gets(&runtime, 1);
        }
        // A runtime in which nothing happens finds out when there is work again.
        std::thread::sleep(Duration::from_secs(2));
        quota.remove();
        gets(&runtime, quota.processors);
    });
}

#[test]
fn a_number_that_was_set_does_not_follow() {
    with_quota("a_number_that_was_set_does_not_follow", &[], |quota| {
        let given = Builder::new().procs(1).build().unwrap();
        let off = Builder::new().follow_processors(false).build().unwrap();
        let set_later = Runtime::new().unwrap();
        set_later.handle().set_procs(1).unwrap();
        let control = Runtime::new().unwrap();
        quota.remove();
        gets(&control, quota.processors);
        [given, off, set_later].iter().for_each(|runtime| keeps(runtime, 1));
    });
}

#[test]
fn a_number_of_the_environment_does_not_follow() {
    for variable in [("RUNTIME_PROCS", "1"), ("RUNTIME_FOLLOW_PROCESSORS", "off")] {
        with_quota("a_number_of_the_environment_does_not_follow", &[variable], |quota| {
            let runtime = Runtime::new().unwrap();
            quota.remove();
            keeps(&runtime, 1);
        });
    }
}

/// std takes a quota that it cannot read for none.
#[test]
fn the_number_does_not_grow_while_no_descriptor_is_free() {
    with_quota("the_number_does_not_grow_while_no_descriptor_is_free", &[], |quota| {
        let runtime = Runtime::new().unwrap();
        assert_eq!(runtime.handle().procs(), 1);
        let mut all = Vec::new();
        let limit = libc::rlimit { rlim_cur: 100, rlim_max: 100 };
        // SAFETY: the call reads `limit`.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        while let Ok(file) = fs::File::open("/dev/null") {
            all.push(file);
        }
        assert_eq!(processors(), quota.processors, "std cannot read the quota");
        keeps(&runtime, 1);
        drop(all);
        quota.remove();
        gets(&runtime, quota.processors);
    });
}

#[test]
fn the_default_number_follows_the_set_of_processors() {
    let body = || {
        let _dog = Watchdog::new();
        let before = set_of_thread(0).expect("a set of processors");
        let runtime = Runtime::new().unwrap();
        let all = runtime.handle().procs();
        let mut only_one = before;
        let at = only_one.iter().position(|word| *word != 0).expect("a processor");
        only_one[at] &= only_one[at].wrapping_neg();
        only_one[at + 1..].fill(0);
        set_all_threads(&only_one);
        gets(&runtime, 1);
        assert_eq!(Runtime::new().unwrap().handle().procs(), 1);
        set_all_threads(&before);
        gets(&runtime, all);
    };
    child::passes("the_default_number_follows_the_set_of_processors", "", body);
}

/// A processor that goes, and comes back, as those of virtual machines do. It is a change for all that runs
/// on the machine, so `TESTS_HOT_PLUG` asks for it, in a machine of its own (`ci/kernels.sh`).
#[test]
fn the_default_number_follows_processors_that_go_and_come() {
    if std::env::var_os("TESTS_HOT_PLUG").is_none() {
        return println!("{LEFT_OUT} TESTS_HOT_PLUG is not set");
    }
    let _dog = Watchdog::new();
    let plug = |on| fs::write("/sys/devices/system/cpu/cpu1/online", on).expect("a second processor");
    let runtime = Runtime::new().unwrap();
    let all = runtime.handle().procs();
    plug("0");
    gets(&runtime, all - 1);
    plug("1");
    gets(&runtime, all);
}

/// Room for 65,536 processors: the kernel refuses less than it can have.
type Set = [usize; 65_536 / usize::BITS as usize];

fn set_of_thread(thread: libc::pid_t) -> io::Result<Set> {
    let mut set: Set = [0; _];
    // SAFETY: the call writes no more than the size of `set`.
    let failed = unsafe { libc::sched_getaffinity(thread, size_of_val(&set), (&raw mut set).cast()) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(set) }
}

/// As `taskset --all-tasks --pid` does. An OS thread that starts during that has the set of its maker.
fn set_all_threads(set: &Set) {
    for _ in 0..3 {
        for thread in fs::read_dir("/proc/self/task").unwrap() {
            let thread = thread.unwrap().file_name().to_string_lossy().parse().unwrap();
            // SAFETY: the call reads the set. An OS thread that has ended is not found.
            unsafe { libc::sched_setaffinity(thread, size_of_val(set), std::ptr::from_ref(set).cast()) };
        }
    }
}
