//! Well-known crates: how each is used here, what it costs in OS threads, and which test shows it.
//!
//! There are four ways for a crate to run:
//!
//! - **Over a stream.** A crate that is generic over `Read` and `Write` gets a stream of [`net`](crate::net).
//!   It parks, and takes no OS thread.
//! - **With the feature `interpose`** (Linux with glibc). A crate or a C library that opens its own sockets
//!   parks in libc's calls: see [`interpose`](super::interpose).
//! - **With the setting [`tokio`](super::settings).** A crate that needs tokio's context runs in spawned
//!   futures, or by [`block_on`](crate::block_on) in a green thread. Tokio's reactor is one OS thread for the
//!   process.
//! - **As it is.** A call that blocks takes one OS thread for each green thread in such a call. In
//!   [`blocking`](crate::blocking) it does so at once, else by a [rescue](super::blocking) after 10 ms at
//!   most. Bound such calls with a [`Semaphore`](crate::sync::Semaphore).
//!
//! The tests that follow are those of the repository. A test with `interpose` runs 500 to 4,000 clients at
//! once. It asserts that at most six OS threads are there beside one for each [P](super::glossary#p),
//! sysmon's included. Its results are those of plain OS threads.
//!
//! # HTTP, mail and other protocols
//!
//! | crate | use | OS threads | test |
//! | --- | --- | --- | --- |
//! | ureq | `interpose`; as it is. With a time-out for look-ups or for the whole request, ureq starts an OS thread for each look-up | none; as it is, one for each request | `tests/crates/interpose/tests/blocking/http.rs` |
//! | curl (libcurl) | `interpose`; as it is. For the look-up of a name, libcurl starts an OS thread of its own | none; as it is, one for each transfer | `tests/crates/interpose/tests/blocking/http.rs` |
//! | reqwest | `tokio` (its `blocking` module starts OS threads of its own) | the reactor | `tests/crates/tests/axum.rs` |
//! | hyper | feature `hyper`, over a stream; or `tokio` | none | `tests/crates/tests/hyper.rs`, `examples/hyper.rs` |
//! | axum | `tokio`; handlers may park | the reactor | `tests/crates/tests/axum.rs` |
//! | tonic | `tokio`; handlers may park | the reactor | `tests/crates/tests/tonic.rs` |
//! | tungstenite | over a stream | none | `tests/crates/tests/streams.rs`, `examples/websocket.rs` |
//! | lettre | its SMTP transport with `interpose`, or as it is; its tokio transport with `tokio` | none with `interpose`; as it is, one for each mail; the reactor | `tests/crates/interpose/tests/blocking/mail_and_tls.rs`, `tests/crates/tests/lettre.rs` |
//!
//! # Databases
//!
//! | crate | use | OS threads | test |
//! | --- | --- | --- | --- |
//! | redis | its client with `interpose`, or as it is; or the protocol, which is small, over a stream | none; as it is, one for each command that runs | `tests/crates/interpose/tests/blocking/redis.rs`, `examples/redis.rs` |
//! | postgres | as it is, or in [`blocking`](crate::blocking): each client drives a tokio reactor of its own, which blocks in `epoll_wait`. It answers [as many short queries](#short-queries-that-block) as on OS threads. With `interpose` the call gives up its P at once | one for each query that runs | `tests/crates/tests/databases.rs`, `tests/crates/examples/postgres_pool.rs` |
//! | tokio-postgres | `tokio` | the reactor | `tests/crates/tests/databases.rs` |
//! | sqlx | `tokio` | the reactor; for SQLite one more for each connection, sqlx's own | `tests/crates/tests/sqlx.rs` |
//! | mysql | `interpose`; as it is | none; as it is, one for each query that runs | `tests/crates/interpose/tests/blocking/mysql.rs` |
//! | diesel, pq-sys (libpq) | `interpose`, also with TLS; as it is. For SQLite as rusqlite | none; as it is, one for each query that runs | `tests/crates/interpose/tests/blocking/postgres.rs` |
//! | rusqlite | in [`blocking`](crate::blocking): SQLite reads files | one for each query that runs | `tests/crates/tests/databases.rs` |
//! | r2d2 | `Pool::get` in [`blocking`](crate::blocking), with as many permits of a [`Semaphore`](crate::sync::Semaphore) as there are connections: green threads then wait for a permit, and park. (`Pool::get` waits in a lock that does not park.) Connections in a [`channel`](crate::channel) are a pool, too, and the [faster one](#short-queries-that-block) | three for each pool, r2d2's own; without the semaphore, one for each green thread that waits for a connection | `tests/crates/tests/databases.rs` |
//!
//! # Short queries that block
//!
//! The table has 100 threads with a pool of 20 connections of the crate postgres, in queries a second (`cargo
//! run --release -p interpose --example postgres_pool_parking`). The server and other programs shared the two
//! processors. A query is given as text, so the crate prepares it anew each time, and waits twice or more. A
//! program that keeps prepared statements waits less. Three kinds took turns in each of two pairs of runs.
//! The columns are the medians, and in brackets the share of the OS threads of the same run.
//!
//! | `epoll_wait` | OS threads | green threads | green threads in `blocking` |
//! | --- | --- | --- | --- |
//! | blocks its OS thread | 13,893 and 14,635 | 15,101 (1.09) and 16,513 (1.13) | 10,785 (0.78) and 12,555 (0.86) |
//! | gives up its P (`interpose`) | 12,282 and 11,923 | 11,781 (0.96) and 12,347 (1.04) | 11,145 (0.91) and 10,653 (0.89) |
//!
//! On two processors of an Intel Xeon (25 November 2026), six runs of the second row gave these ranges. OS
//! threads: 23,912 to 26,838. Green threads: 26,921 to 31,030 (1.04 to 1.20, 1.10 in the middle). In
//! `blocking`: 20,416 to 23,129 (0.83 to 0.90). In a process of their own green threads answered 21,400 to
//! 23,300, and OS threads 23,800 to 26,300. The kernel then left one processor idle for an eighth of the
//! time, although several of the server's processes waited for the other. With each of these bound to one
//! processor the green threads were at 25,000 to 26,000.
//!
//! A green thread that was blocked goes on [without a P](super::blocking) until it parks. So the further
//! waits of a query cost it no more than an OS thread. A P that is handed off may be on its way to an OS
//! thread that still sleeps. An OS thread that is awake and has no P takes it over. Without `interpose`
//! sysmon takes the P of the first wait, and fewer threads compete with the server. `blocking` hands the P
//! off in each query, which wakes another OS thread. On a loaded machine sysmon looks later, and the first
//! row's green threads were at 0.7.
//!
//! What the pool itself waits by counts as much. Without `interpose`, a green thread that waits in a std
//! channel or a std lock blocks its OS thread without announcing it. Each query then blocks twice, for its
//! connection and for its reply. In a [`channel`](crate::channel) of this crate the first wait parks, and
//! what is left is the wait for the reply. A wait below a millisecond is not noticed: the green thread keeps
//! its P. So no more queries are under way than there are Ps, and a quiet machine idles. The table has 100
//! threads with 20 connections of the crate redis, on two processors of a quiet machine (27 November 2026).
//! It shows thousand queries a second in three rounds, and the shares of OS threads with the same pool:
//!
//! | threads | std channel behind a std lock | [`channel`](crate::channel) |
//! | --- | --- | --- |
//! | OS threads | 54 to 71 | 54 to 70 |
//! | green threads, 2 Ps | 54 to 70 (0.92 to 1.0) | 33 to 42 (0.56 to 0.68) |
//! | green threads, 4 Ps; 8 Ps | | 86 to 90; 95 to 98 |
//! | green threads, 2 Ps, in `blocking` | 2.4 (0.04) | 47 to 58 (0.68 to 0.87) |
//! | green threads, 2 Ps, `interpose!` and own thread-locals | 83 to 104 (1.26 to 1.55) | 89 to 116 (1.67 to 1.69) |
//!
//! So keep connections in a [`channel`](crate::channel), or take a permit of a
//! [`Semaphore`](crate::sync::Semaphore) before a connection of another pool. Catch the calls, or give the
//! runtime some Ps more than there are processors. `blocking` pays where a call takes long, and never beside
//! waits for locks of std, which keep the Ps that it hands off.
//!
//! # TLS
//!
//! | crate | use | OS threads | test |
//! | --- | --- | --- | --- |
//! | rustls | over a stream (`rustls::StreamOwned`) | none | `examples/tls.rs`, `examples/tests/clients.rs` |
//! | native-tls | over a std stream with `interpose`. Over a stream of [`net`](crate::net) it parks inside OpenSSL's frames, and C keeps addresses of thread-locals: [pin](crate::thread::pin) that green thread | none with `interpose`; pinned, one for each connection | `tests/crates/interpose/tests/blocking/mail_and_tls.rs`; pinned: `tests/crates/tests/streams.rs` |
//!
//! # Logging, parallel computation
//!
//! | crate | use | OS threads | test |
//! | --- | --- | --- | --- |
//! | tracing | the feature `tracing`: entered spans and the default dispatcher follow the green thread. Without it, spans are mixed up when a green thread parks inside one ([`context_slot`](crate::context_slot) says why) | none | `tests/tests/inspect/tracing.rs` |
//! | rayon | `rayon::spawn` with a job that sends its result through a [`oneshot`](crate::sync::oneshot): the caller parks. Other calls of rayon (`join`, `scope`, parallel iterators) block the caller's OS thread: make them in [`blocking`](crate::blocking). Rayon's pool computes beside the Ps, and competes with them | rayon's pool; one more for each caller that blocks | `tests/crates/tests/streams.rs` |
//!
//! A job in rayon's pool runs on a plain OS thread: calls that park block that thread there.
//!
//! # Values that must not be kept across a park
//!
//! Many crates return a guard that belongs to the OS thread. To keep such a value across a call that parks is
//! undefined behaviour, a deadlock, or a wrong result, although the program compiles. The page
//! [moving](super::moving#types-that-must-not-be-kept-across-a-park) lists these values, and the ways out.
//!
//! [`time::timeout`](crate::time::timeout) ends waits of this crate. It does not end a call that blocks, and
//! with `interpose` such a call returns an error instead.
