//! A small server of the Redis protocol, with pipelining. The store is a map under a mutex of the runtime,
//! and `support/resp.rs` reads the commands.
//!
//! ```sh
//! cargo run --release --example redis                       # with a client of its own, for a moment
//! cargo run --release --example redis -- 127.0.0.1:6399     # until Ctrl-C
//! redis-cli -p 6399 set name green
//! redis-benchmark -p 6399 -t ping,set,get -P 16 -q
//! ```

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use resp::{Bytes, WORD};
use runtime::net::TcpStream;
use runtime::sync::Mutex;
use support::Args;
use support::server::{self, wrong};

#[path = "support/resp.rs"]
mod resp;
mod support;

const USAGE: &str =
    "usage: redis [ADDR]\n\n  ADDR   serve there (like 127.0.0.1:6399) until SIGTERM or SIGINT";

/// The most bytes of all keys and values.
const STORE: usize = 64 * 1024 * 1024;

/// The keys with their values, and how many bytes these have together.
#[derive(Default)]
struct Map {
    values: HashMap<Bytes, Bytes>,
    size: usize,
}

type Store = Mutex<Map>;

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let addr = args.positional().map(|addr| addr.to_string_lossy().into_owned());
    args.end();
    let store = Store::default();
    server::run(addr.as_deref(), move |stream| serve(&stream, &store), client)
}

fn serve(stream: &TcpStream, store: &Store) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut output) = (BufReader::new(stream), BufWriter::new(stream));
    while let Some(words) = server::within(|| resp::command(&mut input))? {
        let Some((name, args)) = words.split_first() else { continue };
        let goes_on = execute(&name.to_ascii_uppercase(), args, store, &mut output)?;
        // The answers to pipelined commands are sent together.
        if input.buffer().is_empty() || !goes_on {
            server::within(|| output.flush())?;
        }
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// Writes the answer. Returns `false` if the client has asked to end the connection.
fn execute(name: &[u8], args: &[Bytes], store: &Store, output: &mut impl Write) -> io::Result<bool> {
    match (name, args) {
        (b"PING", []) => output.write_all(b"+PONG\r\n")?,
        (b"PING" | b"ECHO", [word]) => string(output, Some(word))?,
        (b"SET", [key, value]) => match store.lock().insert(key, value) {
            true => output.write_all(b"+OK\r\n")?,
            false => output.write_all(b"-OOM the store is full\r\n")?,
        },
        (b"GET", [key]) => {
            let value = store.lock().values.get(key).cloned();
            string(output, value.as_deref())?;
        }
        (b"DEL", keys @ [_, ..]) => {
            let mut store = store.lock();
            let deleted = keys.iter().filter(|&key| store.remove(key)).count();
            drop(store);
            write!(output, ":{deleted}\r\n")?;
        }
        (b"EXISTS", keys @ [_, ..]) => {
            let store = store.lock();
            let known = keys.iter().filter(|&key| store.values.contains_key(key)).count();
            drop(store);
            write!(output, ":{known}\r\n")?;
        }
        (b"INCR", [key]) => match increment(&mut store.lock(), key) {
            Some(value) => write!(output, ":{value}\r\n")?,
            None => {
                output.write_all(b"-ERR value is not an integer or out of range, or the store is full\r\n")?
            }
        },
        (b"DBSIZE", []) => write!(output, ":{}\r\n", store.lock().values.len())?,
        // redis-cli and redis-benchmark send these first.
        (b"COMMAND" | b"CONFIG", _) => output.write_all(b"*0\r\n")?,
        (b"QUIT", _) => {
            output.write_all(b"+OK\r\n")?;
            return Ok(false);
        }
        _ => {
            // A line end within the name would begin another answer.
            let name = name[..name.len().min(100)].escape_ascii();
            write!(output, "-ERR unknown command, or wrong arguments: {name}\r\n")?
        }
    }
    Ok(true)
}

impl Map {
    /// Stores a value. Returns `false` if the store is full.
    fn insert(&mut self, key: &Bytes, value: &[u8]) -> bool {
        let old = self.values.get(key).map_or(0, |old| key.len() + old.len() + WORD);
        let size = self.size - old + key.len() + value.len() + WORD;
        if size > STORE {
            return false;
        }
        self.size = size;
        self.values.insert(key.clone(), value.to_vec());
        true
    }

    /// Returns `true` if there was such a key.
    fn remove(&mut self, key: &Bytes) -> bool {
        let old = self.values.remove(key);
        self.size -= old.as_ref().map_or(0, |old| key.len() + old.len() + WORD);
        old.is_some()
    }
}

fn increment(store: &mut Map, key: &Bytes) -> Option<i64> {
    let value = match store.values.get(key) {
        None => 0,
        Some(value) => str::from_utf8(value).ok()?.parse::<i64>().ok()?,
    };
    let value = value.checked_add(1)?;
    store.insert(key, value.to_string().as_bytes()).then_some(value)
}

fn string(output: &mut impl Write, word: Option<&[u8]>) -> io::Result<()> {
    let Some(word) = word else { return output.write_all(b"$-1\r\n") };
    write!(output, "${}\r\n", word.len())?;
    output.write_all(word)?;
    output.write_all(b"\r\n")
}

/// Sends several commands at once and checks the answers. Then a hundred clients increment the same counter.
fn client(addr: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(addr)?;
    stream.write_all(b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\nget a\r\nget b\r\nquit\r\n")?;
    let mut answers = String::new();
    stream.read_to_string(&mut answers)?;
    if answers != "+PONG\r\n+OK\r\n$2\r\n\r\n\r\n$-1\r\n+OK\r\n" {
        return Err(wrong(format_args!("the answers are {answers:?}")));
    }
    let clients: Vec<_> = (0..100)
        .map(|_| {
            runtime::spawn(move || -> io::Result<()> {
                let mut stream = TcpStream::connect(addr)?;
                stream.write_all(&b"INCR hits\r\n".repeat(100))?;
                let mut answers = BufReader::new(stream).lines();
                (0..100).try_for_each(|_| answers.next().expect("an answer").map(drop))
            })
        })
        .collect();
    clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))?;
    let mut stream = TcpStream::connect(addr)?;
    stream.write_all(b"GET hits\r\nQUIT\r\n")?;
    let mut hits = String::new();
    stream.read_to_string(&mut hits)?;
    println!("100 clients have counted to {}", hits.lines().nth(1).unwrap_or("?"));
    if hits.starts_with("$5\r\n10000\r\n") { Ok(()) } else { Err(wrong("the counter should be 10000")) }
}
