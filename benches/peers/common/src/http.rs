//! The server's side of `http`. A request ends with an empty line. Each request gets the same answer.

/// The answer to each request.
pub const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";

const END: &[u8] = b"\r\n\r\n";

/// The bytes that a connection has received and that are not answered yet.
pub struct Requests {
    bytes: [u8; 4096],
    filled: usize,
}

impl Default for Requests {
    fn default() -> Self {
        Requests { bytes: [0; 4096], filled: 0 }
    }
}

impl Requests {
    /// Returns the buffer for the next read. If a request is too long, the buffer is empty, so that the read
    /// returns 0.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// Records that `n` more bytes were read. Appends an answer for each complete request, and keeps the
    /// remaining bytes.
    pub fn answer(&mut self, n: usize, answers: &mut Vec<u8>) {
        self.filled += n;
        let mut done = 0;
        while let Some(at) = self.bytes[done..self.filled].windows(END.len()).position(|bytes| bytes == END) {
            answers.extend_from_slice(ANSWER);
            done += at + END.len();
        }
        self.bytes.copy_within(done..self.filled, 0);
        self.filled -= done;
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWER, Requests};

    fn answers(requests: &mut Requests, text: &[u8]) -> usize {
        requests.space()[..text.len()].copy_from_slice(text);
        let mut answers = Vec::new();
        requests.answer(text.len(), &mut answers);
        assert!(answers.chunks(ANSWER.len()).all(|answer| answer == ANSWER));
        answers.len() / ANSWER.len()
    }

    #[test]
    fn an_answer_for_each_whole_request() {
        let mut requests = Requests::default();
        assert_eq!(answers(&mut requests, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 1);
        assert_eq!(answers(&mut requests, b"GET /1\r\n\r\nGET /2\r\n\r\nGET /3\r\n\r"), 2);
        assert_eq!(answers(&mut requests, b"\n"), 1);
        assert_eq!(requests.space().len(), 4096);
        requests.space().fill(b'x');
        requests.answer(4096, &mut Vec::new());
        assert!(requests.space().is_empty());
    }
}
