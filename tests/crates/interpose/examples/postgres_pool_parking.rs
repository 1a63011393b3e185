//! The example `postgres_pool` of `tests/crates`, in a program where calls of libc park green threads.

runtime::interpose!();

#[path = "../../examples/postgres_pool.rs"]
mod program;

fn main() {
    program::main();
}
