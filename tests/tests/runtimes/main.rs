//! Runtimes: their settings, their Ps, their ends.

mod attributes;
mod blocking_threads;
mod moves;
mod public_types;
mod resize;
mod several;
mod settings;
mod soak;
mod strict;
