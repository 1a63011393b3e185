//! A client of HTTP/2 that counts whole replies and sees how the server ends.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// The flag of the last frame of a stream.
const END_STREAM: u8 = 1;
/// The flag of the answer to `SETTINGS` and `PING`.
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn write(mut to: impl Write, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    to.write_all(&[&head, payload].concat())
}

/// Returns the next frame, or `None` if the connection has ended.
fn read(mut from: impl Read) -> Option<Frame> {
    let mut head = [0; 9];
    from.read_exact(&mut head).ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    from.read_exact(&mut payload).expect("a whole frame");
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some(Frame { kind: head[3], flags: head[4], stream, payload })
}

/// Keeps `most` requests for `/slow` open until the server says goodbye, and counts the replies in `replies`.
/// Panics if the server ends without `GOAWAY`, or if a request that the server has accepted has no whole
/// reply.
pub(crate) fn whole_replies(mut socket: TcpStream, most: usize, replies: &AtomicUsize) {
    let (mut open, mut next, mut goodbye) = (BTreeSet::new(), 1, None);
    let mut body = Vec::new();
    let begins = (|| {
        socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
        write(&socket, SETTINGS, 0, 0, &[])?;
        // So much data that the window never fills.
        write(&socket, WINDOW_UPDATE, 0, 0, &0x4000_0000_u32.to_be_bytes())
    })();
    begins.expect("a server");
    loop {
        while goodbye.is_none() && open.len() < most {
            // Of the static table: GET, http, and a path and an authority as literals.
            let request = [&b"\x82\x86\x04\x05/slow"[..], b"\x01\x01x"].concat();
            // An error shows as the end of the input.
            let _ = write(&socket, HEADERS, END_STREAM | END_HEADERS, next, &request);
            open.insert(next);
            next += 2;
        }
        let Some(frame) = read(&socket) else { break };
        match frame.kind {
            DATA => {
                body.extend_from_slice(&frame.payload);
                if frame.flags & END_STREAM != 0 {
                    assert_eq!(body, b"at last\n");
                    assert!(open.remove(&frame.stream), "a stream ends once");
                    body.clear();
                    replies.fetch_add(1, Ordering::Relaxed);
                }
            }
            RST_STREAM => {
                let accepted = goodbye.is_none_or(|last| frame.stream <= last);
                assert!(!accepted, "stream {} was reset: {:?}", frame.stream, frame.payload);
            }
            SETTINGS | PING if frame.flags & ACK == 0 => {
                let answer = if frame.kind == PING { &frame.payload[..] } else { &[] };
                let _ = write(&socket, frame.kind, ACK, 0, answer);
            }
            GOAWAY => {
                let (last, error) = frame.payload.split_at(4);
                assert_eq!(error[..4], [0; 4], "an error: {:?}", frame.payload);
                goodbye = Some(u32::from_be_bytes(last.try_into().expect("4 bytes")));
            }
            _ => {}
        }
    }
    let last = goodbye.expect("the server says goodbye");
    let unanswered: Vec<_> = open.range(..=last).collect();
    assert!(unanswered.is_empty(), "accepted up to {last}, no reply for {unanswered:?}");
}
