//! A chat server: a line from one member goes to all other members.
//!
//! Each member has a green thread that reads and another that writes. A bounded channel feeds the writer, so
//! a slow member delays no other member: it misses lines instead.
//!
//! ```sh
//! cargo run --release --example chat                       # with members of its own, for a moment
//! cargo run --release --example chat -- 127.0.0.1:7000     # until Ctrl-C
//! nc 127.0.0.1 7000                                        # the first line is the name
//! ```

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use runtime::channel::{Receiver, Sender, bounded};
use runtime::context::Context;
use runtime::net::{Server, TcpStream};
use runtime::sync::Mutex;
use support::Args;
use support::server::{self, wrong};

mod support;

const USAGE: &str =
    "usage: chat [ADDR]\n\n  ADDR   serve there (like 127.0.0.1:7000) until SIGTERM or SIGINT";

/// The capacity of a member's channel. A member that falls further behind misses lines.
const LINES: usize = 1000;
/// The most bytes of a line. So a member that falls behind keeps at most a megabyte.
const LINE: usize = 1000;
/// The most letters of a name.
const NAME: usize = 32;
/// How long a write to a member may wait. After that the member leaves.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a member may go on talking at the end of the server.
const GOODBYE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Room {
    next: AtomicU64,
    members: Mutex<HashMap<u64, Sender<Arc<str>>>>,
}

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let addr = args.positional().map(|addr| addr.to_string_lossy().into_owned());
    args.end();
    let room = Room::default();
    let (end, cancel) = Context::background().with_cancel();
    // A member that talks all the time would never let its reader see an end of the input.
    let settings = Server::builder().end_input(false);
    let tell = move || cancel.cancel();
    server::run_with(addr.as_deref(), settings, tell, move |stream| join(&room, stream, &end), members)
}

impl Room {
    /// Adds a member and informs the members who were there before. Both happen under one lock, so no member
    /// hears of one who came before them. Returns the id of the member and the number of the others.
    fn enter(&self, name: &str, sender: Sender<Arc<str>>) -> (u64, usize) {
        let mut members = self.members.lock();
        send_to(members.values(), format!("* {name} has come\n"));
        let others = members.len();
        let me = self.next.fetch_add(1, Ordering::Relaxed);
        members.insert(me, sender);
        (me, others)
    }

    /// Removes the member `me` and informs the others. Dropping the sender disconnects the channel, which
    /// ends the writer.
    fn leave(&self, me: u64, name: &str) {
        let mut members = self.members.lock();
        members.remove(&me);
        send_to(members.values(), format!("* {name} has gone\n"));
    }

    /// Sends `line` to every member except the member `but`.
    fn say(&self, but: u64, line: String) {
        let members = self.members.lock();
        send_to(members.iter().filter(|(id, _)| **id != but).map(|(_, member)| member), line);
    }
}

fn send_to<'a>(members: impl Iterator<Item = &'a Sender<Arc<str>>>, line: String) {
    let line: Arc<str> = line.into();
    for member in members {
        // A full channel: the member misses this line. A disconnected channel: the member is leaving.
        let _ = member.try_send(line.clone());
    }
}

/// Serves a member from its first line to its last line, or until `end` is over.
fn join(room: &Room, stream: TcpStream, end: &Context) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writes = stream.try_clone()?;
    writes.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream);
    writes.write_all(b"your name?\n")?;
    let Some(name) = next_line(&mut lines, end)? else { return Ok(()) };
    if !is_name(&name) {
        return writes.write_all(b"a name has letters, digits and \"-\", at most 32\n");
    }
    let (sender, receiver) = bounded(LINES);
    let (me, others) = room.enter(&name, sender);
    let welcome = format!("welcome {name}, {others} others are here\n");
    let writer = runtime::spawn(move || {
        let written = writes.write_all(welcome.as_bytes()).and_then(|()| write_lines(&receiver, &mut writes));
        if written.is_err() {
            // The member reads nothing, or has left. Its reader sees the end of the stream.
            let _ = writes.shutdown(Shutdown::Both);
        }
    });
    let left = std::iter::from_fn(|| next_line(&mut lines, end).transpose())
        .try_for_each(|line| line.map(|line| room.say(me, format!("{name}: {line}\n"))));
    room.leave(me, &name);
    writer.join().expect("a writer does not panic");
    if end.err().is_some() {
        say_goodbye(lines.get_mut());
    }
    left
}

/// Reads the next line of a member. Returns `None` at the end of the stream, and once `end` is over.
fn next_line(lines: &mut BufReader<TcpStream>, end: &Context) -> io::Result<Option<String>> {
    match end.err() {
        Some(_) => Ok(None),
        None => end.run(|| server::line(lines, LINE)).unwrap_or(Ok(None)),
    }
}

/// Ends the output, and reads what the member still says, for a moment. To close a stream with unread bytes
/// resets it, and takes the last lines from the member.
fn say_goodbye(stream: &mut TcpStream) {
    let start = Instant::now();
    let _ = stream.shutdown(Shutdown::Write).and_then(|()| stream.set_read_timeout(Some(GOODBYE)));
    let mut rest = [0; 4096];
    while start.elapsed() < GOODBYE && matches!(stream.read(&mut rest), Ok(1..)) {}
}

/// No name may look like a line of the server or of another member.
fn is_name(name: &str) -> bool {
    let letters = name.chars().all(|letter| letter.is_alphanumeric() || letter == '-');
    letters && (1..=NAME).contains(&name.chars().count())
}

fn write_lines(lines: &Receiver<Arc<str>>, stream: &mut TcpStream) -> io::Result<()> {
    lines.iter().try_for_each(|line| stream.write_all(line.as_bytes()))
}

/// Clients for a demonstration: a member talks, ten members listen.
fn members(addr: SocketAddr) -> io::Result<()> {
    let enter = |name: &str| {
        let mut stream = TcpStream::connect(addr)?;
        writeln!(stream, "{name}")?;
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        for expected in ["your name?", "welcome"] {
            let line = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
            if !line.starts_with(expected) {
                return Err(wrong(line));
            }
        }
        io::Result::Ok((stream, lines))
    };
    let listeners: Vec<_> =
        (0..10).map(|i| enter(&format!("listener-{i}"))).collect::<io::Result<Vec<_>>>()?;
    let (mut talker, _) = enter("talker")?;
    (0..100).try_for_each(|i| writeln!(talker, "line {i}"))?;
    let listeners: Vec<_> = listeners
        .into_iter()
        .map(|(_stream, lines)| {
            runtime::spawn(move || {
                let said = lines.map_while(Result::ok).filter(|line| line.contains(": line "));
                said.take(100).enumerate().filter(|(i, line)| line.ends_with(&format!(" {i}"))).count()
            })
        })
        .collect();
    for listener in listeners {
        let heard = listener.join().expect("a listener does not panic");
        if heard != 100 {
            return Err(wrong(format_args!("a listener received {heard} lines")));
        }
    }
    println!("10 listeners received 100 lines each, in order");
    Ok(())
}
