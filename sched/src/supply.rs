//! What running Gs takes, as it comes and goes: the start of a runtime, Ms, Ps, stacks.

mod resize;
mod stack_supply;
pub(crate) mod start;
pub(crate) mod threads;
