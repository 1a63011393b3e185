//! The answers: which path gives what.

use std::io;
use std::time::{Duration, Instant};

use super::client::Client;
use super::request::Request;
use super::rooms::Room;
use super::server::Shared;
use crate::dump::Snapshot;
use crate::dump::waits::{self, Waits};
use crate::{metrics, trace};

/// The page. It loads nothing from elsewhere.
const PAGE: &str = include_str!("page.html");

/// An answer to a request.
pub(super) struct Answer {
    status: u16,
    content_type: &'static str,
    /// The name under which a browser stores the answer, if it is not shown.
    file: Option<&'static str>,
    pub(super) body: Vec<u8>,
    /// What a large answer takes, until it is sent.
    _room: Option<Room>,
}

/// How long a large answer waits for room.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it looks for room.
const LOOK: Duration = Duration::from_millis(50);

impl Answer {
    pub(super) fn text(status: u16, text: String) -> Answer {
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
    fn large(shared: &Shared, client: &Client<'_>, make: impl FnOnce() -> Answer) -> Answer {
        let until = Instant::now() + PATIENCE;
        let wait = || Instant::now() < until && sched::at_rest(|| client.wait(LOOK));
        match shared.rooms.enter(wait) {
            Some(room) => Answer { _room: Some(room), ..make() },
            None => Answer::text(503, "two large answers are being read; ask again later\n".into()),
        }
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
        let file = self.file.map(|name| format!("Content-Disposition: attachment; filename=\"{name}\"\r\n"));
        // Lets browsers ask for the token.
        let asks = if self.status == 401 { "WWW-Authenticate: Basic realm=\"debug\"\r\n" } else { "" };
        // No page of another site may load, frame or guess the type of an answer, and the page loads nothing
        // from elsewhere.
        format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{asks}Connection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Referrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len(),
            file.unwrap_or_default(),
        )
    }
}

/// Answers `request`. *Runs on: an OS thread of the server.*
pub(super) fn answer(request: &Request, shared: &Shared, client: &Client<'_>) -> Answer {
    match request.path.as_str() {
        "/" => Answer::of("text/html; charset=utf-8", page()),
        "/dump" if !request.is_head || request.parameter("seconds").is_none() => {
            dump(request, shared, client)
        }
        "/metrics" => metrics(shared),
        "/heap" => heap(request, shared, client),
        "/dump" | "/profile" | "/trace" | "/waits" if request.is_head => {
            Answer::text(405, "only GET records\n".into())
        }
        "/profile" => profile(request, client),
        "/trace" => trace(request, shared, client),
        "/waits" => waits(request, client),
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
fn dump(request: &Request, shared: &Shared, client: &Client<'_>) -> Answer {
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
        return Answer::large(shared, client, || made(Snapshot::take_with_deadlocks()));
    };
    // The ids alone are kept, because the time may be long.
    let ids: Vec<_> = match sched::park::blocking(Snapshot::take_without_stacks) {
        Ok(before) => before.green_threads.iter().map(|thread| thread.id).collect(),
        Err(error) => return failed(error),
    };
    sched::at_rest(|| client.wait(time));
    let is_old = |id| ids.binary_search(&id).is_ok();
    let take = || Ok(Snapshot::take_with_deadlocks()?.without(is_old));
    Answer::large(shared, client, || made(take()))
}

fn metrics(shared: &Shared) -> Answer {
    match shared.sched.upgrade() {
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
fn trace(request: &Request, shared: &Shared, client: &Client<'_>) -> Answer {
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
    sched::at_rest(|| client.wait(time));
    // Before the end of the recording: after it another recording may begin, which forgets this one.
    let snapshot = trace::snapshot();
    drop(share);
    Answer::large(shared, client, || {
        let mut body = Vec::new();
        write(&snapshot, &mut body).map_or_else(refused, |()| answer(body))
    })
}

/// Records a profile of waiting of `?seconds=`, in pprof's form or `?format=folded`.
fn waits(request: &Request, client: &Client<'_>) -> Answer {
    let answer: fn(Waits) -> Answer = match request.parameter("format") {
        None | Some("pprof") => |waits| Answer::file("waits.pb", waits.to_pprof()),
        Some("folded") => |waits| Answer::of("text/plain; charset=utf-8", waits.folded()),
        Some(_) => return Answer::text(400, "format is pprof or folded\n".into()),
    };
    let time = match seconds(request, 10, 300) {
        Ok(time) => time,
        Err(answer) => return answer,
    };
    match waits::record(time, |time| sched::at_rest(|| client.wait(time))) {
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
fn profile(request: &Request, client: &Client<'_>) -> Answer {
    let answer: fn(crate::profile::Profile) -> Answer = match request.parameter("format") {
        None | Some("pprof") => |profile| Answer::file("profile.pb", profile.to_pprof()),
        Some("folded") => |profile| Answer::of("text/plain; charset=utf-8", profile.folded()),
        Some(_) => return Answer::text(400, "format is pprof or folded\n".into()),
    };
    let time = match seconds(request, 10, 300) {
        Ok(time) => time,
        Err(answer) => return answer,
    };
    match crate::profile::record(time, |time| sched::at_rest(|| client.wait(time))) {
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
fn profile(_request: &Request, _client: &Client<'_>) -> Answer {
    Answer::text(503, "profiles are taken on Linux on x86-64 and 64-bit Arm only\n".into())
}

/// Answers with a heap profile, in pprof's form or `?format=folded`.
#[cfg(all(
    not(any(asan, portable)),
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn heap(request: &Request, shared: &Shared, client: &Client<'_>) -> Answer {
    use crate::profile::heap::{self, Heap};
    let answer: fn(Heap) -> Answer = match request.parameter("format") {
        None | Some("pprof") => |heap| Answer::file("heap.pb", heap.to_pprof()),
        Some("folded") => |heap| Answer::of("text/plain; charset=utf-8", heap.folded()),
        Some(_) => return Answer::text(400, "format is pprof or folded\n".into()),
    };
    Answer::large(shared, client, || match heap::record() {
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
fn heap(_request: &Request, _shared: &Shared, _client: &Client<'_>) -> Answer {
    Answer::text(404, "heap profiles are taken on Linux on x86-64 and 64-bit Arm only\n".into())
}
