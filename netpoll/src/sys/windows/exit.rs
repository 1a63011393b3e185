//! `Exit`: a source with one event, which comes when a process has exited.
//!
//! The system's pool waits for the process. One of its threads waits for some dozens of processes.

use std::ffi::c_void;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::{fmt, io, ptr};

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Threading::{
    INFINITE, RegisterWaitForSingleObject, UnregisterWaitEx, WT_EXECUTEINWAITTHREAD, WT_EXECUTEONLYONCE,
};

use super::Reporter;
use crate::source::{Interest, Registry, Source, Token};
use crate::waiter::Direction;

/// Reports to readers that a process has exited. Register it, and then [`attach`](Exit::attach) the reporter
/// of its descriptor.
pub struct Exit {
    process: OwnedHandle,
    wait: Option<Wait>,
}

/// A wait of the pool's. Its drop ends the wait.
struct Wait {
    wait: HANDLE,
    // Boxed: the callback has its address.
    _reporter: Box<Reporter>,
}

// SAFETY: only `drop` uses `wait`, once, and any thread may end a wait.
unsafe impl Send for Wait {}
// SAFETY: a shared `Wait` has no use.
unsafe impl Sync for Wait {}

impl Exit {
    /// Makes a source for the process of this handle.
    pub fn new(process: OwnedHandle) -> Exit {
        Exit { process, wait: None }
    }

    /// Reports the exit by `reporter`. A process that has exited is reported at once.
    ///
    /// # Errors
    ///
    /// The system's error if it has no memory for the wait.
    pub fn attach(&mut self, reporter: Reporter) -> io::Result<()> {
        self.wait = None;
        self.wait = Some(Wait::begin(&self.process, Box::new(reporter))?);
        Ok(())
    }
}

impl Wait {
    #[inline(never)]
    fn begin(process: &OwnedHandle, reporter: Box<Reporter>) -> io::Result<Wait> {
        let mut wait: HANDLE = ptr::null_mut();
        // The callback blocks nowhere, so it may run on the thread that waits.
        let flags = WT_EXECUTEONLYONCE | WT_EXECUTEINWAITTHREAD;
        // SAFETY: `wait` outlives the call, which writes it. The reporter outlives the wait, which `drop`
        // ends first. So does the process' handle: `Exit` drops its wait before the handle.
        let done = unsafe {
            RegisterWaitForSingleObject(
                &raw mut wait,
                process.as_raw_handle(),
                Some(exited),
                ptr::from_ref(&*reporter).cast(),
                INFINITE,
                flags,
            )
        };
        if done == 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Wait { wait, _reporter: reporter })
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // SAFETY: `begin` got this wait, and it ends here alone. The call returns when no callback runs any
        // more, so none uses the reporter afterwards. No callback drops a `Wait`, which would wait for itself.
        unsafe { UnregisterWaitEx(self.wait, INVALID_HANDLE_VALUE) };
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        // Before the handle is closed.
        self.wait = None;
    }
}

/// The callback. *Runs on: a thread of the system's pool.*
unsafe extern "system" fn exited(reporter: *mut c_void, _timed_out: bool) {
    // SAFETY: `Wait::begin` passed a `Reporter`, which `Wait::drop` frees only after the last callback.
    let reporter = unsafe { &*reporter.cast::<Reporter>() };
    reporter.report(Direction::Read);
}

impl Source for Exit {
    fn register(&mut self, _: &Registry, _: Token, _: Interest) -> io::Result<()> {
        Ok(())
    }

    fn reregister(&mut self, _: &Registry, _: Token, _: Interest) -> io::Result<()> {
        Ok(())
    }

    fn deregister(&mut self, _: &Registry) -> io::Result<()> {
        self.wait = None;
        Ok(())
    }
}

impl fmt::Debug for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exit").field("process", &self.process).finish_non_exhaustive()
    }
}
