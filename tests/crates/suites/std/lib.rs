//! The tests of std.
