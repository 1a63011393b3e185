//! Sleeps, time-outs, and the types of `runtime::time`.

mod after_func;
mod latency;
mod sleeps;
mod ticker;
mod timeout;
mod timer;
