//! Sleeps, time-outs, and the types of `runtime::time`.

mod after_func;
mod delay_queue;
mod interval;
mod latency;
mod sleep_future;
mod sleeps;
mod ticker;
mod timeout;
mod timer;
