//! What `runtime` calls on behalf of user code: spawning, joining, parking, sleeping, driving a future,
//! values of a thread. What the crate `sysmon` may do is in `monitor.rs`.

pub(crate) mod after_func;
pub(crate) mod backoff;
pub mod block_on;
pub mod budget;
pub mod contexts;
#[cfg(all(feature = "interpose", target_os = "linux"))]
pub mod foreign;
mod inherit;
pub(crate) mod join;
pub mod labels;
pub mod locals;
pub(crate) mod mask;
pub(crate) mod monitor;
pub(crate) mod node;
pub(crate) mod os_locals;
pub mod park;
pub(crate) mod point;
pub mod revocable;
pub mod shares;
pub(crate) mod simulation;
pub mod sleep;
pub mod spawn;
#[cfg(all(feature = "interpose", target_os = "linux"))]
pub mod std_wait;
pub(crate) mod wakes;
