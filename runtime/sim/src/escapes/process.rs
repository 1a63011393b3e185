//! `process`: functions of libc that start child processes, send signals, or change the environment. (A
//! program with `runtime::interpose!(sim)` has other ones for the children, and for `raise`.)

#![allow(unsafe_code)]

use super::forms::{no_permission, no_pointer, refused};

fn child() -> Option<String> {
    Some("a child process".into())
}

fn signal() -> Option<String> {
    Some("a signal of the system".into())
}

fn variable() -> Option<String> {
    Some("a change of the environment".into())
}

refused! {
    clearenv(_words) = variable() => no_permission();
    putenv(_words) = variable() => no_permission();
    setenv(_words) = variable() => no_permission();
    unsetenv(_words) = variable() => no_permission();
    kill(_words) = signal() => no_permission();
    killpg(_words) = signal() => no_permission();
    raise(_words) = signal() => no_permission();
    setitimer(_words) = signal() => no_permission();
    sigqueue(_words) = signal() => no_permission();
    timer_create(_words) = signal() => no_permission();
    execv(_words) = child() => no_permission();
    execve(_words) = child() => no_permission();
    execveat(_words) = child() => no_permission();
    execvp(_words) = child() => no_permission();
    execvpe(_words) = child() => no_permission();
    fexecve(_words) = child() => no_permission();
    fork(_words) = child() => no_permission();
    popen(_words) = child() => no_pointer();
    // These return an error number, and no alarm has 0 seconds left.
    alarm(_words) = signal() => 0;
    posix_spawn(_words) = child() => libc::EPERM as isize;
    posix_spawnp(_words) = child() => libc::EPERM as isize;
    system(_words) = child() => no_permission();
}
