//! `LateUserCode`: wakers to call and timer functions to drop that turn up while a runtime closes. No G may
//! be made for them any more. So the closer calls the wakers and drops the functions, without running them.

use std::task::Waker;

use crate::sync::Mutex;
use crate::sys::catch_panic::call_waker;
use crate::timer::function::User;

/// The user code that came up late in one runtime.
#[derive(Default)]
pub(crate) struct LateUserCode(Mutex<Vec<Late>>);

enum Late {
    /// A waker to be called.
    Waker(Waker),
    /// A user of a timer's function, to be dropped: the function does not run any more.
    Function(User),
}

impl LateUserCode {
    /// Keeps a waker that is to be called. *Runs on: any thread, with no lock held.*
    #[cold]
    pub(crate) fn add_waker(&self, waker: Waker) {
        self.0.lock().push(Late::Waker(waker));
    }

    /// Keeps a user of a function that does not run any more, until user code may run. *Runs on: any thread,
    /// with no lock held.*
    #[cold]
    pub(crate) fn add_function(&self, user: User) {
        self.0.lock().push(Late::Function(user));
    }

    /// Calls the wakers and drops the functions. *Runs on: the thread that shuts the runtime down.*
    pub(crate) fn run(&self) {
        let late = std::mem::take(&mut *self.0.lock());
        for late in late {
            match late {
                Late::Waker(waker) => call_waker(waker),
                Late::Function(user) => drop(user),
            }
        }
    }
}
