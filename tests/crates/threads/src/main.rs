//! Programs of std, by the name in the first argument. `tests/programs.rs` runs each with green threads and
//! with OS threads, and compares what it prints.

mod children;
mod deep;
mod ends;
mod locals;
mod net;
mod panics;
mod settings;
mod sleepers;
mod waits;

// The one line of the runtime's.
runtime::interpose!(threads);

fn main() {
    let program = std::env::args().nth(1).expect("the name of a program");
    match program.as_str() {
        "children" => children::run(),
        "deep" => deep::recurses(),
        "overflow" => deep::overflows(),
        "exits" => ends::exits_in_a_thread(),
        "returns" => ends::returns_while_threads_run(),
        "panic-of-main" => ends::main_panics(),
        "locals" => locals::run(),
        "echo" => net::run(),
        "panics" => panics::run(),
        "settings" => settings::run(),
        "named-at-once" => settings::named_at_once(),
        "sleepers" => sleepers::sleep(),
        "nested" => sleepers::nest(),
        "waits" => waits::run(),
        "yields" => sleepers::yields(),
        "many" => sleepers::many(),
        "page-tables" => sleepers::page_tables(),
        _ => panic!("no program {program:?}"),
    }
}

/// Prints how many OS threads the process has, for the test.
fn report_os_threads() {
    let threads = std::fs::read_dir("/proc/self/task").expect("the threads of this process").count();
    eprintln!("OS threads: {threads}");
}
