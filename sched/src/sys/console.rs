//! Events of the console of Windows: ctrl-c, ctrl-break, and the ends of the console and of the session.

#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;

/// What is called with the number of an event, on a thread of the system's own. If it returns `false`, the
/// event has its default effect, which ends the process.
pub type OnEvent = fn(event: u32) -> bool;

static ON_EVENT: OnceLock<OnEvent> = OnceLock::new();

#[link(name = "kernel32")]
unsafe extern "system" {
    fn SetConsoleCtrlHandler(handler: Option<extern "system" fn(u32) -> i32>, add: i32) -> i32;
}

/// Calls `on_event` for each event from now on. Only the first call has an effect.
///
/// # Errors
/// The system's.
pub fn on_events(on_event: OnEvent) -> io::Result<()> {
    static REFUSED: OnceLock<Option<i32>> = OnceLock::new();
    let refused = REFUSED.get_or_init(|| {
        ON_EVENT.get_or_init(|| on_event);
        // SAFETY: `pass_on` is a function of the type that the system asks for, and it is never removed.
        let done = unsafe { SetConsoleCtrlHandler(Some(pass_on), 1) } != 0;
        if done { None } else { io::Error::last_os_error().raw_os_error() }
    });
    refused.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
}

extern "system" fn pass_on(event: u32) -> i32 {
    i32::from(ON_EVENT.get().is_some_and(|on_event| on_event(event)))
}
