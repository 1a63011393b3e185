# The lock is parking_lot's type, with a trait for what awaits. A failed try is `None` there, not an error.
s/^use tokio::sync::Mutex;/use tokio::sync::{LockAsync, Mutex};/
s/\.lock()/.lock_async()/
s/\<\(try_lock()\|g[123]\)\.is_err()/\1.is_none()/
s/\<\(try_lock()\|g[123]\)\.is_ok()/\1.is_some()/
