//! The memory of this process, with what the kernel keeps for it.

use std::fs::read_to_string;

/// Returns the bytes of memory that the process uses, with kernel stacks, page tables and other memory of the
/// kernel. The kernel counts its own for all processes together, so the machine must be quiet.
pub fn used() -> f64 {
    let own = kilobytes("/proc/self/status", &["VmRSS:"]);
    let kernel = kilobytes("/proc/meminfo", &["KernelStack:", "PageTables:", "SUnreclaim:"]);
    (own + kernel) * 1024.0
}

fn kilobytes(file: &str, names: &[&str]) -> f64 {
    let text = read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum()
}
