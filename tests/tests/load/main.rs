//! Runtimes under load and at rest: hogs, idleness, memory, OS threads, limits of the system.

mod fairness;
mod hogs;
mod hogs_signal;
mod idle;
mod limits;
mod lone;
mod memory;
mod threads;
mod trim;
mod watchers;
mod windows;
