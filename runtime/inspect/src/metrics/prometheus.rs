//! `prometheus`: a snapshot in the text format of Prometheus.

use std::fmt::{Display, Write};

use super::{Histogram, Proc, Snapshot};

/// Returns `snapshot` in the text format of Prometheus, version 0.0.4 (`text/plain; version=0.0.4`), for the
/// answer to a scrape.
///
/// Each name begins with `runtime_`. Counters end in `_total`. The metrics of a P have the label `proc`. A
/// process with several runtimes serves them under several paths, or as several targets.
///
/// ```
/// use runtime::metrics;
/// runtime::block_on(|| runtime::spawn(|| ()).join().unwrap());
/// let text = metrics::prometheus(&metrics::snapshot());
/// assert!(text.contains("\n# TYPE runtime_green_threads_spawned_total counter\nruntime_green_threads_spawned_total "));
/// ```
pub fn prometheus(snapshot: &Snapshot) -> String {
    let mut page = Page(String::new());
    page.gauges(snapshot);
    page.counters(snapshot);
    page.procs(&snapshot.by_proc);
    page.histograms(snapshot);
    page.0
}

/// The text so far.
struct Page(String);

impl Page {
    fn gauges(&mut self, now: &Snapshot) {
        self.gauge("procs", "Ps", now.procs);
        self.gauge("procs_idle", "Ps that no OS thread uses", now.idle_procs);
        self.head("threads", "OS threads that run green threads, by state", "gauge");
        // The figures are read one after the other, so they may disagree slightly.
        let busy = now.threads.saturating_sub(now.idle_threads + now.spinning_threads);
        for (state, n) in [("idle", now.idle_threads), ("spinning", now.spinning_threads), ("busy", busy)] {
            self.line("threads", &format!("{{state=\"{state}\"}}"), n);
        }
        self.head("green_threads", "Green threads that live, by state", "gauge");
        for (state, n) in [("running", now.running), ("runnable", now.runnable), ("waiting", now.waiting)] {
            self.line("green_threads", &format!("{{state=\"{state}\"}}"), n);
        }
        self.gauge(
            "green_threads_stackless",
            "Runnable green threads that wait for memory for a stack",
            now.stackless,
        );
        self.gauge("global_queue_length", "Length of the global run queue", now.global_queue);
        self.gauge(
            "blocking_threads",
            "OS threads whose green thread is in `blocking`",
            now.blocking_threads,
        );
        self.gauge(
            "blocking_queue_length",
            "Calls of the runtime that wait for an OS thread",
            now.blocking_queue,
        );
        self.gauge("descriptors", "Descriptors that are registered with the netpoller", now.descriptors);
        self.gauge("near_pollers", "Ps that have had sockets near them", now.near_pollers);
        self.gauge("timers_pending", "Timers that are pending", now.timers_pending);
        self.gauge("stack_address_space_bytes", "Address space taken for stacks", now.stack_bytes);
    }

    fn counters(&mut self, now: &Snapshot) {
        self.counter("green_threads_spawned", "Green threads spawned", now.spawned);
        self.counter("green_threads_ended", "Green threads that have ended", now.ended);
        self.counter("parks", "Times that a green thread parked", now.parks);
        self.counter(
            "parks_in_polls",
            "Times that a green thread parked while it polled a future",
            now.parks_in_polls,
        );
        self.counter("yields", "Times that a green thread yielded", now.yields);
        self.counter("steals", "Times that a P stole green threads", now.steals);
        self.counter("stolen", "Green threads that were stolen", now.stolen);
        self.counter("polls", "Polls of futures that are green threads", now.polls);
        self.counter("timers_fired", "Timers that have fired", now.timers_fired);
        self.counter("timers_stolen", "Timers that another P than their own fired", now.timers_stolen);
        self.counter("net_wakeups", "Green threads that the network woke", now.net_wakeups);
        self.counter("net_polls", "Polls of the network", now.net_polls);
        self.counter("net_breaks", "Times that a blocking poll was interrupted", now.net_breaks);
        self.counter("net_ready", "Waits for the network that a ready descriptor has ended", now.net_ready);
        self.counter(
            "net_moves",
            "Sockets moved to the P that receives their packets, or away",
            now.net_moves,
        );
        self.counter("preemptions", "Ps taken from green threads", now.preemptions);
        self.counter(
            "preemptions_asked",
            "Ps that green threads gave up because they were asked to",
            now.preemptions_asked,
        );
        self.counter(
            "hand_offs",
            "Ps handed off by green threads in `blocking`, or taken from them",
            now.hand_offs,
        );
        self.head(
            "rescues_total",
            "Ps taken from green threads that kept them, by what these did",
            "counter",
        );
        self.line("rescues_total", "{of=\"computing\"}", now.rescues_computing);
        self.line("rescues_total", "{of=\"blocked\"}", now.rescues_blocked);
        self.counter(
            "cancellations_swallowed",
            "Times that code caught a cancellation and went on",
            now.swallowed_cancellations,
        );
        self.counter("sysmon_wakeups", "Times that sysmon woke", now.sysmon_wakeups);
    }

    fn procs(&mut self, procs: &[Proc]) {
        self.by_proc(procs, "proc_queue_length", "Length of a run queue", "gauge", |p| p.queue as u64);
        self.by_proc(procs, "proc_timers_pending", "Timers of a P", "gauge", |p| p.timers_pending as u64);
        self.by_proc(procs, "proc_parks_total", "Parks on a P", "counter", |p| p.parks);
        self.by_proc(procs, "proc_yields_total", "Yields on a P", "counter", |p| p.yields);
        self.by_proc(procs, "proc_steals_total", "Steals by a P", "counter", |p| p.steals);
        self.by_proc(procs, "proc_polls_total", "Polls on a P", "counter", |p| p.polls);
        let name = "proc_busy_seconds_total";
        self.head(name, "Time for which a P was in use", "counter");
        for (index, proc) in procs.iter().enumerate() {
            self.line(name, &format!("{{proc=\"{index}\"}}"), proc.busy.as_secs_f64());
        }
    }

    fn histograms(&mut self, now: &Snapshot) {
        self.histogram("sched_latency_seconds", "Time from ready to running, by samples", &now.latency);
        self.histogram(
            "slice_seconds",
            "Time from a resume of a closure to its next stop, by samples",
            &now.slices,
        );
        self.histogram("poll_seconds", "Time of a poll of a future, by samples", &now.poll_times);
        self.histogram("timer_lateness_seconds", "Time by which timers fired late", &now.timer_lateness);
    }

    /// Writes one bucket for each power of two.
    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        let (mut below, buckets) = (0, histogram.buckets().collect::<Vec<_>>());
        for four in buckets.chunks(4) {
            below += four.iter().map(|(_, count)| count).sum::<u64>();
            // The last bucket has all longer times.
            let is_last = four.last().map(|(bound, _)| bound) == buckets.last().map(|(bound, _)| bound);
            let bound = four.last().filter(|_| !is_last).map(|(bound, _)| bound.as_secs_f64().to_string());
            let bound = bound.unwrap_or_else(|| "+Inf".into());
            self.line(&format!("{name}_bucket"), &format!("{{le=\"{bound}\"}}"), below);
        }
        self.line(&format!("{name}_sum"), "", histogram.sum().as_secs_f64());
        self.line(&format!("{name}_count"), "", below);
    }

    fn by_proc(&mut self, procs: &[Proc], name: &str, help: &str, kind: &str, value: fn(&Proc) -> u64) {
        self.head(name, help, kind);
        for (index, proc) in procs.iter().enumerate() {
            self.line(name, &format!("{{proc=\"{index}\"}}"), value(proc));
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: usize) {
        self.head(name, help, "gauge");
        self.line(name, "", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let name = format!("{name}_total");
        self.head(&name, help, "counter");
        self.line(&name, "", value);
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        self.write(format_args!("# HELP runtime_{name} {help}.\n# TYPE runtime_{name} {kind}\n"));
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        self.write(format_args!("runtime_{name}{labels} {value}\n"));
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("a string takes any text");
    }
}
