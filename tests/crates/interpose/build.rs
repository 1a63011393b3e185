//! Compiles the C program with the optimisation that keeps the address of `errno` across a call.

fn main() {
    println!("cargo:rerun-if-changed=c");
    cc::Build::new()
        .file("c/calls.c")
        .opt_level(2)
        .flag("-pthread")
        .warnings_into_errors(true)
        .compile("calls");
    cc::Build::new()
        .file("c/checked.c")
        .opt_level(2)
        .define("_FORTIFY_SOURCE", "2")
        .warnings_into_errors(true)
        .compile("checked");
}
