//! `name_panics`: a line that says which green thread panics.

use std::fmt::Write as _;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

use sched::GHandle;

use crate::handles::thread::{Thread, id_of};

/// Makes each panic of a green thread name that green thread. A line on stderr precedes the message of the
/// panic. It has the id of the green thread, its name, and the place where it was spawned:
///
/// ```text
/// green thread 7 'parser', spawned at src/main.rs:12:34:
/// thread 'green-0' (4711) panicked at src/parser.rs:56:9:
/// no such token
/// ```
///
/// std's message names the OS thread, because std knows no green threads. This function puts a hook before
/// the panic hook that is set, so call it after [`std::panic::set_hook`], for example at the start of `main`.
/// Further calls do nothing.
///
/// The hook of a program can do the same by itself: it runs on the green thread that panics, and may call
/// [`thread::current`](super::current).
///
/// With `RUST_BACKTRACE=1`, the backtrace of a green thread ends at its closure or future, also without this
/// function.
///
/// # Panics
///
/// Panics if the calling thread is panicking, as [`std::panic::set_hook`] does.
///
/// ```
/// runtime::thread::name_panics();
/// let panics = runtime::thread::Builder::new().name("parser".into()).spawn(|| panic!("no such token"))?;
/// assert!(panics.join().is_err());
/// # std::io::Result::Ok(())
/// ```
pub fn name_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if let Some(line) = line() {
                sched::write_message(format_args!("{line}"));
            }
            before(info);
        }));
    });
}

/// Returns the line for the calling green thread. Returns `None` on a plain OS thread, which std names.
fn line() -> Option<String> {
    if !sched::park::on_green_thread() {
        return None;
    }
    let current = GHandle::current();
    let thread = Thread::from_handle(&current);
    let mut line = format!("green thread {}", id_of(&thread.0));
    // Writing to a string does not fail.
    if let Some(name) = thread.name() {
        let _ = write!(line, " '{}'", name.escape_debug());
    }
    if let Some(place) = thread.0.place() {
        let _ = write!(line, ", spawned at {place}");
    }
    line.push(':');
    Some(line)
}
