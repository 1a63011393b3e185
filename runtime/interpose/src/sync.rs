//! Atomics and statics of the files with protocols: the real ones, or loom's in a model (`models.rs`). Also
//! here: `broken!`, which breaks one step in a model. That model must then fail.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic;

#[cfg(loom)]
pub(crate) use crate::models::{atomic, lock::Mutex};

/// Declares a thread-local with a constant as its first value.
#[cfg(not(loom))]
macro_rules! thread_static {
    ($($thread_local:tt)*) => { std::thread_local! { $($thread_local)* } };
}
#[cfg(loom)]
macro_rules! thread_static {
    ($(#[$attribute:meta])* static $name:ident: $type:ty = const $value:block;) => {
        loom::thread_local! { $(#[$attribute])* static $name: $type = $value; }
    };
}
pub(crate) use thread_static;

/// Declares statics that are made anew for each run of a model.
#[cfg(not(loom))]
macro_rules! statics {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$attribute])* static $name: $type = $value;)*
    };
}
#[cfg(loom)]
macro_rules! statics {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = $value:expr;)*) => {
        $(loom::lazy_static! { $(#[$attribute])* static ref $name: $type = $value; })*
    };
}
pub(crate) use statics;

/// True in a model that runs with `BROKEN=name` in the environment. The step of that name is then wrong on
/// purpose, and its model must fail. In every other build the compiler removes the wrong branch.
macro_rules! broken {
    ($name:literal) => {{
        #[cfg(loom)]
        {
            static BROKEN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
            *BROKEN.get_or_init(|| std::env::var("BROKEN").is_ok_and(|name| name == $name))
        }
        #[cfg(not(loom))]
        false
    }};
}
pub(crate) use broken;
