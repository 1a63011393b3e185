//! Which figures there are, and what Go and tokio call them.
//!
//! [`metrics::snapshot`](crate::metrics::snapshot) reads all figures of a runtime at once, in some
//! microseconds, and visits no green thread. [`metrics::prometheus()`](crate::metrics::prometheus()) writes
//! them as text, and [`metrics::by_place`](crate::metrics::by_place) has them by spawn place.
//!
//! # Go's `runtime/metrics`
//!
//! | Go | here, in [`Snapshot`](crate::metrics::Snapshot) |
//! | --- | --- |
//! | `/sched/gomaxprocs:threads` | `procs` |
//! | `/sched/goroutines:goroutines` | `running + runnable + waiting`, or [`num_green_threads`](crate::num_green_threads) |
//! | `/sched/goroutines/running`, `runnable`, `waiting` | `running`, `runnable`, `waiting` |
//! | `/sched/goroutines/not-in-go` | `blocking_threads` |
//! | `/sched/goroutines-created` | `spawned` |
//! | `/sched/latencies:seconds` | `latency` |
//! | `/sched/threads/total:threads` | `threads` |
//! | `/sched/pauses/..` | none: nothing stops the world |
//! | `schedtrace`: `idleprocs`, `spinningthreads`, `idlethreads`, `runqueue` | `idle_procs`, `spinning_threads`, `idle_threads`, `global_queue` and `local_queues` |
//! | `/cgo/go-to-c-calls:calls` | none: a call of C is like any other call |
//!
//! # tokio's `RuntimeMetrics`
//!
//! "Of a worker" is in `by_proc`, a [`Proc`](crate::metrics::Proc) for each P.
//!
//! | tokio | here, in [`Snapshot`](crate::metrics::Snapshot) |
//! | --- | --- |
//! | `num_workers` | `procs` |
//! | `num_alive_tasks`, `spawned_tasks_count` | `spawned - ended`, `spawned` |
//! | `global_queue_depth`, `injection_queue_depth` | `global_queue` |
//! | `worker_local_queue_depth` | `queue`, `local_queues` |
//! | `worker_park_count`, `worker_noop_count`, `worker_thread_id` | none: an OS thread is not tied to a P. See `idle_threads`, `net_polls` and `parks`, which counts those of green threads |
//! | `worker_steal_count`, `worker_steal_operations` | `stolen`, `steals` |
//! | `worker_poll_count` | `polls` for futures; `slices` for closures |
//! | `worker_mean_poll_time` | `poll_times.mean()` |
//! | `poll_time_histogram_*` | `poll_times`; `slices` for closures |
//! | `worker_total_busy_duration` | `busy` |
//! | `worker_local_schedule_count`, `remote_schedule_count` | `latency.count()` estimates all wake-ups and spawns |
//! | `worker_overflow_count` | none: the queue of a P has no bound and does not overflow |
//! | `budget_forced_yield_count` | `preemptions`, `preemptions_asked` |
//! | `num_blocking_threads`, `num_idle_blocking_threads` | `blocking_threads`; `idle_threads`, which serve both purposes |
//! | `blocking_queue_depth` | `blocking_queue` |
//! | `io_driver_ready_count` | `net_ready` |
//! | `io_driver_fd_registered_count`, `.._deregistered_count` | `descriptors`, which is their difference |
//!
//! Neither has these figures. `rescues_computing`, `rescues_blocked` and `rescues` name green threads that
//! kept a P. The others are `hand_offs`; `timer_lateness`, `timers_fired` and `timers_stolen`;
//! `net_wakeups`, `net_breaks`, `net_moves` and `near_pollers`; `stackless` and `stack_bytes`;
//! `sysmon_wakeups`. `parks_in_polls` counts calls that park where a future should await: [what they
//! cost](super::moving#what-a-poll-that-parks-costs).
//!
//! # What is measured, and what is sampled
//!
//! Counters are exact, but for what their documentation says. `timer_lateness` has every timer.
//!
//! `latency`, `slices` and `poll_times` come from samples of wake-ups, spawns and yields. A few hundred a
//! second are sampled for each P, and all of them while they are rare. Each sample counts as often as the
//! wake-ups that it stands for, up to 1024. So the counts estimate those of all wake-ups, and quantiles are
//! those of all wake-ups. A sample costs about 0.2 us; counting a wake-up costs two instructions.
//! [`Builder::measure_all`](crate::Builder::measure_all) measures every wake-up.
//!
//! A bucket of a [`Histogram`](crate::metrics::Histogram) is at most a quarter wider than the times that it
//! begins with. The fraction of times below a bound is an estimate. With `n` samples its standard error is at
//! most `0.5 / sqrt(n)`. That is 5 % with a hundred samples and 1 % with 2,500. A time that one wake-up in a
//! thousand has may be in no sample at all.
//!
//! # Hogs
//!
//! A green thread that keeps its P for long while others wait loses the P: a *rescue*.
//! [`metrics::hogs`](crate::metrics::hogs()) counts rescues by spawn place, and the function of
//! [`Builder::on_hog`](crate::Builder::on_hog) is called for each. With the feature `dump-stacks` a report
//! has the stack of the hog, also of one inside the C library or the allocator. A signal, SIGURG, interrupts
//! the hog's OS thread for the microseconds that copying its stack takes; another OS thread looks for the
//! names. A program with an action of its own for SIGURG gets reports without stacks.
//!
//! ```text
//! green thread 3 'hog' computed for 10.272992ms, spawned at src/main.rs:8
//!     app::checksum
//!         at /home/me/app/src/main.rs:20
//!     app::main::{{closure}}::{{closure}}
//!         at /home/me/app/src/main.rs:8
//! ```
//!
//! The function of [`Builder::on_late_wake`](crate::Builder::on_late_wake) is called for green threads that
//! waited for a P for longer than a bound. It is called for ten in a second at most.
