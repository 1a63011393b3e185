//! What looks at the scheduler from outside: sysmon, the metrics, the dump.

pub(crate) mod dump;
pub(crate) mod metrics;
pub(crate) mod monitor;
mod plan;
pub(crate) mod sysmon;
