//! Channels and `select!`.

mod basics;
mod cancel;
mod closing;
mod drops;
mod events;
mod fairness;
mod futures;
mod go;
mod locals;
mod misuse;
mod permits;
mod polls;
mod ready;
mod select;
mod select_futures;
mod select_macro;
mod select_net;
mod select_stress;
#[cfg(feature = "stream")]
mod streams;
mod stress;
mod timed;
mod waiting;
mod weak;
