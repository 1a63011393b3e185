//! What makes Gs ready without another G: timers that fire, and the network. Polls, also those near a P,
//! stations of foreign code, code of users.

mod fire;
pub(crate) mod near;
pub mod net_wakers;
mod poll;
#[cfg(all(feature = "interpose", target_os = "linux"))]
mod station;
#[cfg(not(all(feature = "interpose", target_os = "linux")))]
#[path = "sources/no_station.rs"]
mod station;
mod user_code;
