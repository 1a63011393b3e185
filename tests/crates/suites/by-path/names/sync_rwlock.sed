# The lock is parking_lot's type, with a trait for what awaits. A failed try is `None` there, not an error.
s/^use tokio::sync::{RwLock, /use tokio::sync::{RwLock, RwLockAsync, /
s/^use tokio::sync::RwLock\b/use tokio::sync::RwLockAsync;\n&/
s/\.\(read\|write\)()/.\1_async()/
s/\(try_\(read\|write\)()\).is_err()/\1.is_none()/
s/\(try_\(read\|write\)()\).is_ok()/\1.is_some()/
