//! `copy`: from a stream to another, to the end.

use std::io::{self, ErrorKind, Read, Write};

/// The size of the buffer: what a pipe holds.
const BUFFER: usize = 64 << 10;

/// Copies from `reader` to `writer` until the end of `reader`. Returns the number of bytes. See
/// [`std::io::copy`], which differs in one point: this function's buffer is larger (64 KiB) and not on the
/// stack.
///
/// # Errors
///
/// Returns the first error of either stream, except `Interrupted`. What was written until then stays written.
///
/// # Cancellation
///
/// It ends where a read or a write of the streams ends.
///
/// ```
/// use runtime::net::{TcpListener, TcpStream};
/// use std::io::{Read, Write};
/// use std::net::Shutdown;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let addr = listener.local_addr()?;
/// let echo = runtime::spawn(move || {
///     let (stream, _) = listener.accept()?;
///     runtime::io::copy(&mut &stream, &mut &stream)
/// });
/// let mut client = TcpStream::connect(addr)?;
/// client.write_all(b"hello")?;
/// client.shutdown(Shutdown::Write)?;
/// assert_eq!(std::io::read_to_string(client)?, "hello");
/// assert_eq!(echo.join().unwrap()?, 5);
/// # std::io::Result::Ok(())
/// ```
pub fn copy<R: Read + ?Sized, W: Write + ?Sized>(reader: &mut R, writer: &mut W) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER];
    let mut copied = 0;
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(n) => {
                writer.write_all(&buffer[..n])?;
                copied += n as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
