//! Simulations: what makes the choices of a simulated scheduler. `run/simulated.rs` asks for them.

pub(crate) mod outside_words;
pub(crate) mod simulation;
