//! Thread-locals of green threads, for `thread_local!` of the runtime. A plain thread has its values in its
//! proxy G.

use std::any::Any;
use std::rc::Rc;

use crate::api::park;
pub use crate::g::locals::Copy;
use crate::g::locals::Slot;
use crate::m::current::current_g;
use crate::m::os_thread;

/// The error of `get`: the value is being destroyed or has been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Returns the calling thread's value of the key `key`. Makes it by `init` if there is none. With `copy`, the
/// green threads that the calling thread then spawns begin with a copy of the value.
///
/// # Errors
/// Returns `Gone` if the thread is ending and the value was destroyed.
pub fn get<T: 'static>(key: usize, init: impl FnOnce() -> T, copy: Option<Copy>) -> Result<Rc<T>, Gone> {
    if current_g().is_none() && os_thread::is_over() {
        return Err(Gone);
    }
    if let Some(slot) = find(key) {
        return slot.map(downcast);
    }
    // Not while the values are borrowed: `init` may use other keys, and even this key.
    let value: Rc<T> = Rc::new(init());
    let me = park::me();
    let locals = &me.rare_or_new().locals;
    if let Some(slot) = find(key) {
        // `init` has stored a value of this key. As in std, the value that was stored first stays.
        return slot.map(downcast);
    }
    locals.add(key, value.clone(), copy);
    Ok(value)
}

fn find(key: usize) -> Option<Result<Rc<dyn Any>, Gone>> {
    Some(match park::me().rare()?.locals.find(key)? {
        Slot::Alive(value, _) => Ok(value),
        Slot::Gone => Err(Gone),
    })
}

fn downcast<T: 'static>(value: Rc<dyn Any>) -> Rc<T> {
    value.downcast().unwrap_or_else(|_| unreachable!("a key has one type"))
}
