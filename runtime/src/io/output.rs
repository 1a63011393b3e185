//! `Stdout` and `Stderr`: standard output and error, with a lock that belongs to the green thread.
//!
//! The buffer is empty while no thread has the lock. It gathers the parts of one formatted text, or what the
//! holder of the lock writes. So nothing is lost at the end of the process.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, LineWriter, Write};
use std::sync::OnceLock;

use super::descriptor::Descriptor;
use crate::sync::{ReentrantMutex, ReentrantMutexGuard};

type Shared = ReentrantMutex<RefCell<LineWriter<Descriptor>>>;

/// Writes a standard stream: the function, its handle and its lock.
macro_rules! output {
    ($name:literal, $other:literal, $function:ident, $handle:ident, $lock:ident, $std:path) => {
        #[doc = concat!("Returns a handle to ", $name, ", with the API of [`", stringify!($std), "`].")]
        ///
        /// A write to a full pipe, or to a terminal or a socket without room, parks the caller. A regular
        /// file is written as in [`blocking`](crate::blocking). The descriptor's mode is not changed. If
        /// another process fills the pipe between the look and the write, the write blocks its OS thread.
        /// On Windows each write is made as in [`blocking`](crate::blocking).
        ///
        #[doc = concat!("The buffer is not that of std's ", $other, ": text without a newline that was printed there comes later, but on Windows it comes first.")]
        ///
        /// ```
        /// use std::io::Write;
        #[doc = concat!("writeln!(runtime::io::", stringify!($function), "(), \"hello\")?;")]
        /// # std::io::Result::Ok(())
        /// ```
        pub fn $function() -> $handle {
            $handle(())
        }

        #[doc = concat!("A handle to ", $name, ", from [`", stringify!($function), "`].")]
        ///
        /// Each call writes its whole text, without parts of other threads in between, and leaves nothing in
        /// a buffer.
        ///
        /// # Cancellation
        ///
        /// A cancelled green thread unwinds from a method that has to wait. A part of the text may have been
        /// written. What is left in the buffer then is written before the next text.
        ///
        /// ```
        /// use std::io::Write;
        #[doc = concat!("let mut out = runtime::io::", stringify!($function), "();")]
        /// out.write_all(b"hello\n")?;
        /// # std::io::Result::Ok(())
        /// ```
        #[derive(Debug)]
        pub struct $handle(());

        impl $handle {
            /// Waits until no other thread writes. Keeps other threads from writing until the guard is
            /// dropped.
            ///
            /// A thread that has the lock may take it again. The lock belongs to the green thread, so the
            /// guard may be kept across calls that park.
            ///
            /// ```
            /// use std::io::Write;
            #[doc = concat!("let mut out = runtime::io::", stringify!($function), "().lock();")]
            /// for i in 0..3 {
            ///     write!(out, "{i} ")?;
            ///     runtime::sleep(std::time::Duration::from_millis(1));
            /// }
            /// writeln!(out)?;
            /// # std::io::Result::Ok(())
            /// ```
            pub fn lock(&self) -> $lock<'static> {
                static SHARED: OnceLock<Shared> = OnceLock::new();
                let open = || ReentrantMutex::new(RefCell::new(LineWriter::new(Descriptor::of(&$std()))));
                $lock(SHARED.get_or_init(open).lock())
            }
        }

        impl Write for &$handle {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                unbuffered(&self.lock().0, |out| out.write(buf))
            }

            fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
                unbuffered(&self.lock().0, |out| out.write_all(buf))
            }

            fn write_fmt(&mut self, args: fmt::Arguments<'_>) -> io::Result<()> {
                let mut lock = self.lock();
                lock.write_fmt(args)?;
                lock.flush()
            }

            fn flush(&mut self) -> io::Result<()> {
                self.lock().flush()
            }
        }

        impl Write for $handle {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                (&*self).write(buf)
            }

            fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
                (&*self).write_all(buf)
            }

            fn write_fmt(&mut self, args: fmt::Arguments<'_>) -> io::Result<()> {
                (&*self).write_fmt(args)
            }

            fn flush(&mut self) -> io::Result<()> {
                (&*self).flush()
            }
        }

        #[doc = concat!(stringify!($handle), " for one writer alone, from [`", stringify!($handle), "::lock`].")]
        ///
        /// Complete lines are written at once, the rest with the next newline, by `flush`, or when the guard
        /// is dropped. The drop ignores errors.
        ///
        /// ```
        /// use std::io::Write;
        #[doc = concat!("let mut out = runtime::io::", stringify!($function), "().lock();")]
        /// writeln!(out, "one")?;
        /// writeln!(out, "two")?;
        /// # std::io::Result::Ok(())
        /// ```
        #[derive(Debug)]
        pub struct $lock<'a>(ReentrantMutexGuard<'a, RefCell<LineWriter<Descriptor>>>);

        impl Write for $lock<'_> {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.0.borrow_mut().write(buf)
            }

            fn flush(&mut self) -> io::Result<()> {
                self.0.borrow_mut().flush()
            }
        }

        impl Drop for $lock<'_> {
            fn drop(&mut self) {
                // A wait in a destructor while its thread unwinds could not be ended.
                if !std::thread::panicking() {
                    let _ = self.flush();
                }
            }
        }
    };
}

output!("standard output", "`stdout` and `print!`", stdout, Stdout, StdoutLock, std::io::stdout);
output!("standard error", "`stderr` and `eprint!`", stderr, Stderr, StderrLock, std::io::stderr);

/// Writes what is in the buffer, and then lets `write` write past the buffer.
fn unbuffered<T>(
    lock: &RefCell<LineWriter<Descriptor>>,
    write: impl FnOnce(&mut Descriptor) -> io::Result<T>,
) -> io::Result<T> {
    let mut writer = lock.borrow_mut();
    writer.flush()?;
    write(writer.get_mut())
}
