//! What the fuzz targets check. `examples/tests/parsers.rs` checks the same with a stable toolchain.

#![allow(dead_code, clippy::duplicate_mod)]

pub mod properties;

// The parsers under test, from the examples themselves.
#[path = "../../support/http.rs"]
mod http;
#[path = "../../support/resp.rs"]
mod resp;
#[path = "../../support/mod.rs"]
mod support;
#[path = "../../websocket.rs"]
mod websocket;
