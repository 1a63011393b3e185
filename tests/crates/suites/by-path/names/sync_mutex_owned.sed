# The lock is parking_lot's type, with a trait for what awaits. A failed try is `None` there, not an error.
s/^use tokio::sync::Mutex;/use tokio::sync::{LockArcAsync, Mutex};/
s/\.try_lock_owned()/.try_lock_arc()/
s/\.lock_owned()/.lock_arc_async()/
s/\<\(g[123]\)\.is_ok()/\1.is_some()/
s/\<\(g[123]\)\.is_err()/\1.is_none()/
