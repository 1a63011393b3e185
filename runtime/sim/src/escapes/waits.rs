//! `waits`: functions of libc that wait in real time, or that make sockets of the system, in a program with
//! the line `runtime::sim!()`. (In a program with `runtime::interpose!(sim)` green threads park in them, and
//! sockets are simulated.)

#![allow(unsafe_code)]

use super::forms::{no_permission, no_pointer, refused};

fn socket_of_system() -> Option<String> {
    Some("a socket of the system, such as one of std::net".into())
}

fn look_up() -> Option<String> {
    Some("a look-up of a name by the system, such as that of std::net".into())
}

fn sleep_of_thread() -> Option<String> {
    Some("a sleep of the OS thread, such as that of std::thread::sleep".into())
}

/// A call with no time to wait only looks.
fn wait(milliseconds: usize) -> Option<String> {
    (milliseconds as i32 != 0).then(|| "a wait for descriptors of the system".into())
}

refused! {
    socket(_words) = socket_of_system() => no_permission();
    getaddrinfo(_words) = look_up() => libc::EAI_FAIL as isize;
    gethostbyname(_words) = look_up() => no_pointer();
    sleep(_words) = sleep_of_thread() => 0;
    thrd_sleep(_words) = sleep_of_thread() => 0;
    usleep(_words) = sleep_of_thread() => 0;
    nanosleep(_words) = sleep_of_thread() => 0;
    clock_nanosleep(_words) = sleep_of_thread() => 0;
    epoll_wait(words) = wait(words[3]) => no_permission();
    poll(words) = wait(words[2]) => no_permission();
}
