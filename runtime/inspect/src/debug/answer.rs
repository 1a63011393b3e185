//! The answers: which path gives what.

use std::io;
use std::time::{Duration, Instant};

use super::handler::Source;
use super::request::{Refusal, Request};
use super::rooms::Room;
use crate::dump::Snapshot;
use crate::dump::waits::{self, Waits};
use crate::{metrics, trace};

/// The page. It loads nothing from elsewhere.
const PAGE: &str = include_str!("page.html");

/// An answer of the [debug page](../../runtime/debug/index.html) to a request. Two large answers exist at
/// once, so drop it when it is sent.
#[derive(Debug)]
pub struct Answer {
    status: u16,
    content_type: &'static str,
    /// The name under which a browser stores the answer, if it is not shown.
    file: Option<&'static str>,
    body: Vec<u8>,
    /// What a large answer takes, until it is sent.
    _room: Option<Room>,
}

impl From<Refusal> for Answer {
    fn from(Refusal(status, why): Refusal) -> Answer {
        Answer::text(status, format!("{why}\n"))
    }
}

/// Waits for a time. Returns `false` early if no answer is wanted any more.
pub(super) type Wait<'a> = &'a dyn Fn(Duration) -> bool;

/// How long a large answer waits for room.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it looks for room.
const LOOK: Duration = Duration::from_millis(50);

impl Answer {
    fn text(status: u16, text: String) -> Answer {
        let content_type = "text/plain; charset=utf-8";
        Answer { status, content_type, file: None, body: text.into_bytes(), _room: None }
    }

    fn of(content_type: &'static str, text: impl Into<Vec<u8>>) -> Answer {
        Answer { status: 200, content_type, file: None, body: text.into(), _room: None }
    }

    fn file(name: &'static str, body: Vec<u8>) -> Answer {
        Answer { file: Some(name), ..Answer::of("application/octet-stream", body) }
    }

    /// Makes an answer that may be large by `make`, once there is room for it.
    fn large(source: &Source, wait: Wait<'_>, make: impl FnOnce() -> Answer) -> Answer {
        let until = Instant::now() + PATIENCE;
        match source.rooms.enter(|| Instant::now() < until && wait(LOOK)) {
            Some(room) => Answer { _room: Some(room), ..make() },
            None => Answer::text(503, "two large answers are being read; ask again later\n".into()),
        }
    }

    /// Returns the status of HTTP.
    ///
    /// ```
    /// let page = runtime::debug::Handler::new();
    /// assert_eq!(page.answer("GET", "/no/such/page")?.status(), 404);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the headers that say what the body is and what a browser may do with it; without
    /// `Content-Length`. Send all of them.
    ///
    /// ```
    /// let page = runtime::debug::Handler::new();
    /// let headers = page.answer("GET", "/metrics")?.headers();
    /// assert_eq!(headers[0], ("Content-Type", "text/plain; version=0.0.4".to_string()));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![("Content-Type", self.content_type.to_owned())];
        if let Some(name) = self.file {
            headers.push(("Content-Disposition", format!("attachment; filename=\"{name}\"")));
        }
        // Lets browsers ask for the token.
        if self.status == 401 {
            headers.push(("WWW-Authenticate", "Basic realm=\"debug\"".into()));
        }
        // No page of another site may load, frame or guess the type of an answer, and the page loads nothing
        // from elsewhere.
        let always = [
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            (
                "Content-Security-Policy",
                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                 img-src data:; frame-ancestors 'none'",
            ),
        ];
        headers.extend(always.map(|(name, value)| (name, value.to_owned())));
        headers
    }

    /// Returns the body. The answer to `HEAD` has the body of that to `GET`: send only its length.
    ///
    /// ```
    /// let page = runtime::debug::Handler::new();
    /// assert!(page.answer("GET", "/")?.body().starts_with(b"<!doctype html>"));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the head of the answer.
    pub(super) fn head(&self) -> String {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            409 => "Conflict",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        let mut head =
            format!("HTTP/1.1 {} {reason}\r\nContent-Length: {}\r\n", self.status, self.body.len());
        for (name, value) in self.headers() {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("Connection: close\r\n\r\n");
        head
    }
}

/// Answers `request`. *Runs on: an OS thread of the server, or of one request.*
pub(super) fn answer(request: &Request, source: &Source, wait: Wait<'_>) -> Answer {
    match request.path.as_str() {
        "/" => Answer::of("text/html; charset=utf-8", page()),
        "/dump" if !request.is_head || request.parameter("seconds").is_none() => dump(request, source, wait),
        "/metrics" => metrics(source),
        "/heap" => heap(request, source, wait),
        "/dump" | "/profile" | "/trace" | "/waits" if request.is_head => {
            Answer::text(405, "only GET records\n".into())
        }
        "/profile" => profile(request, wait),
        "/trace" => trace(request, source, wait),
        "/waits" => waits(request, wait),
        _ => Answer::text(404, "no such page; see /\n".into()),
    }
}

/// Returns the page with the name and the number of this process.
fn page() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default().to_string_lossy();
    let name = name.replace('&', "&amp;").replace('<', "&lt;");
    PAGE.replace("{program}", &format!("{name} · process {}", std::process::id()))
}

/// Answers with a dump, or with what of it was not there `?seconds=` before.
fn dump(request: &Request, source: &Source, wait: Wait<'_>) -> Answer {
    let answer: fn(&Snapshot) -> Answer = match request.parameter("format") {
        None | Some("text") => |dump| Answer::text(200, dump.to_string()),
        Some("grouped") => |dump| Answer::text(200, dump.grouped()),
        Some("tree") => |dump| Answer::text(200, dump.tree()),
        Some("json") => |dump| Answer::of("application/json", dump.to_json()),
        Some("pprof") => |dump| Answer::file("green_threads.pb", dump.to_pprof()),
        Some(_) => return Answer::text(400, "format is text, grouped, tree, json or pprof\n".into()),
    };
    let time = match request.parameter("seconds").map(|_| seconds(request, 1, 300)).transpose() {
        Ok(time) => time,
        Err(answer) => return answer,
    };
    let failed = |error| Answer::text(503, format!("no dump: {error}\n"));
    let made = |dump: io::Result<Snapshot>| dump.map_or_else(failed, |dump| answer(&dump));
    let Some(time) = time else {
        return Answer::large(source, wait, || made(Snapshot::take_with_deadlocks()));
    };
    // The ids alone are kept, because the time may be long.
    let ids: Vec<_> = match sched::park::blocking(Snapshot::take_without_stacks) {
        Ok(before) => before.green_threads.iter().map(|thread| thread.id).collect(),
        Err(error) => return failed(error),
    };
    wait(time);
    let is_old = |id| ids.binary_search(&id).is_ok();
    let take = || Ok(Snapshot::take_with_deadlocks()?.without(is_old));
    Answer::large(source, wait, || made(take()))
}

fn metrics(source: &Source) -> Answer {
    match source.sched.upgrade() {
        Some(sched) => Answer::of("text/plain; version=0.0.4", metrics::prometheus(&metrics::of(&sched))),
        None => Answer::text(503, "the runtime has ended\n".into()),
    }
}

/// Returns the value of `?seconds=`, or the refusal of one that is not from 1 to `most`.
fn seconds(request: &Request, default: u64, most: u64) -> Result<Duration, Answer> {
    let seconds = request.parameter("seconds").map_or(Some(default), |text| text.parse().ok());
    match seconds.filter(|seconds| (1..=most).contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => Err(Answer::text(400, format!("seconds is a number from 1 to {most}\n"))),
    }
}

/// Records a trace of `?seconds=`, as Perfetto reads it or `?format=html`. If a recording is on, its last
/// events are the answer.
fn trace(request: &Request, source: &Source, wait: Wait<'_>) -> Answer {
    type Form = (fn(&trace::Snapshot, &mut Vec<u8>) -> io::Result<()>, fn(Vec<u8>) -> Answer);
    let (write, answer): Form = match request.parameter("format") {
        None | Some("perfetto") => (trace::Snapshot::write_perfetto, |body| Answer::file("trace.pb", body)),
        Some("html") => (trace::Snapshot::write_html, |body| Answer::of("text/html; charset=utf-8", body)),
        Some(_) => return Answer::text(400, "format is perfetto or html\n".into()),
    };
    let time = match seconds(request, 1, 60) {
        Ok(time) => time,
        Err(answer) => return answer,
    };
    let refused = |error| Answer::text(503, format!("no trace: {error}\n"));
    let share = match trace::share() {
        Ok(share) => share,
        Err(error) => return refused(error),
    };
    wait(time);
    // Before the end of the recording: after it another recording may begin, which forgets this one.
    let snapshot = trace::snapshot();
    drop(share);
    Answer::large(source, wait, || {
        let mut body = Vec::new();
        write(&snapshot, &mut body).map_or_else(refused, |()| answer(body))
    })
}

/// Records a profile of waiting of `?seconds=`, in pprof's form or `?format=folded`.
fn waits(request: &Request, wait: Wait<'_>) -> Answer {
    let answer: fn(Waits) -> Answer = match request.parameter("format") {
        None | Some("pprof") => |waits| Answer::file("waits.pb", waits.to_pprof()),
        Some("folded") => |waits| Answer::of("text/plain; charset=utf-8", waits.folded()),
        Some(_) => return Answer::text(400, "format is pprof or folded\n".into()),
    };
    let time = match seconds(request, 10, 300) {
        Ok(time) => time,
        Err(answer) => return answer,
    };
    match waits::record(time, wait) {
        Ok(waits) => answer(waits),
        Err(error) => Answer::text(503, format!("no profile: {error}\n")),
    }
}

/// Records a CPU profile of `?seconds=`, in pprof's form or `?format=folded`.
#[cfg(all(
    not(any(asan, portable)),
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn profile(request: &Request, wait: Wait<'_>) -> Answer {
    let answer: fn(crate::profile::Profile) -> Answer = match request.parameter("format") {
        None | Some("pprof") => |profile| Answer::file("profile.pb", profile.to_pprof()),
        Some("folded") => |profile| Answer::of("text/plain; charset=utf-8", profile.folded()),
        Some(_) => return Answer::text(400, "format is pprof or folded\n".into()),
    };
    let time = match seconds(request, 10, 300) {
        Ok(time) => time,
        Err(answer) => return answer,
    };
    match crate::profile::record(time, wait) {
        Ok(profile) => answer(profile),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Answer::text(409, format!("{error}\n")),
        Err(error) => Answer::text(503, format!("no profile: {error}\n")),
    }
}

#[cfg(not(all(
    not(any(asan, portable)),
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn profile(_request: &Request, _wait: Wait<'_>) -> Answer {
    Answer::text(503, "profiles are taken on Linux on x86-64 and 64-bit Arm only\n".into())
}

/// Answers with a heap profile, in pprof's form or `?format=folded`.
#[cfg(all(
    not(any(asan, portable)),
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn heap(request: &Request, source: &Source, wait: Wait<'_>) -> Answer {
    use crate::profile::heap::{self, Heap};
    let answer: fn(Heap) -> Answer = match request.parameter("format") {
        None | Some("pprof") => |heap| Answer::file("heap.pb", heap.to_pprof()),
        Some("folded") => |heap| Answer::of("text/plain; charset=utf-8", heap.folded()),
        Some(_) => return Answer::text(400, "format is pprof or folded\n".into()),
    };
    Answer::large(source, wait, || match heap::record() {
        Ok(heap) => answer(heap),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Answer::text(404, format!("{error}\n")),
        Err(error) => Answer::text(503, format!("{error}\n")),
    })
}

#[cfg(not(all(
    not(any(asan, portable)),
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn heap(_request: &Request, _source: &Source, _wait: Wait<'_>) -> Answer {
    Answer::text(404, "heap profiles are taken on Linux on x86-64 and 64-bit Arm only\n".into())
}
