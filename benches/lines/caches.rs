//! The model of caches (`hooks/`) with which `ci/lines.sh` links this program.
//!
//! Its functions are looked up by name: so the program also compiles without the model, and then only says
//! so.

use std::ffi::CStr;
use std::sync::Mutex;

/// As in `hooks/model.rs`: a line that came to an OS thread.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) place: usize,
    pub(crate) line: usize,
    pub(crate) write: bool,
    pub(crate) touched: u32,
    pub(crate) written: u32,
}

/// The functions of the model.
#[derive(Clone, Copy)]
pub(crate) struct Caches {
    /// Counts from now on. With `false` only the state of the caches changes, and no transfer is logged.
    pub(crate) begin: extern "C" fn(bool),
    end: extern "C" fn(extern "C" fn(&Transfer)) -> usize,
    /// Starts turns of this many participants.
    pub(crate) start_turns: extern "C" fn(usize),
    /// Blocks the OS thread until the participant of this number has the turn.
    pub(crate) take_turn: extern "C" fn(usize),
    /// Gives the turn to the next participant.
    pub(crate) pass_turn: extern "C" fn(),
}

static TRANSFERS: Mutex<Vec<Transfer>> = Mutex::new(Vec::new());

extern "C" fn visit(transfer: &Transfer) {
    TRANSFERS.lock().expect("no visit panics").push(*transfer);
}

impl Caches {
    /// Returns the model, or `None` if the program is not linked with it.
    pub(crate) fn find() -> Option<Caches> {
        // SAFETY: the types are those of `hooks/lib.rs`.
        unsafe {
            Some(Caches {
                begin: std::mem::transmute::<usize, extern "C" fn(bool)>(address(c"lines_begin")?),
                end: std::mem::transmute::<usize, extern "C" fn(extern "C" fn(&Transfer)) -> usize>(address(
                    c"lines_end",
                )?),
                start_turns: std::mem::transmute::<usize, extern "C" fn(usize)>(address(
                    c"lines_start_turns",
                )?),
                take_turn: std::mem::transmute::<usize, extern "C" fn(usize)>(address(c"lines_take_turn")?),
                pass_turn: std::mem::transmute::<usize, extern "C" fn()>(address(c"lines_pass_turn")?),
            })
        }
    }

    /// Stops counting, and keeps the transfers for `take`.
    pub(crate) fn end(&self) {
        let missing = (self.end)(visit);
        assert_eq!(missing, 0, "transfers that did not fit into the logs");
    }

    /// Returns the transfers of the last count.
    pub(crate) fn take(&self) -> Vec<Transfer> {
        std::mem::take(&mut TRANSFERS.lock().expect("no visit panics"))
    }
}

/// Returns the address of a function of a library with which the program is linked.
fn address(name: &CStr) -> Option<usize> {
    // SAFETY: `name` ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found as usize)
}
