//! The main figures: the lines of the short plot.

/// Name in the plot, case, number of Ps, and key of the figure.
pub(crate) const FRONT: &[(&str, &str, usize, &str)] = &[
    ("spawn a task and join it", "spawn-join", 2, "ns_per_op"),
    ("yield", "yield", 2, "ns_per_yield"),
    ("ping-pong over two channels", "pingpong", 2, "ns_per_rt"),
    ("channel, 4 senders and 4 receivers", "chan-4p4c", 2, "mmsgs_per_s"),
    ("mutex, 8 tasks", "mutex", 2, "ns_per_op"),
    ("a tree of 1,000,000 tasks", "skynet", 2, "warm_ms"),
    ("sleep of 1 ms: how late", "sleep-precision", 2, "d1000us_p50_us"),
    ("500,000 sleeps of 10 ms, p99", "timers-500k", 2, "p99_ms"),
    ("make a timer and cancel it", "timer-churn", 2, "ns_per_op"),
    ("1 ms ticker beside hogs, p99 late", "hog", 2, "p99_ms"),
    ("1 ms ticker, threads blocked, p99 late", "hog-block", 2, "p99_ms"),
    ("TCP echo, 64 connections", "echo", 2, "req_per_s"),
    ("HTTP: processor time of a request", "http", 2, "server_cpu_us_per_req"),
    ("memory of a sleeping closure", "sleepers-closures", 2, "bytes_per_task"),
    ("memory of a sleeping future", "sleepers-futures", 2, "bytes_per_task"),
];

#[cfg(test)]
mod tests {
    use super::FRONT;
    use crate::cases::CASES;

    #[test]
    fn each_line_is_a_figure_of_a_case() {
        for (name, case, procs, key) in FRONT {
            let found = CASES.iter().find(|known| known.name == *case).expect(name);
            assert!(found.procs.contains(procs), "{name}");
            assert!(found.metrics.iter().any(|metric| metric.key == *key), "{name}");
        }
    }
}
