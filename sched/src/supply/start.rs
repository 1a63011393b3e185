//! Making the scheduler of a runtime: what the process needs first, the parts, the first Ps.

use std::io;
use std::sync::Arc;

use netpoll::Netpoll;

use crate::m::current::{leave_in_child, place};
use crate::m::{bounds, fault};
use crate::notes::await_stacks;
use crate::run::sched::{Config, Parts, Sched};
use crate::stack::pool::Coros;
use crate::sys::fork::{self, AtFork};
use crate::tls;
use crate::watch::debugger;

/// What a scheduler that has ended leaves for the next one: the descriptors of its netpoller, its stacks, and
/// memory.
pub struct Remains {
    parts: Parts,
    stack_bytes: usize,
    own_locals: bool,
}

impl std::fmt::Debug for Remains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remains").field("reuses", &self.parts.reuses).finish_non_exhaustive()
    }
}

impl Sched {
    /// Takes apart a scheduler of which all threads have ended. Returns `None` if another reference to it is
    /// left, or to its netpoller. *Runs on: a thread that is no M of it, after `end_threads`.*
    #[must_use]
    pub fn into_remains(self: Arc<Sched>) -> Option<Remains> {
        let (stack_bytes, own_locals) = (self.config.stack_bytes, self.config.own_locals);
        Some(Remains { parts: self.into_parts()?, stack_bytes, own_locals })
    }

    /// Makes a scheduler without threads; [`start`](Sched::start) starts it.
    ///
    /// # Errors
    /// Fails with `InvalidInput` if a setting is not allowed; the text says what is. Fails with the system's
    /// error if there is no descriptor for the netpoller, or no memory for a stack.
    pub fn new(config: Config) -> io::Result<Arc<Sched>> {
        Sched::new_of(config, None)
    }

    /// Makes a scheduler as [`new`](Sched::new) does. It takes over what another one has left, if its stacks
    /// are such as `config` asks for.
    ///
    /// # Errors
    /// As `new`.
    pub fn new_of(config: Config, remains: Option<Remains>) -> io::Result<Arc<Sched>> {
        debugger::note_clock();
        await_stacks::begin(config.await_stacks);
        check(&config)?;
        if config.own_locals {
            tls::check(place, config.late_libraries)?;
            bounds::link();
        }
        fork::check()?;
        fork::watch(AT_FORK)?;
        let procs = config.procs;
        let fits = |remains: &Remains| {
            (remains.stack_bytes, remains.own_locals) == (config.stack_bytes, config.own_locals)
        };
        let parts = match remains.filter(fits) {
            Some(remains) => remains.parts,
            None => {
                let coros = Coros::new(config.stack_bytes, config.own_locals)?;
                Parts::new(Netpoll::new()?, coros)
            }
        };
        let sched = Sched::of(config, parts);
        fault::watch();
        sched.resize_to(procs)?;
        sched.add_to_all();
        sched.join_recording();
        Ok(sched)
    }
}

/// A fork is made under the thread-locals of the OS thread: libc takes the caller's block for the thread that
/// lives on in the child, and gives away the stacks of all others.
const AT_FORK: AtFork = {
    extern "C" fn in_child() {
        tls::come_back();
        leave_in_child();
    }
    AtFork { before: tls::go_home, in_parent: tls::come_back, in_child }
};

fn check(config: &Config) -> io::Result<()> {
    let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if config.max_threads == 0 {
        return invalid("max_threads is 0: at least 1 thread is needed to run anything".into());
    }
    if config.thread_name.contains('\0') {
        return invalid("thread_name contains a zero byte, which no system takes in a thread's name".into());
    }
    Ok(())
}
