//! `signal::notify` on Windows: events of the console as messages.
#![cfg(windows)]

use std::io::ErrorKind;
use std::time::Duration;

use runtime::channel::TryRecvError;
use runtime::signal::{self, SIGBREAK, SIGINT, SIGTERM};
use runtime::{sleep, spawn};
use tests::child::{run, text};
use tests::{Watchdog, everywhere, wait_until, with};

const CTRL_C: u32 = 0;
const CTRL_BREAK: u32 = 1;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn AllocConsole() -> i32;
    fn FreeConsole() -> i32;
    fn GenerateConsoleCtrlEvent(event: u32, group: u32) -> i32;
}

/// Gives this process a console of its own, so that events of it reach no other process.
fn own_console() {
    // SAFETY: the calls take no pointer.
    unsafe {
        FreeConsole();
        assert_ne!(AllocConsole(), 0, "{}", std::io::Error::last_os_error());
    }
}

fn raise(event: u32) -> bool {
    // SAFETY: the call takes no pointer.
    unsafe { GenerateConsoleCtrlEvent(event, 0) != 0 }
}

fn raise_ctrl_c() {
    // Under wine a new console comes a moment later.
    wait_until("the console takes an event", || raise(CTRL_C));
}

/// Runs `body` in a child, to its end: under wine an event that ends a process looks like a success.
#[track_caller]
fn ends(test: &str, body: impl FnOnce()) {
    let to_its_end = || {
        let _dog = Watchdog::new();
        own_console();
        body();
        println!("to its end");
    };
    run(test, "", to_its_end, |output| {
        let said = text(output);
        assert!(output.status.success() && said.contains("to its end"), "{}\n{said}", output.status);
    });
}

#[test]
fn each_receiver_gets_each_event_that_it_asked_for() {
    ends("each_receiver_gets_each_event_that_it_asked_for", || {
        let _kept = signal::notify(&[SIGINT, SIGBREAK]).unwrap();
        everywhere(|| {
            let one = signal::notify(&[SIGINT]).unwrap();
            let both = signal::notify(&[SIGINT, SIGBREAK]).unwrap();
            for _ in 0..5 {
                raise_ctrl_c();
                assert_eq!((one.recv(), both.recv()), (Ok(SIGINT), Ok(SIGINT)));
                // wine refuses it.
                if raise(CTRL_BREAK) {
                    assert_eq!(both.recv(), Ok(SIGBREAK));
                }
                assert_eq!(one.try_recv(), Err(TryRecvError::Empty));
            }
            // After a receiver is dropped, the others still get the event.
            drop(one);
            raise_ctrl_c();
            assert_eq!(both.recv(), Ok(SIGINT));
        });
    });
}

#[test]
fn a_green_thread_waits_for_ctrl_c() {
    ends("a_green_thread_waits_for_ctrl_c", || {
        let _kept = signal::notify(&[SIGINT]).unwrap();
        with(1, |runtime| {
            runtime.block_on(|| {
                let waits = spawn(|| signal::ctrl_c().map_err(|error| error.to_string()));
                sleep(Duration::from_millis(100));
                raise_ctrl_c();
                assert_eq!(waits.join().unwrap(), Ok(()));
            });
        });
    });
}

#[test]
fn without_receivers_an_event_ends_the_process() {
    let body = || {
        own_console();
        drop(signal::notify(&[SIGINT]).unwrap());
        raise_ctrl_c();
        std::thread::sleep(Duration::from_secs(20));
        println!("still here");
    };
    run("without_receivers_an_event_ends_the_process", "", body, |output| {
        // The code of that end is 0xC000013A on Windows, and 0 under wine.
        let said = text(output);
        assert!([Some(0xC000_013A_u32.cast_signed()), Some(0)].contains(&output.status.code()), "{said}");
        assert!(!said.contains("still here"), "{said}");
    });
}

#[test]
fn other_numbers_are_refused() {
    for numbers in [&[][..], &[9], &[SIGTERM, 1]] {
        assert_eq!(signal::notify(numbers).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
