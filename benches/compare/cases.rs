//! The cases of the comparison, the entrants of each case, and the goals.
//!
//! A goal is a ratio to the best peer in the same run, because absolute figures change with the machine.
//! Figures that do not change with the machine (mostly bytes) have absolute goals. Some figures include the
//! requested time, such as a mean. For such a figure the ratio was computed when the goals were set: the
//! figure to reach, divided by the best peer's figure.

/// A program that takes part in a case, with its label, arguments and role.
#[derive(Clone, Copy)]
pub(crate) struct Entrant {
    /// The entrant's name in the tables.
    pub(crate) label: &'static str,
    /// The name of the entrant's program in `programs.rs`.
    pub(crate) program: &'static str,
    args: &'static str,
    /// Replaces `args` with `--quick`.
    quick: Option<&'static str>,
    pub(crate) role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// This entrant must reach the goals.
    Ours,
    /// The best entrant with this role sets the relative goals.
    Peer,
    /// This entrant is shown beside the others. No `Best` goal refers to it; an `Of` goal may.
    Shown,
}

impl Entrant {
    const fn peer(program: &'static str) -> Entrant {
        Entrant { label: program, program, args: "", quick: None, role: Role::Peer }
    }

    const fn with(self, args: &'static str) -> Entrant {
        Entrant { args, ..self }
    }

    const fn with_quick(self, quick: &'static str) -> Entrant {
        Entrant { quick: Some(quick), ..self }
    }

    const fn called(self, label: &'static str) -> Entrant {
        Entrant { label, ..self }
    }

    const fn shown(self) -> Entrant {
        Entrant { role: Role::Shown, ..self }
    }

    pub(crate) fn args(&self, quick: bool) -> &'static str {
        if quick { self.quick.unwrap_or(self.args) } else { self.args }
    }
}

const OURS: Entrant = Entrant { role: Role::Ours, ..Entrant::peer("ours") };
const GO: Entrant = Entrant::peer("go");
const TOKIO: Entrant = Entrant::peer("tokio");
const MAY: Entrant = Entrant::peer("may");
/// tokio built with `--cfg tokio_unstable`, with its timers in the workers.
const ALT: Entrant = Entrant::peer("tokio-alt").with("--alt").shown();

/// Loops over epoll, without a runtime: how near a runtime comes to them.
const EPOLL: Entrant = Entrant::peer("epoll").shown();

/// The same over io_uring: what a netpoller over io_uring could gain at most.
const URING: Entrant = EPOLL.called("io_uring").with("--kind uring");

const ALL: &[Entrant] = &[OURS, GO, TOKIO, MAY];
/// The entrants of servers.
const SERVERS: &[Entrant] = &[OURS, GO, TOKIO, MAY, EPOLL];
const TIMED: &[Entrant] = &[OURS, GO, TOKIO, ALT, MAY];
/// The entrants of timer cases. Go takes part twice: with a function that the timer calls, and with a
/// goroutine that sleeps.
const TIMERS: &[Entrant] = &[OURS, GO, GO.called("go sleep").with("--kind sleep"), TOKIO, ALT, MAY];

/// A workload with its sizes.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) workload: &'static str,
    /// A description for readers.
    pub(crate) title: &'static str,
    args: &'static str,
    quick: &'static str,
    pub(crate) procs: &'static [usize],
    pub(crate) entrants: &'static [Entrant],
    pub(crate) metrics: &'static [Metric],
    /// A run that takes longer fails.
    pub(crate) limit_secs: u64,
}

impl Case {
    /// Returns the arguments that are common to all entrants.
    pub(crate) fn args(&self, quick: bool) -> &'static str {
        if quick { self.quick } else { self.args }
    }

    /// True if `word` selects this case: by its workload, its name, or the words that begin its name.
    pub(crate) fn is_called(&self, word: &str) -> bool {
        let begins =
            |name: &str| name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        begins(self.name) || self.workload == word
    }
}

/// A figure of a result, with its goals.
pub(crate) struct Metric {
    /// The figure's key in the line of JSON, or the key of a figure that `run.rs` derives.
    pub(crate) key: &'static str,
    pub(crate) better: Better,
    pub(crate) goals: &'static [Goal],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Better {
    Smaller,
    Larger,
}

/// A bound to reach, with one number of Ps or with any.
#[derive(Clone, Copy)]
pub(crate) struct Goal {
    /// `None` means any number of Ps.
    pub(crate) procs: Option<usize>,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// This factor times the best peer's figure.
    Best(f64),
    /// This factor times the named entrant's figure.
    Of(&'static str, f64),
    /// An absolute bound.
    AtMost(f64),
}

impl Goal {
    const fn any(bound: Bound) -> Goal {
        Goal { procs: None, bound }
    }

    const fn with(procs: usize, bound: Bound) -> Goal {
        Goal { procs: Some(procs), bound }
    }
}

/// Smaller is better.
const fn less(key: &'static str, goals: &'static [Goal]) -> Metric {
    Metric { key, better: Better::Smaller, goals }
}

/// Larger is better.
const fn more(key: &'static str, goals: &'static [Goal]) -> Metric {
    Metric { key, better: Better::Larger, goals }
}

use Bound::{AtMost, Best, Of};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "timers-1k",
        workload: "timers",
        title: "1,000 timers of 10 ms",
        args: "--n 1000 --ms 10",
        quick: "--n 100 --ms 10",
        procs: &[2],
        entrants: TIMERS,
        metrics: &[less("overshoot_ms", &[Goal::any(Best(0.3))]), less("mean_ms", &[]), less("p99_ms", &[])],
        limit_secs: 20,
    },
    Case {
        name: "timers-100k",
        workload: "timers",
        title: "100,000 timers of 10 ms",
        args: "--n 100000 --ms 10",
        quick: "--n 2000 --ms 10",
        procs: &[2],
        entrants: TIMERS,
        metrics: &[
            less("mean_ms", &[Goal::any(Best(0.71))]),
            less("p99_ms", &[Goal::any(Best(0.6))]),
            less("wall_ms", &[Goal::any(Best(0.6))]),
        ],
        limit_secs: 60,
    },
    Case {
        name: "timers-500k",
        workload: "timers",
        title: "500,000 timers of 10 ms",
        args: "--n 500000 --ms 10",
        quick: "--n 5000 --ms 10",
        procs: &[2],
        entrants: TIMERS,
        metrics: &[
            less("mean_ms", &[Goal::any(Best(0.65))]),
            less("p99_ms", &[Goal::any(Best(0.45))]),
            less("wall_ms", &[Goal::any(Best(0.68))]),
        ],
        limit_secs: 60,
    },
    Case {
        name: "timers-500k-100ms",
        workload: "timers",
        title: "500,000 timers of 100 ms",
        args: "--n 500000 --ms 100",
        quick: "--n 5000 --ms 100",
        procs: &[2],
        entrants: TIMERS,
        metrics: &[
            less("mean_ms", &[Goal::any(Best(0.93))]),
            less("p99_ms", &[Goal::any(Best(0.78))]),
            less("wall_ms", &[Goal::any(Best(0.65))]),
        ],
        limit_secs: 60,
    },
    Case {
        name: "sleepers-closures",
        workload: "sleepers-memory",
        title: "1,000,000 sleeping tasks with stacks",
        args: "--n 1000000 --secs 30",
        quick: "--n 10000 --secs 3",
        procs: &[2],
        entrants: &[OURS.with("--kind closure"), GO, MAY],
        metrics: &[
            less("bytes_per_task", &[Goal::any(AtMost(4_400.0))]),
            less("started_ms", &[Goal::any(AtMost(2_000.0))]),
        ],
        limit_secs: 60,
    },
    Case {
        name: "sleepers-futures",
        workload: "sleepers-memory",
        title: "1,000,000 sleeping futures",
        args: "--n 1000000 --secs 30",
        quick: "--n 10000 --secs 3",
        procs: &[2],
        entrants: &[OURS.with("--kind future"), TOKIO, ALT],
        metrics: &[
            less("bytes_per_task", &[Goal::any(Best(0.7))]),
            less("started_ms", &[Goal::any(AtMost(300.0))]),
        ],
        limit_secs: 60,
    },
    Case {
        name: "spawn-join",
        workload: "spawn-join",
        title: "spawn an empty task and join it",
        args: "--n 1000000",
        quick: "--n 20000",
        procs: &[2],
        // An operation takes may 25 us.
        entrants: &[OURS, GO, TOKIO, MAY.with("--n 100000").with_quick("--n 2000")],
        metrics: &[less("ns_per_op", &[Goal::any(Best(0.27))])],
        limit_secs: 60,
    },
    Case {
        name: "spawn-batch",
        workload: "spawn-batch",
        title: "spawn 100,000 empty tasks, join them all",
        args: "--n 100000 --rounds 10",
        quick: "--n 5000 --rounds 2",
        procs: &[2],
        entrants: ALL,
        metrics: &[less("ns_per_task", &[Goal::any(Best(0.4))])],
        limit_secs: 60,
    },
    Case {
        name: "yield",
        workload: "yield",
        title: "yield, two tasks a worker",
        args: "--n 1000000",
        quick: "--n 20000",
        procs: &[1, 2],
        entrants: ALL,
        metrics: &[less("ns_per_yield", &[Goal::any(Best(0.4))])],
        limit_secs: 60,
    },
    Case {
        name: "pingpong",
        workload: "pingpong",
        title: "a value there and back over two unbuffered channels",
        args: "--n 1000000",
        quick: "--n 20000",
        procs: &[1, 2],
        entrants: &[OURS, GO, TOKIO, MAY, MAY.called("may spsc").with("--lib spsc").shown()],
        metrics: &[less(
            "ns_per_rt",
            &[
                Goal::with(1, Best(0.27)),
                Goal::with(2, Best(0.35)),
                Goal::with(1, Of("may spsc", 0.85)),
                Goal::with(2, Of("may spsc", 1.1)),
            ],
        )],
        limit_secs: 60,
    },
    Case {
        name: "chan-4p4c",
        workload: "chan",
        title: "a bounded channel, 4 producers, 4 consumers",
        args: "--p 4 --c 4 --cap 1024 --n 8000000",
        quick: "--p 4 --c 4 --cap 1024 --n 200000",
        procs: &[2],
        entrants: &[
            OURS,
            GO,
            TOKIO,
            TOKIO.called("tokio flume").with("--lib flume"),
            MAY,
            MAY.called("may bounded").with("--bound 1").shown(),
        ],
        metrics: &[more("mmsgs_per_s", &[Goal::any(Best(1.6))])],
        limit_secs: 60,
    },
    Case {
        name: "chan-1p1c",
        workload: "chan",
        title: "a bounded channel, 1 producer, 1 consumer",
        args: "--p 1 --c 1 --cap 1024 --n 8000000",
        quick: "--p 1 --c 1 --cap 1024 --n 200000",
        procs: &[2],
        entrants: &[
            OURS,
            GO,
            TOKIO,
            TOKIO.called("tokio flume").with("--lib flume"),
            MAY,
            MAY.called("may bounded").with("--bound 1").shown(),
        ],
        metrics: &[more("mmsgs_per_s", &[Goal::any(Best(1.6))])],
        limit_secs: 60,
    },
    Case {
        name: "skynet",
        workload: "skynet",
        title: "a tree of 1,000,000 leaves over unbuffered channels",
        args: "--n 1000000 --cap 0 --reps 4",
        quick: "--n 10000 --cap 0 --reps 2",
        procs: &[2],
        entrants: &[OURS, GO, TOKIO, TOKIO.called("tokio oneshot").with("--lib oneshot").shown(), MAY],
        metrics: &[less("warm_ms", &[Goal::any(Best(0.5))]), less("first_ms", &[])],
        limit_secs: 60,
    },
    Case {
        name: "sieve",
        workload: "sieve",
        title: "the first 2,000 primes, a filter task each",
        args: "--n 2000 --limit 17389",
        quick: "--n 200 --limit 1223",
        procs: &[2],
        entrants: ALL,
        metrics: &[less("ms", &[Goal::any(Best(0.55))])],
        limit_secs: 60,
    },
    Case {
        name: "mutex",
        workload: "mutex",
        title: "8 tasks lock one mutex",
        args: "--tasks 8 --n 4000000",
        quick: "--tasks 8 --n 80000",
        procs: &[2],
        entrants: &[OURS, GO, TOKIO, TOKIO.called("tokio std").with("--kind std").shown(), MAY],
        metrics: &[less("ns_per_op", &[Goal::any(Best(0.5))])],
        limit_secs: 60,
    },
    Case {
        name: "timer-churn",
        workload: "timer-churn",
        title: "create an armed timer and cancel it",
        args: "--n 5000000",
        quick: "--n 100000",
        procs: &[2],
        entrants: &[
            OURS,
            OURS.called("ours chan").with("--kind chan").shown(),
            GO,
            GO.called("go chan").with("--kind chan").shown(),
            TOKIO,
            ALT,
            MAY,
        ],
        metrics: &[less("ns_per_op", &[Goal::any(Best(0.5))])],
        limit_secs: 60,
    },
    Case {
        name: "timer-reset",
        workload: "timer-reset",
        title: "reset one of 100,000 armed timers",
        args: "--live 100000 --tasks 2 --n 5000000",
        quick: "--live 2000 --tasks 2 --n 100000",
        procs: &[2],
        entrants: &[
            OURS,
            OURS.called("ours chan").with("--kind chan").shown(),
            GO,
            GO.called("go chan").with("--kind chan").shown(),
            TOKIO,
            ALT,
            MAY,
        ],
        metrics: &[less("ns_per_op", &[Goal::any(Best(0.85))])],
        limit_secs: 60,
    },
    Case {
        name: "sleep-precision",
        workload: "sleep-precision",
        title: "how late a lone sleep ends",
        args: "--reps 1000",
        quick: "--reps 20",
        procs: &[2],
        entrants: TIMED,
        metrics: &[
            less("d20us_p50_us", &[Goal::any(Best(0.4))]),
            less("d20us_p99_us", &[Goal::any(AtMost(90.0))]),
            less("d100us_p50_us", &[Goal::any(Best(0.4))]),
            less("d100us_p99_us", &[Goal::any(AtMost(90.0))]),
            less("d500us_p50_us", &[Goal::any(Best(0.4))]),
            less("d500us_p99_us", &[Goal::any(AtMost(90.0))]),
            less("d1000us_p50_us", &[Goal::any(Best(0.4))]),
            less("d1000us_p99_us", &[Goal::any(AtMost(90.0))]),
            less("d10000us_p50_us", &[Goal::any(Best(0.4))]),
            less("d10000us_p99_us", &[Goal::any(AtMost(90.0))]),
        ],
        limit_secs: 60,
    },
    Case {
        name: "sleep-loaded",
        workload: "sleep-loaded",
        title: "how late a sleep ends beside two busy tasks that yield",
        args: "--reps 1000 --busy 2",
        quick: "--reps 20 --busy 2",
        procs: &[2],
        entrants: TIMED,
        metrics: &[
            less("d1000us_p50_us", &[Goal::any(Best(1.0))]),
            less("d1000us_p99_us", &[Goal::any(Best(0.75))]),
            less("d10000us_p50_us", &[]),
            less("d10000us_p99_us", &[]),
        ],
        limit_secs: 90,
    },
    Case {
        name: "hog",
        workload: "hog",
        title: "lateness of a 1 ms ticker beside two computing tasks",
        args: "--hogs 2 --ms 200 --bursts 5",
        quick: "--hogs 2 --ms 50 --bursts 2",
        procs: &[2],
        entrants: TIMED,
        metrics: &[
            less("p50_ms", &[Goal::any(Of("may", 1.0))]),
            less("p99_ms", &[Goal::any(Of("go", 0.05))]),
            less("max_ms", &[Goal::any(Of("may", 1.1))]),
            less("hog_ms", &[]),
        ],
        limit_secs: 30,
    },
    Case {
        name: "hog-block",
        workload: "hog-block",
        title: "lateness of a 1 ms ticker beside two blocking tasks",
        args: "--hogs 2 --ms 200 --bursts 5",
        quick: "--hogs 2 --ms 50 --bursts 2",
        procs: &[2],
        entrants: &[
            OURS,
            GO,
            TOKIO,
            TOKIO.called("tokio in place").with("--kind in-place").shown(),
            ALT,
            MAY,
        ],
        metrics: &[
            less("p50_ms", &[Goal::any(Of("may", 1.0))]),
            less("p99_ms", &[Goal::any(Of("go", 0.02)), Goal::any(Of("may", 1.0))]),
            less("max_ms", &[Goal::any(Of("may", 1.0))]),
            less("hog_ms", &[]),
        ],
        limit_secs: 30,
    },
    Case {
        name: "echo",
        workload: "echo",
        title: "TCP echo, 64 connections",
        args: "--conns 64 --size 64 --secs 5",
        quick: "--conns 64 --size 64 --secs 1",
        procs: &[1, 2],
        entrants: &[OURS, GO, TOKIO, MAY, EPOLL, URING],
        metrics: &[more("req_per_s", &[Goal::any(Best(1.12))]), less("p50_us", &[]), less("p99_us", &[])],
        limit_secs: 30,
    },
    Case {
        name: "http",
        workload: "http",
        title: "HTTP keep-alive under wrk, 64 connections",
        args: "",
        quick: "",
        procs: &[1, 2],
        entrants: SERVERS,
        metrics: &[
            less("server_cpu_us_per_req", &[Goal::any(Best(0.88))]),
            more("req_per_s", &[]),
            less("p50_us", &[]),
            less("p99_us", &[]),
        ],
        limit_secs: 30,
    },
    Case {
        name: "idle",
        workload: "idle",
        title: "10,000 sleepers and 1,000 connections, nothing to do",
        args: "--tasks 10000 --conns 1000 --tick-ms 0 --secs 10",
        quick: "--tasks 1000 --conns 100 --tick-ms 0 --secs 1",
        procs: &[2],
        entrants: TIMED,
        metrics: &[less("cpu_ms", &[Goal::any(Best(1.0))]), less("vcsw", &[])],
        limit_secs: 40,
    },
    Case {
        name: "idle-ticker",
        workload: "idle",
        title: "a 1 ms ticker, nothing else",
        args: "--tasks 0 --conns 0 --tick-ms 1 --secs 10",
        quick: "--tasks 0 --conns 0 --tick-ms 1 --secs 1",
        procs: &[2],
        entrants: TIMED,
        metrics: &[less("cpu_us_per_tick", &[Goal::any(Best(0.55))]), less("vcsw", &[]), more("ticks", &[])],
        limit_secs: 40,
    },
    Case {
        name: "conns-memory",
        workload: "conns-memory",
        title: "10,000 idle connections, a task each",
        args: "--n 10000",
        quick: "--n 500",
        procs: &[2],
        entrants: ALL,
        metrics: &[less("bytes_per_conn", &[Goal::any(AtMost(4_700.0))])],
        limit_secs: 60,
    },
];
