//! A descriptor that was waited for stands registered, and its mode and its time limits are remembered.
//! Whatever makes that wrong is noticed: at once if it is done by libc, and after a while if not.

use std::ffi::c_int;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use interpose::servers::Watchdog;
use runtime::{Builder, Runtime, ThreadLocals};

const MILLI: Duration = Duration::from_millis(1);
/// A wait that relies on what is remembered looks after 100 ms.
const LOOKED: Duration = Duration::from_millis(1000);

fn runtime_of(procs: usize) -> Runtime {
    Builder::new().procs(procs).thread_locals(ThreadLocals::OfGreenThread).build().unwrap()
}

/// Runs `test` on one P and on two.
fn on_green_threads(test: fn()) {
    let _watchdog = Watchdog::new();
    for procs in [1, 2] {
        runtime_of(procs).spawn(test).join().unwrap();
    }
}

/// Asserts that most of some waits were not late. A single one may be, on a busy machine.
fn assert_in_time(mut late: Vec<Duration>) {
    late.sort_unstable();
    assert!(late[late.len() / 2] < 70 * MILLI, "{late:?}");
}

/// Returns how late the time-out of a read is.
fn times_out(stream: &mut UnixStream, limit: Duration) -> Duration {
    let start = Instant::now();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    start.elapsed().checked_sub(limit).expect("the read timed out early")
}

/// Returns two ends that have waited for each other, so that both stand registered.
fn known_pair() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let echo = runtime::spawn({
        let mut theirs = theirs.try_clone().unwrap();
        move || {
            for _ in 0..3 {
                theirs.read_exact(&mut [0]).unwrap();
                theirs.write_all(b"x").unwrap();
            }
        }
    });
    for _ in 0..3 {
        (&ours).write_all(b"x").unwrap();
        (&ours).read_exact(&mut [0]).unwrap();
    }
    echo.join().unwrap();
    (ours, theirs)
}

/// Reads on a green thread, which has begun to wait when this returns.
fn reads(stream: &UnixStream) -> runtime::JoinHandle<std::io::Result<usize>> {
    let mut stream = stream.try_clone().unwrap();
    let reader = runtime::spawn(move || stream.read(&mut [0]));
    runtime::sleep(5 * MILLI);
    reader
}

#[test]
fn a_mode_or_a_limit_that_is_set_by_another_descriptor_of_the_file_holds_at_once() {
    on_green_threads(|| {
        let (mut ours, mut theirs) = known_pair();
        let clone = ours.try_clone().unwrap();
        let (mut modes, mut limits) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            clone.set_nonblocking(true).unwrap();
            modes.push(times_out(&mut ours, Duration::ZERO));
            clone.set_nonblocking(false).unwrap();
            clone.set_read_timeout(Some(3 * MILLI)).unwrap();
            // The second wait uses the limit that the first has asked for.
            limits.extend([(); 2].map(|()| times_out(&mut ours, 3 * MILLI)));
            clone.set_read_timeout(None).unwrap();
            let reader = reads(&ours);
            theirs.write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), 1);
        }
        assert_in_time(modes);
        assert_in_time(limits);
    });
}

/// Returns a duplicate that comes by a message to this process.
fn by_message(first: &UnixStream) -> UnixStream {
    let (from, to) = UnixStream::pair().unwrap();
    let (mut byte, mut control) = (1u8, [0u64; 4]);
    let mut buffer = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: the buffers live as long as the calls. The control data has room for one descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut buffer, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let part = libc::CMSG_FIRSTHDR(&raw const message);
        ((*part).cmsg_level, (*part).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        (*part).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(part).cast::<i32>().write_unaligned(first.as_raw_fd());
        assert_eq!(libc::sendmsg(from.as_raw_fd(), &raw const message, 0), 1);
        assert_eq!(libc::recvmsg(to.as_raw_fd(), &raw mut message, 0), 1);
        UnixStream::from_raw_fd(libc::CMSG_DATA(part).cast::<i32>().read_unaligned())
    }
}

/// The descriptor that sets the limit has not waited itself, and the one that waits is a duplicate of it.
#[test]
fn a_limit_of_the_first_descriptor_is_that_of_its_duplicates() {
    on_green_threads(|| {
        type Duplicates = fn(&UnixStream) -> UnixStream;
        // SAFETY: the numbers are new, and those of the calls.
        let ways: [Duplicates; 4] = unsafe {
            [
                by_message,
                |first| first.try_clone().unwrap(),
                |first| UnixStream::from_raw_fd(libc::dup(first.as_raw_fd())),
                |first| UnixStream::from_raw_fd(libc::dup2(first.as_raw_fd(), 900)),
            ]
        };
        for duplicate in ways {
            let (first, mut theirs) = UnixStream::pair().unwrap();
            let mut other = duplicate(&first);
            for _ in 0..3 {
                let reader = reads(&other);
                theirs.write_all(b"x").unwrap();
                assert_eq!(reader.join().unwrap().unwrap(), 1);
            }
            let late = [5, 20, 8, 1, 13].map(|limit| {
                first.set_read_timeout(Some(limit * MILLI)).unwrap();
                times_out(&mut other, limit * MILLI)
            });
            assert_in_time(late.into());
        }
    });
}

/// A descriptor that has its file alone, and has waited.
#[test]
fn a_limit_that_is_set_between_waits_holds() {
    on_green_threads(|| {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let late = [5, 20, 8, 1, 13].map(|limit| {
            ours.set_read_timeout(None).unwrap();
            let mut theirs = theirs.try_clone().unwrap();
            let writer = runtime::spawn(move || {
                runtime::sleep(30 * MILLI);
                theirs.write_all(b"x").unwrap();
            });
            assert_eq!(ours.read(&mut [0]).unwrap(), 1);
            writer.join().unwrap();
            ours.set_read_timeout(Some(limit * MILLI)).unwrap();
            times_out(&mut ours, limit * MILLI)
        });
        assert_in_time(late.into());
    });
}

/// A server sets the limits of each connection, which must not concern the others, and gets these at once.
#[test]
fn the_limits_of_a_new_connection_are_its_own() {
    on_green_threads(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut all = Vec::new();
        for i in 1..=20 {
            let client = TcpStream::connect(address).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            let limit = (i % 4 > 0).then_some(i % 4 * 5 * MILLI);
            server.set_read_timeout(limit).unwrap();
            let (begin, begun) = mpsc::channel();
            let reader = runtime::spawn(move || {
                begin.send(()).unwrap();
                // Both the first wait, which asks, and later ones, which remember.
                let times = [(); 3].map(|()| {
                    let start = Instant::now();
                    (server.read(&mut [0]).map_err(|error| error.kind()), start.elapsed())
                });
                (limit, times)
            });
            begun.recv().unwrap();
            all.push((client, reader));
        }
        runtime::sleep(60 * MILLI);
        let mut late = Vec::new();
        for (client, reader) in all {
            drop(client);
            let (limit, times) = reader.join().unwrap();
            for (result, time) in times {
                match limit {
                    Some(limit) if result.is_err() => {
                        assert_eq!(result, Err(ErrorKind::WouldBlock));
                        late.push(time.checked_sub(limit).expect("the read timed out early"));
                    }
                    _ => assert_eq!(result, Ok(0), "{limit:?}: {time:?}"),
                }
            }
        }
        assert_in_time(late);
    });
}

/// Returns a pair of which the first has this free number. Other threads may have a lower one for a moment.
fn pair_at(fd: RawFd) -> (UnixStream, UnixStream) {
    let mut others = Vec::new();
    for _ in 0..1000 {
        let (one, two) = UnixStream::pair().unwrap();
        match [one.as_raw_fd() == fd, two.as_raw_fd() == fd] {
            [true, _] => return (one, two),
            [_, true] => return (two, one),
            _ => others.push((one, two)),
        }
        std::thread::yield_now();
        others.truncate(8);
    }
    panic!("no socket gets the number {fd}");
}

/// Makes a system call that no hook sees.
fn unseen(number: i64, a: c_int, b: i64, c: i64) -> i64 {
    // SAFETY: the callers give numbers of descriptors that are theirs, and no pointers.
    unsafe { libc::syscall(number, a, b, c) }
}

/// A number that was closed and used again unseen has no registration, and its events do not come.
#[test]
fn a_reader_of_a_number_that_was_used_again_unseen_is_late_and_not_lost() {
    on_green_threads(|| {
        for _ in 0..3 {
            let (ours, _theirs) = known_pair();
            let (new, mut sender) = UnixStream::pair().unwrap();
            let fd: RawFd = ours.into_raw_fd();
            assert_eq!(unseen(libc::SYS_dup3, new.as_raw_fd(), fd.into(), 0), i64::from(fd));
            // SAFETY: the number is that of the duplicate.
            let ours = unsafe { UnixStream::from_raw_fd(fd) };
            let mut reader = ours;
            let reader = runtime::spawn(move || reader.read(&mut [0]));
            runtime::sleep(5 * MILLI);
            let start = Instant::now();
            sender.write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), 1);
            assert!(start.elapsed() < LOOKED, "{:?}", start.elapsed());
        }
    });
}

/// The same, but the new file comes by a call that is hooked: nothing is late.
#[test]
fn a_new_socket_with_a_number_that_was_closed_unseen_is_not_late() {
    on_green_threads(|| {
        let late = [(); 20].map(|()| {
            let (ours, _theirs) = known_pair();
            let fd = ours.into_raw_fd();
            unseen(libc::SYS_close, fd, 0, 0);
            let (mut new, mut sender) = pair_at(fd);
            let start = Instant::now();
            let reader = runtime::spawn(move || new.read(&mut [0]));
            runtime::sleep(2 * MILLI);
            sender.write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), 1);
            start.elapsed()
        });
        assert_in_time(late.into());
    });
}

/// The old file had limits in both directions. The new one waits in one direction first, or by `poll`.
#[test]
fn a_limit_of_the_old_file_of_a_number_is_forgotten() {
    on_green_threads(|| {
        for first in ["read", "poll"] {
            let (mut old, _theirs) = UnixStream::pair().unwrap();
            let fd = old.as_raw_fd();
            old.set_read_timeout(Some(MILLI)).unwrap();
            old.set_write_timeout(Some(MILLI)).unwrap();
            let full = || (0..).find_map(|_| (&old).write(&[0; 4096]).err()).unwrap().kind();
            assert_eq!((full(), full()), (ErrorKind::WouldBlock, ErrorKind::WouldBlock));
            times_out(&mut old, MILLI);
            times_out(&mut old, MILLI);
            drop(old);
            let (mut new, mut theirs) = pair_at(fd);
            let peer = runtime::spawn(move || {
                runtime::sleep(20 * MILLI);
                theirs.write_all(b"xy").unwrap();
                runtime::sleep(20 * MILLI);
                theirs.write_all(b"z").unwrap();
                runtime::sleep(20 * MILLI);
                theirs.read_exact(&mut vec![0; 4 << 20]).unwrap();
            });
            if first == "poll" {
                let mut look = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                // SAFETY: the array is one descriptor.
                assert_eq!(unsafe { libc::poll(&raw mut look, 1, -1) }, 1);
            }
            new.read_exact(&mut [0; 2]).unwrap();
            new.read_exact(&mut [0]).unwrap();
            new.write_all(&vec![0; 4 << 20]).unwrap();
            peer.join().unwrap();
        }
    });
}

#[test]
fn a_mode_that_is_set_unseen_ends_a_wait_after_a_look() {
    on_green_threads(|| {
        let (mut ours, _theirs) = known_pair();
        unseen(libc::SYS_fcntl, ours.as_raw_fd(), libc::F_SETFL.into(), libc::O_NONBLOCK.into());
        assert!(times_out(&mut ours, Duration::ZERO) < LOOKED);
        // After the look it is known.
        assert_in_time([(); 5].map(|()| times_out(&mut ours, Duration::ZERO)).into());
    });
}

/// A wait that is longer than the time after which it looks.
#[test]
fn a_wait_goes_on_after_its_look() {
    on_green_threads(|| {
        let (ours, mut theirs) = known_pair();
        let late = [(); 3].map(|()| {
            let reader = reads(&ours);
            runtime::sleep(250 * MILLI);
            let start = Instant::now();
            theirs.write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), 1);
            start.elapsed()
        });
        assert_in_time(late.into());
    });
}

/// A close ends the waits that needed no system call, and the next file of the number is another one.
#[test]
fn a_close_ends_the_waits_for_what_stands() {
    on_green_threads(|| {
        for _ in 0..50 {
            let (ours, _theirs) = known_pair();
            let fd = ours.as_raw_fd();
            let reader = runtime::spawn(move || {
                let mut byte = [0_u8];
                // SAFETY: the call reads one byte at most.
                let result = unsafe { libc::read(fd, byte.as_mut_ptr().cast(), 1) };
                (result, std::io::Error::last_os_error().raw_os_error())
            });
            runtime::sleep(MILLI);
            drop(ours);
            assert_eq!(reader.join().unwrap(), (-1, Some(libc::EBADF)));
        }
    });
}

/// A child has the descriptor, too: its traffic is its own.
#[test]
fn a_child_uses_a_socket_that_its_parent_has_closed() {
    on_green_threads(|| {
        let (ours, theirs) = known_pair();
        let stdin = Stdio::from(std::os::fd::OwnedFd::from(theirs));
        let mut child = Command::new("cat").stdin(stdin).stdout(Stdio::piped()).spawn().unwrap();
        (&ours).write_all(&[b'x'; 1000]).unwrap();
        drop(ours);
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        assert_eq!(output, [b'x'; 1000]);
        assert!(child.wait().unwrap().success());
    });
}

/// A socket of std that has waited becomes one of the runtime.
#[test]
fn a_socket_that_stands_becomes_one_of_the_runtime() {
    on_green_threads(|| {
        for _ in 0..20 {
            let (ours, mut theirs) = known_pair();
            let mut ours = runtime::net::unix::UnixStream::from(ours);
            let reader = runtime::spawn(move || ours.read(&mut [0]).unwrap());
            runtime::sleep(MILLI);
            theirs.write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap(), 1);
        }
    });
}

/// Many pairs, each of two green threads, which are closed and made anew all the time.
#[test]
fn numbers_that_are_used_again_all_the_time_lose_nothing() {
    let _watchdog = Watchdog::new();
    for procs in [1, 2, 8] {
        let runtime = runtime_of(procs);
        let workers: Vec<_> = (0..16)
            .map(|worker| {
                runtime.spawn(move || {
                    let start = Instant::now();
                    for round in 0..60 {
                        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
                        let asks = (worker + round) % 7;
                        let echo = runtime::spawn(move || {
                            let mut byte = [0];
                            while theirs.read(&mut byte).unwrap() == 1 {
                                theirs.write_all(&byte).unwrap();
                            }
                        });
                        for ask in 0..asks {
                            ours.write_all(&[ask as u8]).unwrap();
                            let mut byte = [0];
                            ours.read_exact(&mut byte).unwrap();
                            assert_eq!(byte, [ask as u8]);
                        }
                        drop(ours);
                        echo.join().unwrap();
                    }
                    start.elapsed()
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| _ = worker.join().unwrap());
    }
}

#[test]
fn descriptors_have_the_owner_that_libc_says() {
    on_green_threads(|| {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let fd = ours.as_raw_fd();
        // SAFETY: the calls take no pointers.
        unsafe {
            let own = libc::getpgrp();
            for owner in [libc::getpid(), -own] {
                assert_eq!(libc::fcntl(fd, libc::F_SETOWN, owner), 0);
                assert_eq!(libc::fcntl(fd, libc::F_GETOWN), owner);
            }
            assert_eq!(libc::fcntl(-1, libc::F_GETOWN), -1);
        }
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
    });
}

/// From now on these system calls of all threads of this process fail, and the one of the number `kills` ends
/// it.
fn refuse(calls: &[i64], kills: i64) {
    let statement = |code: u32, jt: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let is = |call: i64, jt| statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, call as u32);
    let returns = |what| statement(libc::BPF_RET | libc::BPF_K, 0, what);
    // The number of the call is the first word of what the filter sees.
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    filter.extend(calls.iter().enumerate().map(|(at, &call)| is(call, (calls.len() - at + 1) as u8)));
    filter.push(is(kills, 2));
    filter.push(returns(libc::SECCOMP_RET_ALLOW));
    filter.push(returns(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
    filter.push(returns(libc::SECCOMP_RET_KILL_PROCESS));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program lives until the kernel has copied it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let (set, all_threads) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
        assert_eq!(libc::syscall(libc::SYS_seccomp, set, all_threads, &raw const program), 0);
    }
}

/// Asks `times` times, as long as that succeeds, and returns how often it did.
fn ask(stream: &mut UnixStream, times: usize) -> usize {
    let mut ask = || stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0])).is_ok();
    (0..times).take_while(|_| ask()).count()
}

/// What a wait once asked the system for.
#[test]
fn a_wait_for_what_stands_needs_no_other_system_call() {
    const ASKS: usize = 50;
    let _watchdog = Watchdog::new();
    let runtime = runtime_of(2);
    let answered = runtime.spawn(|| {
        let mut all: Vec<_> = (0..8)
            .map(|_| {
                let (mut ours, mut theirs) = UnixStream::pair().unwrap();
                let echo = runtime::spawn(move || {
                    let mut byte = [0];
                    while matches!(theirs.read(&mut byte), Ok(1)) && theirs.write_all(&byte).is_ok() {}
                });
                assert_eq!(ask(&mut ours, 3), 3);
                (ours, echo)
            })
            .collect();
        refuse(&[libc::SYS_epoll_ctl, libc::SYS_getsockopt, libc::SYS_fcntl], libc::SYS_getpid);
        all.iter_mut().map(|(ours, _)| ask(ours, ASKS)).max()
    });
    // A wait of 100 ms looks whether all is as it was. On a busy machine some are so long.
    assert_eq!(answered.join().unwrap(), Some(ASKS));
}
