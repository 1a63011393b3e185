//! Where there are no blocks of their own for closures.

use std::io;

use super::under::Enter;

/// There is none.
#[derive(Clone, Copy)]
pub(crate) enum Block {}

/// As `Block`.
#[derive(Clone, Copy)]
pub(crate) enum Way {}

/// Returns an error that says where there are blocks.
pub(crate) fn check(_current: fn() -> usize, _late_libraries: bool) -> io::Result<()> {
    let text = "thread-locals of green threads need Linux with glibc on x86-64 or AArch64, and no sanitizer";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// Returns `true` if the code that runs here has thread-locals of its own.
pub(crate) fn is_own() -> bool {
    false
}

/// There is nothing to leave.
pub(crate) extern "C" fn go_home() {}

/// As `go_home`.
pub(crate) extern "C" fn come_back() {}

/// Calls `f` under the thread-locals of the OS thread.
pub(crate) fn under_home(f: impl FnOnce()) {
    f();
}

impl Block {
    pub(crate) fn bytes() -> usize {
        0
    }

    pub(crate) unsafe fn new(_end: usize) -> Block {
        unreachable!("`check` has refused")
    }

    pub(crate) unsafe fn free(self) {
        match self {}
    }

    pub(crate) fn end(self) {
        match self {}
    }

    pub(crate) fn will_end(self) {
        match self {}
    }

    pub(crate) fn renew(&mut self) {
        match *self {}
    }

    pub(crate) fn way(&self) -> Way {
        match *self {}
    }

    pub(crate) fn catch_up(&mut self, _begins: bool) {
        match *self {}
    }
}

impl Enter for Way {
    unsafe fn enter(self, _m: usize) -> usize {
        match self {}
    }

    unsafe fn leave(self, _home: usize) {
        match self {}
    }

    unsafe fn pass(self, _to: Way, _m: usize, _home: usize) {
        match self {}
    }
}
