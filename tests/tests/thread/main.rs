//! Green threads: spawning, ends, scopes, contexts, thread-locals, futures.

mod awaited;
mod cancel;
mod context;
mod context_go;
mod context_run;
mod context_slots;
mod context_slots_for_all;
mod futures;
mod futures_third_party;
mod join_error;
mod join_map;
mod join_set;
mod locals;
mod own_locals;
mod own_locals_libraries;
mod own_locals_robust;
mod panic_report;
mod panics;
mod park;
mod pin;
mod pin_and_polls;
mod polls;
mod scope;
mod spawn;
mod task_locals;
mod try_scope;
