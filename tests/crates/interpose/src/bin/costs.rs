//! Prints what a caught call costs. Each operation is made by libc's function, which is hooked, and by the
//! system call, in the same process, on a green thread and on a plain OS thread. Also prints a ping-pong over
//! std's sockets beside one over the runtime's.
//!
//! ```sh
//! cargo run --release -p interpose --bin costs
//! ```

use std::ffi::{c_int, c_long};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

runtime::interpose!();

/// The calls of one turn, and the turns. The two sides take turns, each beginning every second pair: what
/// slows the machine for longer than a turn slows both. The medians of the times and of their differences
/// count.
const CALLS: u32 = 1_000;
const PAIRS: usize = 400;
/// The turns of a ping-pong, of which the least time counts.
const TURNS: u32 = 24;
/// The bytes of one call.
const LENGTH: usize = 8;

/// Returns the ns of one call of `call`.
fn time(call: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..CALLS).for_each(|_| call());
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Returns the ns of the hooked call, of the system call, and of their difference.
fn compare(mut hooked: impl FnMut(), mut raw: impl FnMut()) -> [f64; 3] {
    let mut ns = [const { Vec::new() }; 3];
    for pair in 0..PAIRS {
        let mut first = 0.0;
        if pair % 2 == 0 {
            first = time(&mut hooked);
        }
        let system = time(&mut raw);
        let ours = if pair % 2 == 0 { first } else { time(&mut hooked) };
        ns.iter_mut().zip([ours, system, ours - system]).for_each(|(ns, value)| ns.push(value));
    }
    ns.map(|mut ns| {
        ns.sort_by(f64::total_cmp);
        ns[ns.len() / 2]
    })
}

/// Makes a system call that reads or writes `bytes`. It is not libc's function of that name.
fn system(number: c_long, fd: c_int, bytes: *mut u8) {
    let nothing = std::ptr::null::<u8>();
    // SAFETY: the call accesses the bytes alone; the arguments beyond the third are flags and addresses,
    // which are none.
    let done = unsafe { libc::syscall(number, fd, bytes, LENGTH, 0usize, nothing, 0usize) };
    assert_eq!(done, LENGTH as c_long);
}

fn rows() -> Vec<(&'static str, [f64; 3])> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (a, b) = (ours.as_raw_fd(), theirs.as_raw_fd());
    let mut pipe = [0; 2];
    // SAFETY: the call fills the array, and the descriptors are owned from here on.
    let pipe: [OwnedFd; 2] = unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        pipe.map(|fd| OwnedFd::from_raw_fd(fd))
    };
    let [from, to] = [pipe[0].as_raw_fd(), pipe[1].as_raw_fd()];
    let zero = std::fs::File::open("/dev/zero").unwrap();
    let zero = zero.as_raw_fd();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let file = file.as_raw_fd();
    let (mut bytes, mut other) = ([1u8; LENGTH], [1u8; LENGTH]);
    let length = LENGTH;
    let rewind = || {
        // SAFETY: the call takes numbers alone.
        unsafe { libc::lseek(file, 0, libc::SEEK_SET) };
    };
    let (data, data2) = (bytes.as_mut_ptr().cast(), other.as_mut_ptr());
    // SAFETY: each call accesses the eight bytes alone.
    unsafe {
        vec![
            (
                "send + recv, socket pair",
                compare(
                    || {
                        assert_eq!(libc::send(a, data, length, 0), 8);
                        assert_eq!(libc::recv(b, data, length, 0), 8);
                    },
                    || {
                        system(libc::SYS_sendto, a, data2);
                        system(libc::SYS_recvfrom, b, data2);
                    },
                ),
            ),
            (
                "write + read, socket pair",
                compare(
                    || {
                        assert_eq!(libc::write(a, data, length), 8);
                        assert_eq!(libc::read(b, data, length), 8);
                    },
                    || {
                        system(libc::SYS_write, a, data2);
                        system(libc::SYS_read, b, data2);
                    },
                ),
            ),
            (
                "write + read, pipe",
                compare(
                    || {
                        assert_eq!(libc::write(to, data, length), 8);
                        assert_eq!(libc::read(from, data, length), 8);
                    },
                    || {
                        system(libc::SYS_write, to, data2);
                        system(libc::SYS_read, from, data2);
                    },
                ),
            ),
            (
                "lseek + read, file",
                compare(
                    || {
                        rewind();
                        assert_eq!(libc::read(file, data, length), 8);
                    },
                    || {
                        rewind();
                        system(libc::SYS_read, file, data2);
                    },
                ),
            ),
            (
                "read, /dev/zero",
                compare(
                    || assert_eq!(libc::read(zero, data, length), 8),
                    || system(libc::SYS_read, zero, data2),
                ),
            ),
        ]
    }
}

fn answer(mut stream: impl Read + Write) {
    let mut byte = [0];
    while stream.read_exact(&mut byte).is_ok() {
        stream.write_all(&byte).unwrap();
    }
}

/// Returns the least us of a round trip over TCP.
fn ask(mut stream: impl Read + Write) -> f64 {
    const ROUNDS: u32 = 2_000;
    let mut least = f64::INFINITY;
    for _ in 0..TURNS {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            stream.write_all(&[1]).unwrap();
            stream.read_exact(&mut [0]).unwrap();
        }
        least = least.min(start.elapsed().as_micros() as f64 / f64::from(ROUNDS));
    }
    least
}

macro_rules! ping_pong {
    ($net:path, $spawn:path) => {{
        use $net as net;
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = $spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            answer(stream);
        });
        let client = $spawn(move || {
            let stream = net::TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            ask(stream)
        });
        let time = client.join().unwrap();
        server.join().unwrap();
        time
    }};
}

fn print(rows: &[(&str, [f64; 3])]) {
    for (name, [hooked, raw, more]) in rows {
        println!("{name:28} {hooked:7.0} {raw:7.0} {more:+7.0}");
    }
}

fn std_on_green_threads() -> f64 {
    ping_pong!(std::net, runtime::spawn)
}

fn ours() -> f64 {
    ping_pong!(runtime::net, runtime::spawn)
}

fn std_on_os_threads() -> f64 {
    ping_pong!(std::net, std::thread::spawn)
}

fn main() {
    // With an argument, only the ping-pong over these sockets, for a profiler.
    match std::env::args().nth(1).as_deref() {
        Some("std") => return println!("{:.1} us", std_on_green_threads()),
        Some("runtime") => return println!("{:.1} us", ours()),
        _ => {}
    }
    println!("ns by                         libc's  system  more");
    println!("-- on a plain OS thread");
    print(&std::thread::spawn(rows).join().unwrap());
    println!("-- on a green thread");
    print(&runtime::spawn(rows).join().unwrap());
    let (std, ours, plain) = (std_on_green_threads(), ours(), std_on_os_threads());
    println!(
        "-- us of a round trip over TCP: std's sockets {std:.1}, the runtime's {ours:.1}: {:.2}; std's on OS threads {plain:.1}",
        std / ours
    );
}
