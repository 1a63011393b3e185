//! Files, child processes, signals and standard streams.

mod console;
mod fs;
mod fs_async;
mod fs_poll;
mod process;
mod refused;
mod signal_notify;
mod signals;
mod stdin;
mod stdout;
