//! `__libc_start_main`: `main` runs as a green thread of the default runtime.
//!
//! The code at the entry of an executable calls this function with the address of `main`. The executable's
//! own definition calls libc's, with a `main` of this file: that one starts the default runtime and a green
//! thread, and waits for it on the process's first OS thread. So constructors have run before, and what
//! `main` returns goes to `exit`, as ever.
//!
//! Rejected: *`block_on`*. It looks for deadlocks, and cancels what it waits for if all green threads sleep.
//! A program of OS threads may wait for a signal handler for ever.

use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::EXIT_FAILURE;

use super::masks::kernel;
use super::record::Reference;
use super::{create, masks, names, os_thread, real};
use crate::host::{Host, host, set};

/// `main` as the linker knows it.
pub type Main = unsafe extern "C-unwind" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

/// A function that libc calls before or after `main`.
pub type Init = Option<unsafe extern "C" fn()>;

real! {
    __libc_start_main: unsafe extern "C-unwind" fn(
        Main, c_int, *mut *mut c_char, Init, Init, Init, *mut c_void,
    ) -> c_int;
}

/// The program's `main`.
static MAIN: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// True if threads of user code are green threads in this process.
static GREEN: AtomicBool = AtomicBool::new(false);

/// The stacks of std's threads. So most threads have a stack of the runtime's default size, of which a used
/// one is at hand.
const STACK_OF_STD: usize = 2 << 20;
/// The stack of `main` where the limit of the process is no limit, as Linux has it by default.
const MAIN_STACK: usize = 8 << 20;
/// The largest stack of `main`: a green thread's is reserved at once.
const LARGEST_MAIN_STACK: usize = 1 << 30;

/// Returns `true` if threads of user code are green threads in this process.
#[inline]
pub(super) fn are_green() -> bool {
    // Relaxed: set before the first green thread, which the scheduler publishes.
    GREEN.load(Ordering::Relaxed)
}

/// The arguments of `__libc_start_main`.
#[derive(Debug)]
pub struct Entry {
    /// The program's `main`.
    pub main: Main,
    /// Those of `main`.
    pub arguments: (c_int, *mut *mut c_char),
    /// What runs before and after it: `init`, `fini`, `rtld_fini`.
    pub around: [Init; 3],
    /// Where the first stack ends.
    pub stack_end: *mut c_void,
}

/// Calls libc's `__libc_start_main`, with a `main` that may run the program's as a green thread of `host`.
///
/// # Safety
/// As libc's: the entry of the executable has passed these arguments.
pub unsafe fn of_libc(host: &'static Host, entry: Entry) -> c_int {
    set(host);
    let Entry { main, arguments: (argc, argv), around: [init, fini, rtld_fini], stack_end } = entry;
    // Relaxed: read on this thread.
    MAIN.store(main as *mut (), Ordering::Relaxed);
    // SAFETY: the caller's arguments, but for `main`.
    unsafe { __libc_start_main()(first_main, argc, argv, init, fini, rtld_fini, stack_end) }
}

/// The arguments of `main`.
#[derive(Clone, Copy)]
struct Arguments(c_int, *mut *mut c_char, *mut *mut c_char);

// SAFETY: the memory is the process's, and the thread that starts `main` does not use it.
unsafe impl Send for Arguments {}

impl Arguments {
    /// Calls the program's `main`.
    ///
    /// # Safety
    /// libc has called `first_main` with these arguments, and `main` is called once.
    unsafe fn call(self) -> c_int {
        // SAFETY: `of_libc` has stored a function of this type.
        unsafe {
            let main = std::mem::transmute::<*mut (), Main>(MAIN.load(Ordering::Relaxed));
            main(self.0, self.1, self.2)
        }
    }
}

/// *Runs on: the process's first OS thread.*
unsafe extern "C-unwind" fn first_main(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) -> c_int {
    let arguments = Arguments(argc, argv, envp);
    let mask = kernel::set_kernel(kernel::ROUTED);
    let prepared = prepare();
    kernel::set_kernel(mask);
    match prepared {
        // SAFETY: these are libc's arguments, and only one arm runs.
        Ok(true) => unsafe { run_green(arguments, mask) },
        // SAFETY: as above.
        Ok(false) => unsafe { arguments.call() },
        Err(error) => {
            eprintln!("{error}");
            EXIT_FAILURE
        }
    }
}

/// Starts the default runtime. Returns `false` if the threads of this process are OS threads.
fn prepare() -> io::Result<bool> {
    match (host().start_for_threads)(STACK_OF_STD) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            eprintln!("{error}. The threads of this program are OS threads.");
            Ok(false)
        }
        Ok(true) => {
            sched::foreign::set_of_other(names::stack_of);
            masks::turn_on();
            // Relaxed: as in `are_green`.
            GREEN.store(true, Ordering::Relaxed);
            Ok(true)
        }
        other => other,
    }
}

/// Runs `main` as a green thread with this mask of signals, and returns what it returns.
///
/// # Safety
/// As for `Arguments::call`.
unsafe fn run_green(arguments: Arguments, mask: u64) -> c_int {
    let record = Reference::new(false, os_thread::name(), mask);
    let main = move || {
        // SAFETY: this contract.
        let code = unsafe { arguments.call() };
        create::end_if_forked(code);
        ptr::without_provenance_mut(code as usize)
    };
    masks::common::begin_to_serve();
    if let Err(error) = create::begin(&record, true, main_stack(), main) {
        eprintln!("no green thread for `main` could be started: {error}");
        return EXIT_FAILURE;
    }
    masks::common::serve(|| record.is_over() && (!record.has_exited() || masks::common::are_none_left()));
    if record.has_exited() { 0 } else { record.result().addr() as c_int }
}

/// Returns the size of the stack of `main`: the limit of the process's first stack.
fn main_stack() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills `limit`.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } == 0;
    if !known || limit.rlim_cur == libc::RLIM_INFINITY {
        return MAIN_STACK;
    }
    usize::try_from(limit.rlim_cur).unwrap_or(LARGEST_MAIN_STACK).min(LARGEST_MAIN_STACK)
}
