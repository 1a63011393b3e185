//! Look-ups of host names: what can be looked up. A time-out or a cancellation ends a look-up of a resolver
//! that does not answer.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use runtime::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket, lookup_host};
use tests::{everywhere, on};

fn addrs(host: impl ToSocketAddrs) -> Vec<SocketAddr> {
    lookup_host(host).unwrap().collect()
}

#[test]
fn names_are_resolved() {
    everywhere(|| {
        for localhost in
            [addrs("localhost:80"), addrs(("localhost", 80)), addrs(("localhost".to_string(), 80))]
        {
            assert!(!localhost.is_empty());
            assert!(localhost.iter().all(|addr| addr.ip().is_loopback() && addr.port() == 80));
        }
        assert!(lookup_host("no such name:80").is_err());
        assert!(TcpStream::connect("no such name:80").is_err());
        for no_address in ["no port", "localhost:http"] {
            assert_eq!(TcpStream::connect(no_address).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    });
}

/// Each type for which std has its own trait.
#[test]
fn addresses_of_each_type_need_no_look_up() {
    let v4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9);
    let v6 = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 9, 0, 0);
    on(1, move || {
        let (string, reference) = (&String::from("127.0.0.1:9"), &&v4);
        let spawned = runtime::metrics::snapshot().spawned;
        for of_v4 in [
            addrs(v4),
            addrs(SocketAddr::V4(v4)),
            addrs((Ipv4Addr::LOCALHOST, 9)),
            addrs((IpAddr::V4(Ipv4Addr::LOCALHOST), 9)),
            addrs("127.0.0.1:9"),
            addrs(String::from("127.0.0.1:9")),
            addrs(string),
            addrs(("127.0.0.1", 9)),
            addrs((String::from("127.0.0.1"), 9)),
            addrs(&[SocketAddr::V4(v4)][..]),
            addrs(reference),
        ] {
            assert_eq!(of_v4, [SocketAddr::V4(v4)]);
        }
        for of_v6 in [addrs(v6), addrs((Ipv6Addr::LOCALHOST, 9)), addrs("[::1]:9"), addrs(("::1", 9))] {
            assert_eq!(of_v6, [SocketAddr::V6(v6)]);
        }
        assert_eq!(runtime::metrics::snapshot().spawned, spawned);
        let none: &[SocketAddr] = &[];
        assert_eq!(TcpListener::bind(none).unwrap_err().kind(), ErrorKind::InvalidInput);
        let socket = UdpSocket::bind(&[SocketAddr::V4(v4), "127.0.0.1:0".parse().unwrap()][..]).unwrap();
        assert_eq!(socket.local_addr().unwrap().ip(), Ipv4Addr::LOCALHOST);
    });
}

#[cfg(target_os = "linux")]
mod silent {
    use std::ffi::CString;
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use runtime::thread::Cancelled;
    use runtime::time::timeout;
    use runtime::{JoinHandle, block_on, scope, sleep, spawn};
    use tests::{child, until_it_waits, wait_until};

    use super::*;

    const MILLI: Duration = Duration::from_millis(1);
    /// Longer than any step of a test takes on a busy machine, and shorter than the resolver waits for an
    /// answer.
    const LONG: Duration = Duration::from_secs(30);

    /// Gives the calling OS thread, and the threads that it starts, a name server that does not answer.
    /// Returns the socket of that server, or `None` if the system does not allow this.
    fn name_server() -> Option<std::net::UdpSocket> {
        // An address of its own for each process.
        let id = std::process::id().to_be_bytes();
        let ip = Ipv4Addr::new(127, 53 + id[1], id[2], id[3]);
        let server = std::net::UdpSocket::bind((ip, 53)).ok()?;
        server.set_read_timeout(Some(LONG)).unwrap();
        // SAFETY: the call takes no pointer.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return None;
        }
        mount(None, "/", libc::MS_REC | libc::MS_PRIVATE)?;
        put("/etc/resolv.conf", &format!("nameserver {ip}\noptions timeout:30 attempts:2\n"))?;
        put("/etc/nsswitch.conf", "hosts: files dns\n")?;
        Some(server)
    }

    /// Puts a file with `text` in the place of the file `at`, for this namespace.
    fn put(at: &str, text: &str) -> Option<()> {
        let folder = tests::folder::Folder::new();
        let file = folder.path("file");
        fs::write(&file, text).ok()?;
        mount(Some(&file), at, libc::MS_BIND)
    }

    fn mount(what: Option<&Path>, at: &str, flags: libc::c_ulong) -> Option<()> {
        let what = what.map(|what| CString::new(what.to_str().unwrap()).unwrap());
        let what = what.as_ref().map_or(std::ptr::null(), |what| what.as_ptr());
        let at = CString::new(at).unwrap();
        // SAFETY: the strings live until the call returns; null is allowed for the rest.
        let result = unsafe { libc::mount(what, at.as_ptr(), std::ptr::null(), flags, std::ptr::null()) };
        (result == 0).then_some(())
    }

    /// Runs `body` in a child process with a name server that does not answer. `body` gets the socket of that
    /// server.
    fn with_silent_resolver(test: &str, body: impl FnOnce(&std::net::UdpSocket)) {
        child::passes(&format!("silent::{test}"), "", || match name_server() {
            Some(server) => body(&server),
            None => eprintln!("LEFT OUT: {test} needs root, mount namespaces and port 53 of loopback"),
        });
    }

    /// Waits until a query has come: the resolver waits for its answer then.
    fn query(server: &std::net::UdpSocket) {
        server.recv(&mut [0; 512]).expect("a query");
    }

    #[test]
    fn a_time_out_ends_a_look_up() {
        with_silent_resolver("a_time_out_ends_a_look_up", |server| {
            let calls: [fn(); 5] = [
                || drop(TcpStream::connect("a.test:80")),
                || drop(TcpStream::connect(("b.test", 80))),
                || drop(TcpListener::bind("c.test:80")),
                || drop(UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", "d.test:80")),
                || drop(lookup_host(String::from("e.test:80"))),
            ];
            for call in calls {
                let start = Instant::now();
                assert!(block_on(|| timeout(500 * MILLI, call)).is_err());
                // A plain OS thread.
                assert!(timeout(MILLI, call).is_err());
                assert!(start.elapsed() < LONG, "the resolver was waited for");
            }
            query(server);
            assert_eq!(block_on(|| addrs("localhost:80"))[0].port(), 80);
        });
    }

    #[test]
    fn a_look_up_that_is_awaited_parks_no_other_branch_of_its_task() {
        with_silent_resolver("a_look_up_that_is_awaited_parks_no_other_branch_of_its_task", |server| {
            let start = Instant::now();
            let runtime = runtime::Builder::new().procs(1).build().unwrap();
            runtime.block_on(async {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                let mut look_ups = std::pin::pin!(async {
                    futures::join!(
                        TcpStream::connect_async("a.test:80"),
                        TcpListener::bind_async("b.test:80"),
                        UdpSocket::bind_async(("c.test", 80)),
                        socket.send_to_async(b"x", "d.test:80"),
                        socket.connect_async("e.test:80"),
                        runtime::net::lookup_host_async(String::from("f.test:80")),
                    )
                });
                // The sleeps are another branch of the task.
                let sleeps = async {
                    for _ in 0..100 {
                        runtime::time::sleep_async(MILLI).await;
                    }
                };
                use futures::future::{Either, select};
                assert!(matches!(select(&mut look_ups, std::pin::pin!(sleeps)).await, Either::Right(_)));
            });
            query(server);
            assert!(start.elapsed() < LONG, "the resolver was waited for");
            // The drop would wait for the resolver.
            runtime.shutdown_timeout(MILLI);
        });
    }

    #[test]
    fn a_cancellation_ends_a_look_up() {
        with_silent_resolver("a_cancellation_ends_a_look_up", |server| {
            let start = Instant::now();
            let looks_up = spawn(|| TcpStream::connect("a.test:80").map(drop));
            query(server);
            looks_up.cancel();
            assert!(looks_up.join().unwrap_err().is::<Cancelled>());
            assert!(start.elapsed() < LONG, "the resolver was waited for");
        });
    }

    #[test]
    fn other_green_threads_run_during_many_look_ups() {
        with_silent_resolver("other_green_threads_run_during_many_look_ups", |server| {
            let runtime = runtime::Builder::new().procs(1).build().unwrap();
            let look_up = |i| move || lookup_host((format!("name{i}.test"), 80)).map(drop);
            let all: Vec<JoinHandle<_>> = (0..50).map(|i| runtime.spawn(look_up(i))).collect();
            all.iter().for_each(until_it_waits);
            query(server);
            runtime.block_on(|| {
                scope(|s| (0..100).for_each(|_| drop(s.spawn(|| sleep(MILLI)))));
                assert!(all.iter().all(|looks_up| !looks_up.is_finished()));
            });
            all.iter().for_each(JoinHandle::cancel);
            wait_until("the callers have ended", || all.iter().all(JoinHandle::is_finished));
            // The drop would wait for the resolver.
            runtime.shutdown_timeout(MILLI);
        });
    }
}
