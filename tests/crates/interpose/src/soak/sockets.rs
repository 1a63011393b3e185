//! Operations on sockets and pipes.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::{Random, Side, Sum};

/// Writes `parts` random parts, some of them vectored, with pauses.
fn write_parts(mut to: impl Write, seed: u64, parts: u64, most: u64) {
    let mut random = Random::new(seed);
    for _ in 0..parts {
        let bytes = random.bytes(most);
        if random.below(3) == 0 {
            let (first, second) = bytes.split_at(bytes.len() / 2);
            let written = to.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]).unwrap();
            to.write_all(&bytes[written..]).unwrap();
        } else {
            to.write_all(&bytes).unwrap();
        }
        if random.below(4) == 0 {
            std::thread::sleep(Duration::from_micros(random.below(300)));
        }
    }
}

/// Reads up to the end. Returns the number of bytes and their sum.
fn read_parts(mut from: impl Read, seed: u64) -> String {
    let (mut random, mut sum, mut length) = (Random::new(!seed), Sum::new(), 0);
    let (mut first, mut second) = ([0; 300], vec![0; 5000]);
    loop {
        let got = if random.below(3) == 0 {
            let got =
                from.read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]).unwrap();
            sum.add(&first[..got.min(300)]);
            sum.add(&second[..got.saturating_sub(300)]);
            got
        } else {
            let most = 1 + random.below(5000) as usize;
            let got = from.read(&mut second[..most]).unwrap();
            sum.add(&second[..got]);
            got
        };
        length += got;
        if got == 0 {
            return format!("{length} bytes {:x}", sum.0);
        }
    }
}

pub(super) fn stream(side: Side, seed: u64) -> String {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let writer = side.spawn(move || write_parts(theirs, seed, 20, 20_000));
    let read = read_parts(ours, seed);
    writer.join();
    read
}

pub(super) fn pipe(side: Side, seed: u64) -> String {
    let (reader, writer) = std::io::pipe().unwrap();
    let writer = side.spawn(move || write_parts(writer, seed, 15, 40_000));
    let read = read_parts(reader, seed);
    writer.join();
    read
}

pub(super) fn tcp(side: Side, seed: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let clients = 1 + seed % 3;
    let clients: Vec<_> = (0..clients)
        .map(|client| {
            side.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(&[client as u8]).unwrap();
                write_parts(&stream, seed ^ client, 6, 9000);
                stream.shutdown(Shutdown::Write).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer
            })
        })
        .collect();
    for _ in 0..clients.len() {
        let (mut stream, _) = listener.accept().unwrap();
        side.spawn(move || {
            let mut client = [0];
            stream.read_exact(&mut client).unwrap();
            let read = read_parts(&stream, seed ^ u64::from(client[0]));
            stream.write_all(read.as_bytes()).unwrap();
        })
        .join();
    }
    clients.into_iter().map(|client| client.join()).collect::<Vec<_>>().join(", ")
}

pub(super) fn datagrams(side: Side, seed: u64) -> String {
    let ours = UdpSocket::bind("127.0.0.1:0").unwrap();
    let theirs = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (address, back) = (ours.local_addr().unwrap(), theirs.local_addr().unwrap());
    let echo = side.spawn(move || {
        let mut buffer = [0; 2000];
        for _ in 0..10 {
            let (length, from) = theirs.recv_from(&mut buffer).unwrap();
            assert_eq!(from, address);
            theirs.send_to(&buffer[..length], from).unwrap();
        }
    });
    let (mut random, mut sum, mut buffer) = (Random::new(seed), Sum::new(), [0; 2000]);
    for _ in 0..10 {
        let bytes = random.bytes(1500);
        ours.send_to(&bytes, back).unwrap();
        let length = ours.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], bytes);
        sum.add(&bytes);
    }
    echo.join();
    format!("{:x}", sum.0)
}

pub(super) fn time_out(_: Side, seed: u64) -> String {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let time = Duration::from_millis(1 + seed % 5);
    ours.set_read_timeout(Some(time)).unwrap();
    let start = Instant::now();
    let error = ours.read(&mut [0]).unwrap_err();
    assert!(start.elapsed() >= time);
    // Room for nothing more ends a write in time, too.
    ours.set_write_timeout(Some(time)).unwrap();
    let mut written = 0;
    let full = loop {
        match ours.write(&[0; 65_536]) {
            Ok(some) => written += some,
            Err(error) => break error.kind(),
        }
    };
    drop(theirs);
    format!("{:?} {:?} {}", error.kind(), full, written > 0)
}

/// Returns the descriptors that `poll` reports.
fn poll_fds(fds: &[i32], milliseconds: i32) -> Vec<usize> {
    let mut polled: Vec<_> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: the list has the given length.
    let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    let ready: Vec<_> =
        polled.iter().enumerate().filter(|(_, polled)| polled.revents != 0).map(|(at, _)| at).collect();
    assert_eq!(usize::try_from(count).unwrap(), ready.len());
    ready
}

pub(super) fn poll(side: Side, seed: u64) -> String {
    let pairs: Vec<_> = (0..2 + seed % 6).map(|_| UnixStream::pair().unwrap()).collect();
    let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let fds: Vec<_> = ours.iter().map(AsRawFd::as_raw_fd).collect();
    let nothing = poll_fds(&fds, 1);
    let chosen = seed as usize % theirs.len();
    let writer = side.spawn(move || {
        std::thread::sleep(Duration::from_micros(seed % 7 * 200));
        (&theirs[chosen]).write_all(b"x").unwrap();
        theirs
    });
    let one = poll_fds(&fds, -1);
    drop(writer.join());
    let all = poll_fds(&fds, -1);
    format!("{nothing:?} {one:?} {all:?}")
}

pub(super) fn many_readers(side: Side, seed: u64) -> String {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let readers: Vec<_> = (0..5)
        .map(|_| {
            let mut ours = ours.try_clone().unwrap();
            side.spawn(move || ours.read(&mut [0; 8]).unwrap())
        })
        .collect();
    for byte in 0..5 {
        (&theirs).write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_micros(seed * 10));
    }
    drop(theirs);
    // A reader may get the bytes of two. Those that come late see the end.
    let got: usize = readers.into_iter().map(|reader| reader.join()).sum();
    let mut rest = Vec::new();
    (&ours).read_to_end(&mut rest).unwrap();
    format!("{}", got + rest.len())
}

pub(super) fn a_copy_is_closed(side: Side, seed: u64) -> String {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let copies: Vec<_> = (0..4).map(|_| ours.try_clone().unwrap()).collect();
    let reader = side.spawn(move || {
        let mut bytes = [0; 5];
        (&ours).read_exact(&mut bytes).unwrap();
        bytes
    });
    for copy in copies {
        std::thread::sleep(Duration::from_micros(seed * 5));
        drop(copy);
    }
    theirs.write_all(b"hello").unwrap();
    format!("{:?}", reader.join())
}

pub(super) fn shutdown(side: Side, seed: u64) -> String {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut reads = theirs.try_clone().unwrap();
    let reader = side.spawn(move || reads.read(&mut [0]).map_err(|error| error.kind()));
    std::thread::sleep(Duration::from_micros(seed * 20));
    ours.shutdown(Shutdown::Both).unwrap();
    let written = (&theirs).write(&[1]).map_err(|error| error.kind());
    assert_eq!(written, Err(ErrorKind::BrokenPipe));
    format!("{:?}", reader.join())
}

pub(super) fn name(_: Side, seed: u64) -> String {
    let host = ["127.0.0.1", "::1", "localhost"][(seed % 3) as usize];
    let mut found: Vec<_> =
        (host, 80).to_socket_addrs().unwrap().map(|address| address.to_string()).collect();
    found.sort();
    found.join(" ")
}
