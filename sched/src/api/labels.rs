//! Labels around code: what dumps and profiles say of the calling thread, and of the threads that it spawns.
//!
//! A thread with labels has rare fields. So its spawns look for something to inherit, and other spawns pay
//! nothing.

use std::sync::Arc;

use crate::g::labels::Labels;
use crate::g::own::OwnG;
use crate::m::current::{current_g, on_m};
use crate::m::os_thread;
use crate::notes::events::are_recorded;
use crate::run::boundary::enter;

/// Calls `f` with `labels` added to those of the calling thread. *Runs on: any thread. Code that the runtime
/// calls on an M's own stack has no labels.*
pub fn with<T>(labels: &[(&str, &str)], f: impl FnOnce() -> T) -> T {
    let Some(g) = labelled_g() else { return f() };
    g.rare_or_new();
    let nested = Labels::nested(g.origin.labels().as_deref(), labels);
    say(g, Some(&nested));
    let before = g.origin.set_labels(Some(Arc::new(nested)));
    let _restore = Restore { g, before };
    f()
}

/// Returns the labels of the calling thread, if it has any. *Runs on: any thread.*
pub fn current() -> Option<Arc<Labels>> {
    let g = if on_m(|_| ()).is_some() { current_g() } else { os_thread::proxy_g_if_any() };
    g?.origin.labels()
}

/// Returns the green thread that the caller is, or the proxy G of the plain thread that it is.
fn labelled_g() -> Option<OwnG> {
    match current_g() {
        None if on_m(|_| ()).is_none() && !os_thread::is_over() => Some(os_thread::proxy_g()),
        g => g,
    }
}

/// Gives a thread its labels of before, also if it unwinds.
struct Restore {
    g: OwnG,
    before: Option<Arc<Labels>>,
}

impl Drop for Restore {
    fn drop(&mut self) {
        say(self.g, self.before.as_deref());
        self.g.origin.set_labels(self.before.take());
    }
}

/// Says that `g`, which the caller is, has these labels from now on. A plain thread has no events.
fn say(g: OwnG, labels: Option<&Labels>) {
    if are_recorded()
        && g.is_green()
        && let Some(entered) = enter()
    {
        entered.m().events().on_labels(g.shared(), labels);
    }
}
