//! The network, as the scheduler uses it: polls, stations of foreign code, wakers of futures.

pub mod net_wakers;
mod poll;
#[cfg(all(feature = "interpose", target_os = "linux"))]
mod station;
#[cfg(not(all(feature = "interpose", target_os = "linux")))]
#[path = "net/no_station.rs"]
mod station;
