//! Where libraries are told of the stack of the OS thread.

pub(crate) fn link() {}
