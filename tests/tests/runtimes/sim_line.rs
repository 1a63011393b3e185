//! This program has no line `runtime::sim!();`: simulations refuse it.

#![cfg(feature = "sim")]

use std::panic::catch_unwind;

#[test]
fn a_simulation_names_the_line_that_the_program_has_not() {
    let refused = catch_unwind(|| runtime::sim::run(1, || ())).unwrap_err();
    let text = refused.downcast_ref::<String>().expect("a text");
    assert!(text.contains("no line `runtime::sim!();`"), "{text}");
}
