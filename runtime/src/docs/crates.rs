//! Well-known crates: how each is used here, what it costs in OS threads, and which test shows it.
//!
//! There are four ways for a crate to run:
//!
//! - **Over a stream.** A crate that is generic over `Read` and `Write` gets a stream of [`net`](crate::net). It parks, and takes no
//!   OS thread.
//! - **With the feature `interpose`** (Linux with glibc). A crate or a C library that opens its own sockets parks in libc's calls: see
//!   [`interpose`](super::interpose).
//! - **With the feature `tokio`.** A crate that needs tokio's context runs in spawned futures, or by
//!   [`block_on`](crate::block_on) in a green thread. Tokio's reactor is one OS thread for the process.
//! - **As it is.** A call that blocks takes one OS thread for each green thread in such a call: in [`blocking`](crate::blocking) at
//!   once, else by a rescue after 10 ms at most: see [blocking](super::blocking). Bound such calls with a
//!   [`Semaphore`](crate::sync::Semaphore).
//!
//! # HTTP and other protocols
//!
//! | crate | use | OS threads | test |
//! | --- | --- | --- | --- |
//! | ureq | `interpose`; as it is | none; as it is, one for each request | `tests/crates/interpose/tests/servers.rs` |
//! | reqwest | `tokio` (its `blocking` module starts OS threads of its own) | the reactor | `tests/crates/tests/axum.rs` |
//! | hyper | feature `hyper`, over a stream; or `tokio` | none | `examples/hyper.rs`, `examples/tests/clients.rs` |
//! | axum | `tokio`; handlers may park | the reactor | `tests/crates/tests/axum.rs` |
//! | tonic | `tokio` | the reactor | `tests/crates/tests/tonic.rs` |
//! | tungstenite | over a stream | none | `examples/websocket.rs`, `examples/tests/clients.rs` |
//! | lettre | its SMTP transport with `interpose`, or as it is; its tokio transport with `tokio` | as those | none |
//!
//! # Databases
//!
//! | crate | use | OS threads | test |
//! | --- | --- | --- | --- |
//! | redis | over a stream (the protocol is small); its client with `interpose` | none | `examples/redis.rs`; `tests/crates/interpose/tests/servers.rs` |
//! | postgres | as it is: each client drives a tokio reactor of its own, which blocks in `epoll_wait`. `interpose` does not catch that | one for each query that runs | none |
//! | tokio-postgres | `tokio` | the reactor | none; sqlx, which works alike, is tested |
//! | sqlx | `tokio` | the reactor; for SQLite one more for each connection, sqlx's own | `tests/crates/tests/sqlx.rs` |
//! | mysql | `interpose`; as it is | none; as it is, one for each query that runs | none |
//! | diesel | for PostgreSQL and MySQL as its C library: `interpose` (libpq is tested); for SQLite as rusqlite | as those | libpq: `tests/crates/interpose/tests/servers.rs` |
//! | rusqlite | in [`blocking`](crate::blocking): SQLite reads files | one for each query that runs | none |
//! | r2d2 | as it is: a green thread that waits for a connection blocks in a lock of std, and r2d2 starts three OS threads for each pool. Connections in a [`channel`](crate::channel) are a pool that parks | one for each green thread that waits for a connection | none |
//!
//! # TLS
//!
//! | crate | use | OS threads | test |
//! | --- | --- | --- | --- |
//! | rustls | over a stream (`rustls::StreamOwned`) | none | `examples/tls.rs`, `examples/tests/clients.rs` |
//! | native-tls | over a std stream with `interpose`. Over a stream of `net` it parks inside OpenSSL's frames, and C keeps addresses of thread-locals: [pin](crate::thread::pin) that green thread | none with `interpose`; pinned, one for each connection that waits | none |
//!
//! # Logging, parallel computation
//!
//! | crate | use | OS threads | test |
//! | --- | --- | --- | --- |
//! | tracing | the feature `tracing`: entered spans and the default dispatcher follow the green thread. Without it, spans are mixed up when a green thread parks inside one ([`context_slot`](crate::context_slot) says why) | none | `tests/tests/tracing.rs` |
//! | rayon | as it is: a green thread that waits for a result blocks its OS thread, so call it in [`blocking`](crate::blocking). Its pool computes beside the Ps, and competes with them | rayon's pool, and one for each caller that waits | none |
//!
//! # What holds for all
//!
//! A value that belongs to an OS thread (a guard of a std lock, an `EnterGuard`, an entered span) must not be kept across a call
//! that parks: see [moving](super::moving). [`time::timeout`](crate::time::timeout) ends waits of this crate. It does not end a
//! call that blocks, and with `interpose` such a call returns an error instead.
