//! Goroutines for Rust: green threads, blocking-style code, no function colours.
