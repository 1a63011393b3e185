//! `execve`, `posix_spawn`, `system`, `popen` and their kin, and `fork`: a program that a green thread starts
//! begins with the mask of signals of that thread, and not with that of the OS thread.
//!
//! A child of `fork` gets the mask at once. A child of `vfork` gets it in `execve` and the other functions
//! here. `execl`, `execlp` and `execle` have as many arguments as the caller likes, so they are libc's, and
//! so is `vfork`.

use std::ffi::{c_char, c_int};
use std::ptr;

use libc::{FILE, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use netpoll::raw::fail;
use sched::simulation;

use super::{create, masks, real, record};
use crate::process;

type Path = *const c_char;
type Strings = *const *mut c_char;
type Spawn = unsafe extern "C" fn(
    *mut pid_t,
    Path,
    *const posix_spawn_file_actions_t,
    *const posix_spawnattr_t,
    Strings,
    Strings,
) -> c_int;

real! {
    posix_spawn: Spawn;
    posix_spawnp: Spawn;
    system: unsafe extern "C" fn(Path) -> c_int;
    popen: unsafe extern "C" fn(Path, Path) -> *mut FILE;
    execve: unsafe extern "C" fn(Path, Strings, Strings) -> c_int;
    execv: unsafe extern "C" fn(Path, Strings) -> c_int;
    execvp: unsafe extern "C" fn(Path, Strings) -> c_int;
    execvpe: unsafe extern "C" fn(Path, Strings, Strings) -> c_int;
    execveat: unsafe extern "C" fn(c_int, Path, Strings, Strings, c_int) -> c_int;
    fexecve: unsafe extern "C" fn(c_int, Strings, Strings) -> c_int;
}

/// Makes a call by which a program starts. Where a simulation refuses that, returns `refused`.
fn starts<T>(refused: impl FnOnce() -> T, call: impl FnOnce() -> T) -> T {
    if simulation::refuses(|| "a child process".into()) {
        return refused();
    }
    match record::own() {
        Some(own) => masks::as_inherited(own, call),
        None => call(),
    }
}

/// Sets `errno` to `EPERM`, and returns -1.
fn no_permission() -> c_int {
    fail(-(libc::EPERM as isize)) as c_int
}

/// Sets `errno` to `EPERM`, and returns null.
fn no_stream() -> *mut FILE {
    no_permission();
    ptr::null_mut()
}

/// libc's `posix_spawn`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn spawn(
    pid: *mut pid_t,
    path: Path,
    actions: *const posix_spawn_file_actions_t,
    attr: *const posix_spawnattr_t,
    args: Strings,
    variables: Strings,
) -> c_int {
    // SAFETY: the caller's arguments.
    starts(|| libc::EPERM, || unsafe { posix_spawn()(pid, path, actions, attr, args, variables) })
}

/// libc's `posix_spawnp`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn spawn_in_path(
    pid: *mut pid_t,
    file: Path,
    actions: *const posix_spawn_file_actions_t,
    attr: *const posix_spawnattr_t,
    args: Strings,
    variables: Strings,
) -> c_int {
    // SAFETY: the caller's arguments.
    starts(|| libc::EPERM, || unsafe { posix_spawnp()(pid, file, actions, attr, args, variables) })
}

/// libc's `system`. Holds the OS thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn run_command(command: Path) -> c_int {
    // SAFETY: the caller's argument.
    let run = || starts(no_permission, || unsafe { system()(command) });
    if create::is_green() { process::blocking(run) } else { run() }
}

/// libc's `popen`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn open_command(command: Path, mode: Path) -> *mut FILE {
    // SAFETY: the caller's arguments.
    starts(no_stream, || unsafe { popen()(command, mode) })
}

/// libc's `execve`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn exec_with(path: Path, args: Strings, variables: Strings) -> c_int {
    // SAFETY: the caller's arguments.
    starts(no_permission, || unsafe { execve()(path, args, variables) })
}

/// libc's `execv`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn exec(path: Path, args: Strings) -> c_int {
    // SAFETY: the caller's arguments.
    starts(no_permission, || unsafe { execv()(path, args) })
}

/// libc's `execvp`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn exec_in_path(file: Path, args: Strings) -> c_int {
    // SAFETY: the caller's arguments.
    starts(no_permission, || unsafe { execvp()(file, args) })
}

/// libc's `execvpe`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn exec_in_path_with(file: Path, args: Strings, variables: Strings) -> c_int {
    // SAFETY: the caller's arguments.
    starts(no_permission, || unsafe { execvpe()(file, args, variables) })
}

/// libc's `execveat`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn exec_at(
    folder: c_int,
    path: Path,
    args: Strings,
    variables: Strings,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's arguments.
    starts(no_permission, || unsafe { execveat()(folder, path, args, variables, flags) })
}

/// libc's `fexecve`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn exec_file(file: c_int, args: Strings, variables: Strings) -> c_int {
    // SAFETY: the caller's arguments.
    starts(no_permission, || unsafe { fexecve()(file, args, variables) })
}
