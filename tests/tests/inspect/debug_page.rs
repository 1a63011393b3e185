//! The debug page: what it answers, what it refuses, that it works while all Ps are kept, and its end.

#![cfg(unix)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use runtime::channel::bounded;
use runtime::debug::{self, Handler, Server};
use runtime::dump::{Object, Snapshot};
use runtime::sync::{Mutex, RwLock};
use runtime::{Builder, spawn, thread};
use tests::{Watchdog, child, on, wait_until};

/// Sends `head` and returns the whole answer.
fn ask_raw(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn ask(address: SocketAddr, path: &str) -> String {
    ask_raw(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
}

/// Returns the body of an answer with status 200.
fn body(answer: &str) -> &str {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1
}

#[test]
fn a_page_with_a_token_answers_only_requests_that_have_it() {
    on(2, || {
        let server = Server::builder().token("a secret").serve("127.0.0.1:0").unwrap();
        let ask = |path: &str, header: &str| {
            let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n");
            ask_raw(server.local_addr(), &head)
        };
        let right = ["Authorization: Bearer a secret\r\n", "authorization: Basic dXNlcjphIHNlY3JldA==\r\n"];
        for path in ["/", "/dump", "/metrics", "/waits?seconds=1&format=folded"] {
            right.iter().for_each(|header| _ = body(&ask(path, header)));
        }
        let twice = right.concat();
        for header in ["", "Authorization: Bearer a secre\r\n", "X-Token: a secret\r\n", &twice] {
            for path in ["/", "/dump", "/metrics", "/trace?seconds=1", "/profile?seconds=1", "/waits", "/no"]
            {
                let answer = ask(path, header);
                assert!(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{path} {header}: {answer}");
                assert!(
                    answer.contains("WWW-Authenticate: Basic realm=") && !answer.contains("green thread")
                );
            }
        }
        // A page without a token asks for none.
        let open = debug::serve("127.0.0.1:0").unwrap();
        body(&self::ask(open.local_addr(), "/dump"));
    });
}

#[inline(never)]
fn parks_here() {
    thread::park();
}

/// `?seconds=` gives what has come in that time.
#[test]
fn a_dump_of_some_seconds_has_only_new_green_threads() {
    tests::alone!();
    on(2, || {
        let server = debug::serve("127.0.0.1:0").unwrap();
        let address = server.local_addr();
        let named = |name: &str| thread::Builder::new().name(name.into()).spawn(parks_here).unwrap();
        let mut threads = vec![named("old")];
        // The request may be read later than the new thread is there.
        let is_found = (0..20).any(|_| {
            let asks = std::thread::spawn(move || ask(address, "/dump?seconds=1"));
            runtime::sleep(Duration::from_millis(300));
            threads.push(named("new"));
            let answer = runtime::blocking(|| asks.join().unwrap());
            assert!(!body(&answer).contains("'old'"), "{answer}");
            body(&answer).contains("'new'")
        });
        assert!(is_found, "no answer has the new thread");
        for seconds in ["0", "301", "-1", "x", ""] {
            let answer = ask(address, &format!("/dump?seconds={seconds}"));
            assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{seconds}: {answer}");
        }
        let head = format!("HEAD /dump?seconds=1 HTTP/1.1\r\nHost: {address}\r\n\r\n");
        assert!(ask_raw(address, &head).starts_with("HTTP/1.1 405 "));
        threads.into_iter().for_each(|thread| {
            thread.cancel();
            assert!(thread.join().is_err());
        });
    });
}

/// Two clients that do not read their dumps keep a third one waiting, until one of them leaves.
#[test]
fn two_dumps_are_sent_at_once() {
    tests::alone!();
    on(2, || {
        let server = debug::serve("127.0.0.1:0").unwrap();
        let address = server.local_addr();
        // More than the system keeps for a connection.
        let name = "long ".repeat(500);
        let named = |_| thread::Builder::new().name(name.clone()).spawn(thread::park).unwrap();
        let threads: Vec<_> = (0..8000).map(named).collect();
        let begin = || {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET /dump HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
            stream
        };
        let start = Instant::now();
        let mut clients = [(); 2].map(|()| begin());
        clients.iter_mut().for_each(|client| client.read_exact(&mut [0; 1000]).unwrap());
        let mut third = begin();
        // With room for it, it would come sooner than the two came. For room it waits up to 30 seconds.
        let long = start.elapsed() * 2 + Duration::from_millis(500);
        third.set_read_timeout(Some(long.min(Duration::from_secs(15)))).unwrap();
        third.read(&mut [0; 1000]).unwrap_err();
        // Small answers need no room.
        assert!(body(&ask(address, "/metrics")).contains("runtime_"));
        let [first, second] = clients;
        drop(first);
        third.set_read_timeout(None).unwrap();
        let mut answer = Vec::new();
        third.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(body(&answer).ends_with("8001 green threads\n"), "{}", &answer[answer.len() - 100..]);
        drop((second, server));
        threads.into_iter().for_each(|thread| {
            thread.cancel();
            assert!(thread.join().is_err());
        });
    });
}

/// Returns for which object a green thread waits, once it does.
fn awaited(waits: &runtime::JoinHandle<()>) -> Object {
    let id = waits.thread().id().as_u64().get();
    let find = || Snapshot::take().unwrap().get(id)?.wait.as_ref()?.object.clone();
    wait_until("it waits", || find().is_some());
    find().unwrap()
}

#[test]
fn locks_are_tracked_while_the_page_is_served() {
    tests::alone!();
    on(2, || {
        let me = thread::current().id().as_u64().get();
        let mutex = Arc::new(Mutex::new(()));
        let tracked = || {
            let (guard, its) = (mutex.lock(), mutex.clone());
            let waits = spawn(move || drop(its.lock()));
            let Object::Mutex { holder, .. } = awaited(&waits) else { panic!() };
            drop(guard);
            waits.join().unwrap();
            holder
        };
        assert_eq!(tracked(), None);
        for _ in 0..2 {
            let one = debug::serve("127.0.0.1:0").unwrap();
            let other = debug::serve("127.0.0.1:0").unwrap();
            drop(one);
            assert_eq!(tracked(), Some(me));
            let guard = mutex.lock();
            drop(other);
            // Its record goes with the lock, and no later period finds it.
            drop(guard);
            assert_eq!(tracked(), None);
        }
        // A share that was given back while locks were not tracked is none in a later period.
        let lock = Arc::new(RwLock::new(()));
        let (page, its) = (debug::serve("127.0.0.1:0").unwrap(), lock.clone());
        let ((reads, has_read), (goes, goes_on)) = (bounded::<()>(0), bounded::<()>(0));
        let reader = spawn(move || {
            let share = its.read();
            reads.send(()).unwrap();
            goes_on.recv().unwrap();
            drop(share);
            thread::park();
        });
        has_read.recv().unwrap();
        drop(page);
        goes.send(()).unwrap();
        wait_until("the reader has unlocked", || lock.try_write().is_some());
        let _page = debug::serve("127.0.0.1:0").unwrap();
        let (reads, its) = (lock.read(), lock.clone());
        let writes = spawn(move || drop(its.write()));
        let Object::RwLock { waiting_readers, .. } = awaited(&writes) else { panic!() };
        assert_eq!(waiting_readers, [0_u64; 0]);
        reader.thread().unpark();
        reader.join().unwrap();
        drop(reads);
        writes.join().unwrap();
    });
}

#[test]
fn the_page_the_dump_and_the_metrics_are_served() {
    on(2, || {
        let parked = thread::Builder::new().name("lost".into()).spawn(parks_here).unwrap();
        let server = debug::serve("127.0.0.1:0").unwrap();
        let address = server.local_addr();
        runtime::blocking(|| {
            wait_until("the thread is parked", || {
                body(&ask(address, "/dump")).contains("'lost': waits for an unpark")
            });
            assert!(body(&ask(address, "/dump")).contains("parks_here"), "the dump has stacks");
            let page = ask(address, "/");
            assert!(
                body(&page).starts_with("<!doctype html>")
                    && page.contains("Content-Security-Policy: default-src 'none'")
            );
            assert!(page.contains(&format!("process {}", std::process::id())));
            // It loads nothing from elsewhere.
            assert!(!page.contains("src=") && !page.contains("@import") && !page.contains("url("), "{page}");
            assert!(body(&ask(address, "/metrics")).contains("\nruntime_procs 2\n"));
            assert!(body(&ask(address, "/dump?format=json")).starts_with("{\"version\":"));
            assert!(body(&ask(address, "/trace?seconds=1&format=html")).starts_with("<!doctype html>"));
            assert!(!runtime::trace::is_on() && !body(&ask(address, "/trace")).is_empty());
            assert!(ask(address, "/trace?seconds=0").starts_with("HTTP/1.1 400 "));
            assert!(ask(address, "/nowhere").starts_with("HTTP/1.1 404 "));
            let head = ask_raw(address, &format!("HEAD /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n"));
            assert!(body(&head).is_empty() && !head.contains("Content-Length: 0\r\n"), "{head}");
            for path in ["/profile?seconds=1", "/trace?seconds=1"] {
                let head = ask_raw(address, &format!("HEAD {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
                assert!(head.starts_with("HTTP/1.1 405 ") && head.ends_with("\r\n\r\n"), "{head}");
            }
        });
        parked.thread().unpark();
        parked.join().unwrap();
    });
}

#[test]
fn foreign_and_odd_requests_are_refused() {
    let _dog = Watchdog::new();
    let server = debug::serve("127.0.0.1:0").unwrap();
    let address = server.local_addr();
    for (head, status) in [
        ("GET /dump HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        ("GET /dump HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", 403),
        ("GET /dump HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n", 403),
        ("GET /dump HTTP/1.1\r\n\r\n", 400),
        ("POST /dump HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ("no request\r\n\r\n", 400),
    ] {
        let answer = ask_raw(address, head);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
    }
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let mut stream = TcpStream::connect(address).unwrap();
    let _ = stream.write_all(long.as_bytes());
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
}

#[test]
fn other_machines_need_a_permission() {
    let _dog = Watchdog::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let error = debug::serve(address).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{address}: {error}");
    }
    let server = Server::builder().allow_remote().allow_host("app.test").serve("0.0.0.0:0").unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], server.local_addr().port()));
    assert!(ask_raw(address, "GET /metrics HTTP/1.1\r\nHost: app.test\r\n\r\n").starts_with("HTTP/1.1 200 "));
    assert!(
        ask_raw(address, "GET /metrics HTTP/1.1\r\nHost: other.test\r\n\r\n").starts_with("HTTP/1.1 403 ")
    );
}

#[test]
fn it_answers_while_all_ps_are_kept() {
    let _dog = Watchdog::new();
    // Without sysmon nothing takes the Ps from the hogs.
    let runtime = Builder::new().procs(2).sysmon(false).build().unwrap();
    let server = runtime.block_on(|| debug::serve("127.0.0.1:0")).unwrap();
    let (begun, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (begun, over): (&'static _, &'static _) = (Box::leak(Box::new(begun)), Box::leak(Box::new(over)));
    let hogs: Vec<_> = (0..2)
        .map(|_| {
            runtime.spawn(|| {
                begun.fetch_add(1, Ordering::SeqCst);
                while !over.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    wait_until("both Ps are kept", || begun.load(Ordering::SeqCst) == 2);
    let dump = ask(server.local_addr(), "/dump");
    assert_eq!(body(&dump).matches(": running, spawned at ").count(), 2, "{dump}");
    assert!(
        body(&ask(server.local_addr(), "/metrics")).contains("runtime_green_threads{state=\"running\"} 2")
    );
    over.store(true, Ordering::SeqCst);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
}

#[test]
fn silent_clients_hold_nothing_up() {
    let _dog = Watchdog::new();
    let server = debug::serve("127.0.0.1:0").unwrap();
    let address = server.local_addr();
    let silent: Vec<_> = (0..15).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(ask(address, "/metrics").starts_with("HTTP/1.1 200 "), "one more is served");
    let more: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    // The silent ones are dismissed after some seconds, so there is room again.
    wait_until("silent clients are dismissed", || {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200 ")
    });
    drop((silent, more));
}

/// Lets another thread ask for `path`.
fn asks(address: SocketAddr, path: &'static str) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || ask(address, path))
}

/// In a child, because there is one recording of a process at a time.
#[test]
fn a_trace_lasts_until_its_last_reader_has_it() {
    const TEST: &str = "a_trace_lasts_until_its_last_reader_has_it";
    child::passes(TEST, "two readers", || {
        let server = debug::serve("127.0.0.1:0").unwrap();
        let short = asks(server.local_addr(), "/trace?seconds=5&format=html");
        wait_until("the first one records", runtime::trace::is_on);
        let long = asks(server.local_addr(), "/trace?seconds=10&format=html");
        body(&short.join().unwrap());
        assert!(runtime::trace::is_on(), "the second one records on");
        body(&long.join().unwrap());
        assert!(!runtime::trace::is_on());
    });
}

#[test]
fn a_trace_leaves_the_programs_recording_on() {
    const TEST: &str = "a_trace_leaves_the_programs_recording_on";
    child::passes(TEST, "a start meanwhile", || {
        let server = debug::serve("127.0.0.1:0").unwrap();
        let page = asks(server.local_addr(), "/trace?seconds=5&format=html");
        wait_until("the page records", runtime::trace::is_on);
        assert!(!runtime::trace::start(), "the recording goes on as it is");
        body(&page.join().unwrap());
        assert!(runtime::trace::is_on() && runtime::trace::stop());
        // A recording that the program stops and starts anew is not the page's.
        let page = asks(server.local_addr(), "/trace?seconds=5&format=html");
        wait_until("the page records again", runtime::trace::is_on);
        assert!(runtime::trace::stop() && runtime::trace::start());
        body(&page.join().unwrap());
        assert!(runtime::trace::stop());
    });
}

/// Sends a request and returns the connection, on which the answer will come.
fn begin(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    // A connection for which there is no place is closed at once.
    let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream
}

#[test]
fn a_client_that_goes_away_keeps_no_place() {
    let _dog = Watchdog::new();
    let server = debug::serve("127.0.0.1:0").unwrap();
    let address = server.local_addr();
    for _ in 0..3 {
        let clients: Vec<_> = (0..16).map(|_| begin(address, "/trace?seconds=60")).collect();
        drop(clients);
    }
    wait_until("there is a place again", || {
        let mut answer = String::new();
        begin(address, "/metrics").read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200 ")
    });
    wait_until("the recording ends", || !runtime::trace::is_on());
}

/// Returns `true` while the timer of a profile runs. A profile of the test's own could keep the page from
/// taking one.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn is_profiled() -> bool {
    // SAFETY: all zeroes is a valid `itimerval`, and the call only writes it.
    let timer = unsafe {
        let mut timer = std::mem::zeroed::<libc::itimerval>();
        assert_eq!(libc::getitimer(libc::ITIMER_PROF, &mut timer), 0);
        timer
    };
    timer.it_interval.tv_usec != 0
}

/// In a child, because there is one profile of a process at a time.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn a_client_that_goes_away_ends_its_profile() {
    const TEST: &str = "a_client_that_goes_away_ends_its_profile";
    child::passes(TEST, "a profile", || {
        let server = debug::serve("127.0.0.1:0").unwrap();
        let client = begin(server.local_addr(), "/profile?seconds=300");
        wait_until("it takes a profile", is_profiled);
        drop(client);
        wait_until("the profile has ended", || runtime::profile::cpu(Duration::ZERO).is_ok());
        assert!(!is_profiled());
    });
}

#[test]
fn an_unknown_format_is_refused_at_once() {
    let _dog = Watchdog::new();
    let server = debug::serve("127.0.0.1:0").unwrap();
    let start = Instant::now();
    for path in ["/trace?seconds=60&format=x", "/profile?seconds=300&format=x", "/dump?format=x"] {
        let answer = ask(server.local_addr(), path);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{path}: {answer}");
    }
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn the_metrics_count_calls_that_wait_for_an_os_thread() {
    let _dog = Watchdog::new();
    let runtime = Builder::new().procs(1).blocking_threads(1).build().unwrap();
    let server = runtime.block_on(|| debug::serve("127.0.0.1:0")).unwrap();
    let folder = tests::folder::Folder::new();
    let fifo = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Each waits until the other end is opened, and only one has a place.
    let opens: Vec<_> = (0..3)
        .map(|_| {
            let fifo = fifo.clone();
            runtime.spawn(move || runtime::fs::File::open(fifo).map(drop))
        })
        .collect();
    wait_until("two calls are in line", || {
        body(&ask(server.local_addr(), "/metrics")).contains("\nruntime_blocking_queue_length 2\n")
    });
    let writer = std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    opens.into_iter().for_each(|open| open.join().unwrap().unwrap());
    drop(writer);
}

#[test]
fn the_drop_ends_it() {
    let _dog = Watchdog::new();
    for _ in 0..20 {
        let server = debug::serve("127.0.0.1:0").unwrap();
        let address = server.local_addr();
        let mut waiting = TcpStream::connect(address).unwrap();
        assert!(ask(address, "/metrics").starts_with("HTTP/1.1 200 "));
        let start = Instant::now();
        drop(server);
        assert!(
            start.elapsed() < Duration::from_secs(4),
            "the drop waits for no client: {:?}",
            start.elapsed()
        );
        assert!(matches!(waiting.read(&mut [0]), Ok(0) | Err(_)), "its connections end");
        assert!(TcpStream::connect(address).is_err(), "the port is free");
    }
    // A green thread may drop it.
    on(1, || {
        let server = debug::serve("127.0.0.1:0").unwrap();
        let other = spawn(|| ());
        drop(server);
        other.join().unwrap();
    });
}

#[test]
fn curl_reads_it() {
    let _dog = Watchdog::new();
    let found = Command::new("curl").arg("--version").output().is_ok();
    assert!(found || std::env::var("CI").is_err(), "curl is not installed; ci/setup.sh installs it");
    if !found {
        eprintln!("SKIPPED: curl is not installed");
        return;
    }
    let server = debug::serve("127.0.0.1:0").unwrap();
    let url = |path: &str| format!("http://{}{path}", server.local_addr());
    let curl =
        |args: &[&str]| Command::new("curl").args(["-sS", "--max-time", "20"]).args(args).output().unwrap();
    let page = curl(&["--fail", &url("/")]);
    assert!(page.status.success() && page.stdout.starts_with(b"<!doctype html>"));
    let refused =
        curl(&["-o", "/dev/null", "-w", "%{http_code}", "-H", "Origin: http://evil.example", &url("/dump")]);
    assert_eq!(refused.stdout, b"403");
}

/// Answers one request a connection: `/debug/..` by the page for those who have logged in.
fn serve_with_log_in(listener: &runtime::net::TcpListener, page: &Handler) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let (method, rest) = head.split_once(' ').unwrap();
        let (target, _) = rest.split_once(' ').unwrap();
        let (status, headers, body) = match target.strip_prefix("/debug") {
            Some(target) if head.contains("Cookie: session=7\r\n") => {
                let answer = page.answer(method, target).unwrap();
                (answer.status(), answer.headers(), answer.body().to_vec())
            }
            Some(_) => (401, Vec::new(), Vec::new()),
            None => (200, Vec::new(), b"shop".to_vec()),
        };
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("HTTP/1.1 {status} OK\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    }
}

#[test]
fn a_program_has_the_page_behind_its_own_server_and_log_in() {
    on(2, || {
        let listener = runtime::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = spawn(move || serve_with_log_in(&listener, &Handler::new()));
        let ask = |path: &str, header: &str| {
            runtime::blocking(|| ask_raw(address, &format!("GET {path} HTTP/1.1\r\n{header}\r\n")))
        };
        let logged_in = "Cookie: session=7\r\n";
        let page = ask("/debug/", logged_in);
        assert!(page.contains("\r\nContent-Security-Policy: default-src 'none'"), "{page}");
        let page = body(&page);
        // The browser asks below `/debug/`.
        assert!(page.contains("fetch(\"metrics\")") && page.contains("href=\"dump\""));
        assert!(!page.contains("fetch(\"/") && !page.contains("href=\"/"));
        let grouped = ask("/debug/dump?format=grouped", logged_in);
        assert!(body(&grouped).contains("serve_with_log_in"), "{grouped}");
        let pprof = ask("/debug/dump?format=pprof", logged_in);
        assert!(pprof.contains("Content-Disposition: attachment; filename=\"green_threads.pb\"\r\n"));
        assert!(body(&ask("/debug/metrics", logged_in)).contains("runtime_"));
        let waits = thread::spawn(parks_here);
        let profile = ask("/debug/waits?seconds=1&format=folded", logged_in);
        assert!(body(&profile).contains("parks_here;"), "{profile}");
        waits.cancel();
        assert!(ask("/debug/dump", "").starts_with("HTTP/1.1 401 "));
        assert_eq!(body(&ask("/", "")), "shop");
        server.cancel();
    });
}

#[test]
fn a_handler_refuses_with_a_status() {
    // On a plain OS thread, too: the metrics are those of the default runtime.
    let page = Handler::new();
    let status = |method, target| page.answer(method, target).unwrap().status();
    for target in ["/", "/dump", "/metrics"] {
        assert_eq!([status("GET", target), status("HEAD", target)], [200; 2], "{target}");
    }
    assert_eq!([status("POST", "/dump"), status("get", "/dump"), status("", "/")], [405; 3]);
    assert_eq!([status("GET", "/no"), status("GET", ""), status("GET", "dump")], [404; 3]);
    assert_eq!([status("GET", "/dump?format=x"), status("GET", "/trace?seconds=0")], [400; 2]);
    assert_eq!(status("HEAD", "/profile"), 405);
}

#[test]
fn a_third_dump_of_a_handler_waits_for_one_of_two() {
    on(2, || {
        let page = Arc::new(Handler::new());
        let dump = || page.answer("GET", "/dump").unwrap();
        let (first, second) = (dump(), dump());
        assert_eq!([first.status(), second.status()], [200; 2]);
        let third = spawn({
            let page = page.clone();
            move || page.answer("GET", "/dump").unwrap().status()
        });
        // It has begun, and looks for room each 50 ms.
        runtime::sleep(Duration::from_millis(300));
        assert!(!third.is_finished(), "three dumps at once");
        // What is small needs no room.
        assert_eq!(page.answer("GET", "/metrics").unwrap().status(), 200);
        drop(first);
        assert_eq!(third.join().unwrap(), 200);
    });
}
