//! Unchanged blocking clients (ureq, redis, libpq, libcurl), many at a time on green threads: no OS thread for each.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use interpose::Peak;
use interpose::servers::{Postgres, Watchdog, free_port, missing, wait_for_port};

/// How long each server takes for an answer.
const DELAY: Duration = Duration::from_millis(200);

fn procs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `client` on `count` green threads at a time. Asserts that this takes no OS thread for each, and not the time of one after
/// another.
fn run_all(name: &str, count: usize, client: impl Fn(usize) + Copy + Send + 'static) {
    let rescues = || runtime::metrics::snapshot().rescues_computing as usize;
    let (peak, start, before) = (Peak::new(), Instant::now(), rescues());
    runtime::block_on(move || {
        let builder = || runtime::thread::Builder::new().stack_size(1 << 20);
        let clients: Vec<_> = (0..count).map(|i| builder().spawn(move || client(i)).unwrap()).collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    let (peak, time, rescued) = (peak.end(), start.elapsed(), rescues() - before);
    eprintln!("{name}: {count} at once took {time:?} and {peak} OS threads; {rescued} computed for too long");
    // Beside the Ms: the main thread, the thread of the test, the watchdog and sysmon. Each client that computes for too long on a
    // busy machine may take an OS thread; one that blocks is not expected.
    assert!(peak <= procs() + 6 + 4 + rescued, "{name}: {peak} OS threads");
    assert!(time < DELAY * count as u32 / 4, "{name}: {time:?}");
}

/// A server of green threads that answers each request after `DELAY`. Returns its port.
fn http_server() -> u16 {
    use std::io::{BufRead, BufReader, Write};
    let listener = runtime::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime::spawn(move || {
        loop {
            let (stream, _) = listener.accept().unwrap();
            runtime::spawn(move || {
                let mut reader = BufReader::new(&stream);
                let mut line = String::new();
                while reader.read_line(&mut line).unwrap_or(0) > 0 {
                    if line.trim().is_empty() {
                        runtime::sleep(DELAY);
                        let answer =
                            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
                        (&stream).write_all(answer).unwrap();
                        return;
                    }
                    line.clear();
                }
            });
        }
    });
    port
}

#[test]
fn ureq_fetches_many_urls_at_once() {
    let _dog = Watchdog::new();
    let port = http_server();
    run_all("ureq", 1000, move |i| {
        let mut answer = ureq::get(format!("http://127.0.0.1:{port}/{i}")).call().unwrap();
        assert_eq!(answer.body_mut().read_to_string().unwrap(), "hello");
    });
}

struct Redis(Child);

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn redis_clients_wait_at_once() {
    let _dog = Watchdog::new();
    let port = free_port();
    let mut server = Command::new("redis-server");
    server.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    let Ok(server) = server.stdout(Stdio::null()).spawn() else { return missing("redis-server") };
    let _server = Redis(server);
    wait_for_port(port);
    run_all("redis", 500, move |i| {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
        let mut connection = client.get_connection().unwrap();
        let nothing: Option<(String, String)> =
            redis::cmd("BLPOP").arg(format!("list-{i}")).arg(0.2).query(&mut connection).unwrap();
        assert_eq!(nothing, None);
        let set: String = redis::cmd("SET").arg(i).arg(i * 2).query(&mut connection).unwrap();
        let got: usize = redis::cmd("GET").arg(i).query(&mut connection).unwrap();
        assert_eq!((set.as_str(), got), ("OK", i * 2));
    });
}

/// A C library that is loaded at run time, so that its headers need not be installed.
#[derive(Clone, Copy)]
struct Library(*mut c_void);

// SAFETY: the handle of a loaded library may be used on any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    fn load(name: &CStr) -> Option<Library> {
        // SAFETY: the name ends with a zero byte; the library's constructors are those of a Debian package.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        (!handle.is_null()).then_some(Library(handle))
    }

    /// Returns a function of the library.
    ///
    /// # Safety
    /// `F` is the type of that function.
    unsafe fn get<F: Copy>(&self, name: &CStr) -> F {
        // SAFETY: the handle and the name are valid.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!address.is_null(), "{name:?}");
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        // SAFETY: the caller's promise.
        unsafe { std::mem::transmute_copy(&address) }
    }
}

#[test]
fn libpq_queries_run_at_once() {
    let _dog = Watchdog::new();
    let Some(pq) = Library::load(c"libpq.so.5") else { return missing("libpq5") };
    let Some(server) = Postgres::start() else { return missing("postgresql") };
    let port = server.port;
    run_all("libpq", 100, move |i| {
        // SAFETY: the types are those of libpq-fe.h.
        let (connect, status, exec, value, clear, finish) = unsafe {
            let pq = pq;
            (
                pq.get::<unsafe extern "C" fn(*const c_char) -> *mut c_void>(c"PQconnectdb"),
                pq.get::<unsafe extern "C" fn(*mut c_void) -> c_int>(c"PQstatus"),
                pq.get::<unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void>(c"PQexec"),
                pq.get::<unsafe extern "C" fn(*mut c_void, c_int, c_int) -> *const c_char>(c"PQgetvalue"),
                pq.get::<unsafe extern "C" fn(*mut c_void)>(c"PQclear"),
                pq.get::<unsafe extern "C" fn(*mut c_void)>(c"PQfinish"),
            )
        };
        let info = format!(
            "host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=disable gssencmode=disable"
        );
        let (info, query) = (CString::new(info).unwrap(), format!("select {i} * 2 from pg_sleep(0.2)"));
        let query = CString::new(query).unwrap();
        // SAFETY: the calls of libpq in the order of its manual; no pointer is used after it was given up.
        unsafe {
            let connection = connect(info.as_ptr());
            assert_eq!(status(connection), 0, "CONNECTION_OK");
            let result = exec(connection, query.as_ptr());
            assert_eq!(CStr::from_ptr(value(result, 0, 0)).to_str().unwrap(), (i * 2).to_string());
            clear(result);
            finish(connection);
        }
    });
}

#[test]
fn libcurl_fetches_many_urls_at_once() {
    const URL: c_int = 10002;
    const WRITE_FUNCTION: c_int = 20011;
    const WRITE_DATA: c_int = 10001;
    const NO_SIGNAL: c_int = 99;
    unsafe extern "C" fn count(_: *mut c_char, size: usize, times: usize, sum: *mut usize) -> usize {
        // SAFETY: libcurl passes the pointer that `WRITE_DATA` has set.
        unsafe { *sum += size * times };
        size * times
    }
    let _dog = Watchdog::new();
    let library = Library::load(c"libcurl.so.4").or_else(|| Library::load(c"libcurl-gnutls.so.4"));
    let Some(curl) = library else { return missing("libcurl4") };
    // SAFETY: the type is that of curl.h; no other thread uses libcurl yet.
    unsafe { curl.get::<unsafe extern "C" fn(c_long) -> c_int>(c"curl_global_init")(3) };
    let port = http_server();
    run_all("libcurl", 200, move |i| {
        let url = CString::new(format!("http://127.0.0.1:{port}/{i}")).unwrap();
        let mut bytes = 0usize;
        // SAFETY: the types are those of curl.h. The URL and the sum outlive the transfer.
        unsafe {
            let curl = curl;
            let init = curl.get::<unsafe extern "C" fn() -> *mut c_void>(c"curl_easy_init");
            let set = curl.get::<unsafe extern "C" fn(*mut c_void, c_int, ...) -> c_int>(c"curl_easy_setopt");
            let perform = curl.get::<unsafe extern "C" fn(*mut c_void) -> c_int>(c"curl_easy_perform");
            let cleanup = curl.get::<unsafe extern "C" fn(*mut c_void)>(c"curl_easy_cleanup");
            let easy = init();
            set(easy, URL, url.as_ptr());
            set(easy, NO_SIGNAL, 1 as c_long);
            set(easy, WRITE_FUNCTION, count as *const c_void);
            set(easy, WRITE_DATA, &raw mut bytes);
            assert_eq!(perform(easy), 0, "CURLE_OK");
            cleanup(easy);
        }
        assert_eq!(bytes, 5);
    });
}
