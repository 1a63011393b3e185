//! Runtimes: their settings, their Ps, their ends.

mod attributes;
mod blocking_threads;
mod moves;
mod processors;
mod public_types;
mod resize;
mod settings;
mod several;
mod sim_line;
mod soak;
mod strict;
mod thread_calls;
