//! The chapters of the guide as doc tests: `cargo test -p guide --doc`. The text is in `src`; `ci/guide.sh`
//! checks that each file is here. Texts that chapters include from `runtime/src/docs` are tested there.
#![cfg(doctest)]

macro_rules! chapters {
    ($($(#[$cfg:meta])* $name:ident $file:literal)*) => {
        $($(#[$cfg])* #[doc = include_str!($file)] mod $name {})*
    };
}

chapters! {
    first "src/first.md"
    green_threads "src/green_threads.md"
    blocking "src/blocking.md"
    channels "src/channels.md"
    cancellation "src/cancellation.md"
    timers "src/timers.md"
    servers "src/servers.md"
    as_it_is "src/as_it_is.md"
    async_crates "src/async_crates.md"
    blocking_crates "src/blocking_crates.md"
    thread_locals "src/thread_locals.md"
    #[cfg(feature = "sim")]
    simulation "src/simulation.md"
    looking_inside "src/looking_inside.md"
    tuning "src/tuning.md"
    how_it_works "src/how_it_works.md"
    limits "src/limits.md"
    from_tokio "src/migrate/tokio.md"
    from_std_threads "src/migrate/std_threads.md"
    from_go "src/migrate/go.md"
    from_may "src/migrate/may.md"
    from_crossbeam "src/migrate/crossbeam.md"
}
