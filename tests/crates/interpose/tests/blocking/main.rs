//! Blocking crates, C code and calls of libc on green threads, in a program with the line
//! `runtime::interpose!();`.
//!
//! Many tests count the OS threads, waits or signals of the process, so each test needs a process of its
//! own: run them by `cargo nextest run`. `cargo test` can run one test by its name.

mod calls;
mod channel_crates;
mod channels;
mod checked;
mod deadlock;
mod epoll;
mod http;
mod locks;
mod mail_and_tls;
mod mysql;
mod names;
mod own_locals;
mod postgres;
mod redis;
mod robust;
mod runtime_calls;
mod signals;
mod standing;
mod stations;

runtime::interpose!();
