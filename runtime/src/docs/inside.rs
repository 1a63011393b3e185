//! Looking inside a running program: a walk through `examples/inside.rs`, which has four faults. Each is
//! found within a minute.
//!
//! ```sh
//! cargo run -p examples --features debug --example inside -- --secs 600 --page 127.0.0.1:6060
//! ```
//!
//! The program serves the page of the module `debug` by one line, `runtime::debug::serve(address)`, and
//! prints the address. Without `--page` it takes any free port. What follows is the output of a real run of a
//! debug build, shortened where `..` stands.
//!
#![doc = include_str!("inside_picture.md")]
//!
//! # The crosswise lock
//!
//! Two green threads took two locks in opposite order, while the rest of the program goes on. The page names
//! them in a red box. The end of the dump [does, too](super::dumps#an-example):
//! `green thread 6 'transfer there' waits for a mutex (0x7f2098001be0, held by green thread 7 'transfer back')`.
//!
//! Both stacks show where the second lock is asked for: `transfer`. The cure is one order of locks for all.
//!
//! # The leak
//!
//! The chart of green threads rises and never falls. In the table by stack, the first row grows with it, and
//! its oldest green thread has waited since the program began. `curl
//! 'http://127.0.0.1:6060/dump?format=grouped'` says the same:
//!
//! ```text
//! 67 green threads: waits for a channel to receive, for 5 ms to 8 s, spawned at examples/inside.rs:87:9
//!     ids: 14, 22, 39, 40, 45, 51, 64, 87, 96, 98, 109, 119, 131, 143, 146, 151, ..
//!     awaits_reply
//!         at /home/me/runtime/examples/inside.rs:94
//!     inside::sells::{{closure}}
//!         at /home/me/runtime/examples/inside.rs:87
//! ```
//!
//! They wait for a message of a channel that has a sender. So that sender is kept somewhere, and sends
//! nothing. `awaits_reply` got the receiver from `Orders::send`, which keeps the sender in a map.
//!
//! # The slow handler
//!
//! Now and then many handlers wait for one mutex. The table's row of `handles_page` shows up to sixteen of
//! them. A click opens the row: each waits for a lock that is *held by* one green thread. The filter finds
//! that one by its number. So does `curl http://127.0.0.1:6060/dump` at such a moment:
//!
//! ```text
//! green thread 433: waits for a mutex, for 486 ms (0x7f20900016a0, held by green thread 1263), spawned at examples/inside.rs:144:9 by 5
//!     inside::handles_page
//!         at /home/me/runtime/examples/inside.rs:154
//!     inside::serves::{{closure}}
//!         at /home/me/runtime/examples/inside.rs:145
//! green thread 1263: waits for the end of a sleep, for 593 ms, due in 206 ms, spawned at examples/inside.rs:144:9 by 5
//!     asks_database
//!         at /home/me/runtime/examples/inside.rs:165
//!     inside::handles_search
//!         at /home/me/runtime/examples/inside.rs:160
//!     inside::serves::{{closure}}
//!         at /home/me/runtime/examples/inside.rs:145
//! ```
//!
//! `handles_search` asks the database under the lock that all handlers need. The cure is to ask first and
//! lock then.
//!
//! # The hog
//!
//! The chart of rescues has peaks: a green thread kept its P for longer than 10 ms while others waited. The
//! button *record* takes a CPU profile and draws a flame graph. Its first row is the green thread, and its
//! widest tower is the culprit. The same as text, by `curl
//! 'http://127.0.0.1:6060/profile?seconds=5&format=folded'`:
//!
//! ```text
//! green thread 'reports' spawned at examples/inside.rs:56;core::ops::function::FnOnce::call_once;reports;inside::builds_report;core::iter::traits::iterator::Iterator::fold 42
//! green thread 'reports' spawned at examples/inside.rs:56;core::ops::function::FnOnce::call_once;reports;inside::builds_report;core::iter::traits::iterator::Iterator::fold;..;spec_next<u64> 34
//! green thread 'reports' spawned at examples/inside.rs:56;core::ops::function::FnOnce::call_once;reports;inside::builds_report;core::iter::traits::iterator::Iterator::fold;{closure#0} 10
//! ..
//! ```
//!
//! So of the CPU time most goes to the green thread `reports`, in `builds_report`. It computes without a call
//! into the runtime; a [`yield_now`](crate::yield_now) in its loop, or [`blocking`](crate::blocking()) around
//! it, gives the P to others. `go tool pprof 'http://127.0.0.1:6060/profile?seconds=5'` reads the same
//! samples.
//!
//! # If the page cannot be reached
//!
//! gdb reads the same from the process or from its core file: see [debuggers](crate::docs::debuggers). `kill
//! -QUIT` writes a dump to stderr, if the program was started with `RUNTIME_DUMP=QUIT`: see
//! [dumps](crate::docs::dumps).
