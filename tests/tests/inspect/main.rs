//! What looks inside: dumps, deadlocks, debuggers, metrics, traces, profiles, spans.

#[cfg(feature = "dump-stacks")]
mod await_stacks;
mod deadlock;
mod deadlock_of_some;
#[cfg(feature = "debug")]
mod debug_browser;
#[cfg(feature = "debug")]
mod debug_page;
mod debuggers;
mod dump;
mod dump_on;
mod dump_snapshot;
#[cfg(feature = "dump-stacks")]
mod dump_stacks;
#[cfg(feature = "debug")]
mod heap;
mod hog_reports;
mod labels;
mod metrics;
#[cfg(feature = "debug")]
mod profile;
#[cfg(feature = "dump-stacks")]
mod spawn_stacks;
mod trace;
mod trace_files;
#[cfg(feature = "perfetto")]
mod trace_perfetto;
#[cfg(feature = "perfetto")]
mod trace_stream;
mod trace_user;
#[cfg(feature = "tracing")]
mod tracing;
#[cfg(feature = "tracing")]
mod tracing_global;
mod waits;
