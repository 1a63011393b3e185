//! Misuse, faults and unusual places of calls.

mod arguments;
mod cancelled;
mod contained;
mod exit;
mod fork;
mod main_thread;
mod overflow;
mod shutdown;
mod unpolled;
mod unwinding;
mod wakers;
