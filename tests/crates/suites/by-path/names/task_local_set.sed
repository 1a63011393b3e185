# The channels are crossbeam-channel's: a receive returns a `Result`, not an `Option`.
s/\.recv_async()\.await/&.ok()/
# A runtime has a number of processors, and nothing to enable.
s/Builder::new_current_thread()/Builder::new().procs(1)/
/^ *\.enable_all()$/d
# A future that is not `Send` has a method of its own.
s/\b\(rt\|handle\)\.block_on(\(self\.inner\|set\|local_set\)/\1.block_on_local(\2/
# Only tests that are left out use it.
s/^ *async fn complete/#[cfg(any())] &/
s/^#\[tokio::main.*/#[cfg(any())]/
