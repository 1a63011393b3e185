//! Many threads make one wait of libc at the same time. Another thread makes progress, and ends the waits.

use std::ffi::{CString, c_int};
use std::fs::File;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};
use std::thread;

use libc::timespec;

use super::{MILLI, after, errno, report_os_threads, wait_for};

/// The most threads of a program.
const MOST: usize = 100;
/// Threads that park while they wait.
const PARKED: usize = 100;
/// Threads that may hold an OS thread each.
const HELD: usize = 24;

static COMING: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Lets `threads` threads make the wait `waits`, each with its number. When all have come, another thread
/// ends the wait of each by `ends`. `waits` returns `true` if the wait was what it should be.
fn all_wait(threads: usize, waits: fn(usize) -> bool, ends: fn(usize)) {
    let all: Vec<_> = (0..threads)
        .map(|number| {
            thread::spawn(move || {
                COMING.fetch_add(1, SeqCst);
                let is_right = waits(number);
                ENDED.fetch_add(1, SeqCst);
                is_right
            })
        })
        .collect();
    let ender = thread::spawn(move || {
        wait_for(&COMING, threads);
        thread::sleep(20 * MILLI);
        report_os_threads();
        println!("ended before: {}", ENDED.load(SeqCst));
        (0..threads).for_each(ends);
    });
    let right = all.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>();
    ender.join().unwrap();
    println!("{right} of {threads}");
}

/// The two ends of a pipe for each thread.
static PIPES: [[AtomicI32; 2]; MOST] = [const { [const { AtomicI32::new(-1) }; 2] }; MOST];

fn make_pipes(number: usize) {
    for [reads, writes] in &PIPES[..number] {
        let mut pipe = [0; 2];
        // SAFETY: the place has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        reads.store(pipe[0], SeqCst);
        writes.store(pipe[1], SeqCst);
    }
}

fn reads(number: usize) -> c_int {
    PIPES[number][0].load(SeqCst)
}

fn write_to_pipe(number: usize) {
    // SAFETY: the byte is there.
    assert_eq!(unsafe { libc::write(PIPES[number][1].load(SeqCst), b"x".as_ptr().cast(), 1) }, 1);
}

fn read_byte(number: usize) -> bool {
    let mut byte = 0_u8;
    // SAFETY: the place has one byte.
    unsafe { libc::read(reads(number), (&raw mut byte).cast(), 1) == 1 && byte == b'x' }
}

fn read() {
    make_pipes(PARKED);
    all_wait(PARKED, read_byte, write_to_pipe);
}

fn poll() {
    make_pipes(PARKED);
    let waits = |number| {
        let mut look = libc::pollfd { fd: reads(number), events: libc::POLLIN, revents: 0 };
        // SAFETY: the place has one descriptor.
        unsafe { libc::poll(&mut look, 1, -1) == 1 && look.revents == libc::POLLIN }
    };
    all_wait(PARKED, waits, write_to_pipe);
}

fn set_of(fd: c_int) -> libc::fd_set {
    // SAFETY: all zeroes is an empty set, and the descriptors here are small.
    unsafe {
        let mut set = zeroed();
        libc::FD_SET(fd, &mut set);
        set
    }
}

fn select() {
    make_pipes(PARKED);
    let waits = |number| {
        let (fd, none) = (reads(number), ptr::null_mut());
        let mut set = set_of(fd);
        // SAFETY: the set is this function's.
        unsafe { libc::select(fd + 1, &mut set, none, none, ptr::null_mut()) == 1 }
    };
    all_wait(PARKED, waits, write_to_pipe);
}

fn pselect() {
    make_pipes(PARKED);
    let waits = |number| {
        let (fd, none) = (reads(number), ptr::null_mut());
        let mut set = set_of(fd);
        // SAFETY: as above.
        unsafe { libc::pselect(fd + 1, &mut set, none, none, ptr::null(), ptr::null()) == 1 }
    };
    all_wait(PARKED, waits, write_to_pipe);
}

fn epoll_wait() {
    make_pipes(HELD);
    let waits = |number| {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 5 };
        // SAFETY: the places are this function's.
        unsafe {
            let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            assert_eq!(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, reads(number), &mut event), 0);
            event.u64 = 0;
            let ready = libc::epoll_wait(epoll, &mut event, 1, -1);
            libc::close(epoll);
            ready == 1 && event.u64 == 5
        }
    };
    all_wait(HELD, waits, write_to_pipe);
}

/// So long the threads sleep: longer than all take to begin.
const SLEEP: i64 = 2_000;

fn nanosleep() {
    let waits = |_| {
        let time = timespec { tv_sec: SLEEP / 1_000, tv_nsec: 0 };
        // SAFETY: the time is this function's.
        unsafe { libc::nanosleep(&time, ptr::null_mut()) == 0 }
    };
    all_wait(PARKED, waits, |_| ());
}

fn clock_nanosleep() {
    let waits = |_| {
        let until = after(libc::CLOCK_MONOTONIC, SLEEP);
        // SAFETY: the time is this function's.
        unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &until, ptr::null_mut()) == 0
        }
    };
    all_wait(PARKED, waits, |_| ());
}

/// A semaphore that processes share is libc's whole.
fn shared_semaphore() {
    static SEMAPHORE: AtomicUsize = AtomicUsize::new(0);
    fn semaphore() -> *mut libc::sem_t {
        ptr::with_exposed_provenance_mut(SEMAPHORE.load(SeqCst))
    }
    let place = Box::into_raw(Box::new(MaybeUninit::<libc::sem_t>::zeroed()));
    SEMAPHORE.store(place.expose_provenance(), SeqCst);
    // SAFETY: the place is there as long as the process.
    unsafe {
        assert_eq!(libc::sem_init(semaphore(), 1, 0), 0);
        let waits = |_| {
            while libc::sem_wait(semaphore()) != 0 {
                assert_eq!(errno(), libc::EINTR);
            }
            true
        };
        all_wait(HELD, waits, |_| assert_eq!(libc::sem_post(semaphore()), 0));
    }
}

/// The OS thread of each waiter, for signals to it.
static OS_THREADS: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];

fn send(signal: c_int, number: usize) {
    // SAFETY: the call has no pointers.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), OS_THREADS[number].load(SeqCst), signal) };
}

/// The signal mask is the OS thread's, which the waiter keeps until its wait is over.
fn sigwait() {
    let waits = |number: usize| {
        let mut came = 0;
        // SAFETY: the sets are this function's.
        unsafe {
            let (mut set, mut before) = (zeroed(), zeroed());
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGUSR2);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
            OS_THREADS[number].store(libc::gettid(), SeqCst);
            let waited = libc::sigwait(&set, &mut came);
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
            waited == 0 && came == libc::SIGUSR2
        }
    };
    let ends = |number: usize| {
        while OS_THREADS[number].load(SeqCst) == 0 {
            thread::sleep(MILLI);
        }
        send(libc::SIGUSR2, number);
    };
    all_wait(HELD, waits, ends);
}

fn pause() {
    extern "C" fn nothing(_: c_int) {}
    static PAUSED: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR1, nothing as extern "C" fn(c_int) as libc::sighandler_t) };
    let waits = |number: usize| {
        // SAFETY: the calls have no pointers.
        let paused = unsafe {
            OS_THREADS[number].store(libc::gettid(), SeqCst);
            libc::pause()
        };
        let is_right = paused == -1 && errno() == libc::EINTR;
        PAUSED[number].store(1, SeqCst);
        is_right
    };
    let ends = |number: usize| {
        // The first signals may come before the waiter is in the call.
        while PAUSED[number].load(SeqCst) == 0 {
            send(libc::SIGUSR1, number);
            thread::sleep(MILLI);
        }
    };
    all_wait(HELD, waits, ends);
}

fn waitpid() {
    static CHILDREN: OnceLock<Vec<(c_int, Mutex<Option<ChildStdin>>)>> = OnceLock::new();
    fn children() -> &'static [(c_int, Mutex<Option<ChildStdin>>)] {
        CHILDREN.get_or_init(|| (0..HELD).map(|_| child()).collect())
    }
    /// A child that ends when its input does.
    #[expect(clippy::zombie_processes, reason = "`waitpid` waits for it")]
    fn child() -> (c_int, Mutex<Option<ChildStdin>>) {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        (child.id() as c_int, Mutex::new(child.stdin.take()))
    }
    children();
    let waits = |number: usize| {
        let (child, mut status) = (children()[number].0, -1);
        // SAFETY: the place is this function's.
        loop {
            match unsafe { libc::waitpid(child, &mut status, 0) } {
                -1 if errno() == libc::EINTR => {}
                waited => return waited == child && status == 0,
            }
        }
    };
    all_wait(HELD, waits, |number| drop(children()[number].1.lock().unwrap().take()));
}

/// Returns a path in the folder for temporary files.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("monochrome-waits-{}-{name}", std::process::id()))
}

fn flock() {
    static HOLDER: AtomicI32 = AtomicI32::new(-1);
    let open = || File::create(path("lock")).unwrap();
    let holder = open().into_raw_fd();
    // SAFETY: the call has no pointers.
    assert_eq!(unsafe { libc::flock(holder, libc::LOCK_EX) }, 0);
    HOLDER.store(holder, SeqCst);
    let waits = |_| {
        let file = File::open(path("lock")).unwrap();
        loop {
            // SAFETY: as above. The lock ends with the file.
            match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } {
                -1 if errno() == libc::EINTR => {}
                locked => return locked == 0,
            }
        }
    };
    all_wait(HELD, waits, |number| {
        if number == 0 {
            // SAFETY: as above.
            assert_eq!(unsafe { libc::flock(HOLDER.load(SeqCst), libc::LOCK_UN) }, 0);
        }
    });
    std::fs::remove_file(path("lock")).unwrap();
}

fn fifo() {
    fn of(number: usize) -> PathBuf {
        path(&number.to_string())
    }
    for number in 0..HELD {
        let name = CString::new(of(number).as_os_str().as_bytes()).unwrap();
        // One of an earlier process that was killed.
        let _ = std::fs::remove_file(of(number));
        // SAFETY: the name is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    }
    all_wait(
        HELD,
        |number| File::open(of(number)).is_ok(),
        |number| drop(File::options().write(true).open(of(number)).unwrap()),
    );
    (0..HELD).for_each(|number| std::fs::remove_file(of(number)).unwrap());
}

/// An address as text is converted without a wait.
fn getaddrinfo() {
    let convert = || {
        let mut found = ptr::null_mut();
        // SAFETY: the texts are C strings. The list is freed once.
        unsafe {
            let result = libc::getaddrinfo(c"127.0.0.1".as_ptr(), c"80".as_ptr(), ptr::null(), &mut found);
            let is_right = result == 0 && (*found).ai_family == libc::AF_INET;
            libc::freeaddrinfo(found);
            usize::from(is_right)
        }
    };
    let all: Vec<_> = (0..PARKED).map(|_| thread::spawn(convert)).collect();
    println!("{} of {PARKED}", all.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>());
}

/// Runs the program of this name.
pub fn run(name: &str) {
    match name {
        "read" => read(),
        "poll" => poll(),
        "select" => select(),
        "pselect" => pselect(),
        "epoll_wait" => epoll_wait(),
        "nanosleep" => nanosleep(),
        "clock_nanosleep" => clock_nanosleep(),
        "shared_semaphore" => shared_semaphore(),
        "sigwait" => sigwait(),
        "pause" => pause(),
        "waitpid" => waitpid(),
        "flock" => flock(),
        "fifo" => fifo(),
        "getaddrinfo" => getaddrinfo(),
        _ => panic!("no program {name:?}"),
    }
}
