//! The cost of a stretch of a workload: time, processor time, context switches, and counters of the runtime.

use std::time::{Duration, Instant};

use peer_common::process::Usage;
use runtime::metrics::{self, Snapshot};

/// A stretch that has begun, with the values at its begin.
pub(crate) struct Span {
    start: Instant,
    usage: Usage,
    counters: Snapshot,
}

/// The cost of a stretch.
pub(crate) struct Spent {
    pub(crate) wall: Duration,
    usage: Usage,
    parks: u64,
    hand_offs: u64,
    sysmon_wakeups: u64,
}

impl Span {
    /// Begins a stretch. *Runs on: a green thread.*
    pub(crate) fn begin() -> Span {
        // The snapshot takes longest, so it comes first, outside the measured stretch.
        let counters = metrics::snapshot();
        let usage = Usage::now();
        Span { start: Instant::now(), usage, counters }
    }

    /// Ends the stretch, and returns its cost. *Runs on: a green thread of the same runtime.*
    pub(crate) fn end(self) -> Spent {
        let wall = self.start.elapsed();
        let usage = Usage::now() - self.usage;
        let counters = metrics::snapshot();
        // A P went to another OS thread: its holder handed the P off, or sysmon took the P because the holder
        // blocked or computed.
        let hand_offs = |all: &Snapshot| all.hand_offs + all.rescues_blocked + all.rescues_computing;
        Spent {
            wall,
            usage,
            parks: counters.parks - self.counters.parks,
            hand_offs: hand_offs(&counters) - hand_offs(&self.counters),
            sysmon_wakeups: counters.sysmon_wakeups - self.counters.sysmon_wakeups,
        }
    }
}

impl Spent {
    /// Returns the costs divided by `n` timers.
    pub(crate) fn per(&self, n: u64) -> Figures {
        let per = |count: u64| count as f64 / n as f64;
        Figures(vec![
            ("CPU, µs a timer", self.usage.cpu.as_secs_f64() * 1e6 / n as f64),
            ("voluntary switches a timer", per(self.usage.voluntary)),
            ("involuntary switches a timer", per(self.usage.involuntary)),
            ("hand-offs a timer", per(self.hand_offs)),
            ("parks a timer", per(self.parks)),
            ("sysmon's wake-ups a timer", per(self.sysmon_wakeups)),
        ])
    }

    /// Returns the total costs.
    pub(crate) fn totals(&self) -> Figures {
        Figures(vec![
            ("CPU, ms", self.usage.cpu.as_secs_f64() * 1e3),
            ("voluntary switches", self.usage.voluntary as f64),
            ("involuntary switches", self.usage.involuntary as f64),
            ("hand-offs", self.hand_offs as f64),
            ("sysmon's wake-ups", self.sysmon_wakeups as f64),
        ])
    }
}

/// The results of one run: values, with names that include the unit.
pub(crate) struct Figures(pub(crate) Vec<(&'static str, f64)>);

impl Figures {
    /// Appends the figures in `more`.
    pub(crate) fn and(mut self, more: Figures) -> Figures {
        self.0.extend(more.0);
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        Some(self.0.iter().find(|(known, _)| *known == name)?.1)
    }
}
