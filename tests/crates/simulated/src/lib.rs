//! Programs of std alone: no line of them names the runtime. `tests` runs them in simulations.
