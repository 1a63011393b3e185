//! `signal::notify`: every receiver gets each signal that it asked for. Without receivers, the system's
//! default action returns.
#![cfg(unix)]

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use runtime::channel::{RecvTimeoutError, TryRecvError};
use runtime::context::{Context, ContextError};
use runtime::signal::{self, Received, SIGINT, SIGKILL, SIGSEGV, SIGTERM, SIGUSR1, SIGUSR2, notify_context};
use runtime::thread::Cancelled;
use runtime::time::timeout;
use runtime::{block_on, select, sleep, spawn};
use tests::child::{passes, run, text};
use tests::{Watchdog, everywhere, on, on_each, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn send(signal: i32) {
    // SAFETY: `kill` takes no pointer. The signal has a handler, or is meant to end this process.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
}

/// Keeps a receiver for these signals to the end of the process: the system may deliver a signal after its
/// last receiver is dropped.
fn keep(signals: &[i32]) {
    std::mem::forget(signal::notify(signals).unwrap());
}

#[test]
fn each_receiver_gets_each_signal_that_it_asked_for() {
    passes("each_receiver_gets_each_signal_that_it_asked_for", "", || {
        keep(&[SIGUSR1, SIGUSR2]);
        everywhere(|| {
            let one = signal::notify(&[SIGUSR1]).unwrap();
            let both = signal::notify(&[SIGUSR1, SIGUSR2]).unwrap();
            for _ in 0..20 {
                send(SIGUSR1);
                assert_eq!((one.recv(), both.recv()), (Ok(SIGUSR1), Ok(SIGUSR1)));
                send(SIGUSR2);
                assert_eq!(both.recv(), Ok(SIGUSR2));
                assert_eq!(one.try_recv(), Err(TryRecvError::Empty));
            }
            // After a receiver is dropped, the others still get the signal.
            drop(one);
            send(SIGUSR1);
            assert_eq!(both.recv(), Ok(SIGUSR1));
        });
    });
}

#[test]
fn unreceived_signals_are_merged() {
    passes("unreceived_signals_are_merged", "", || {
        keep(&[SIGUSR1, SIGUSR2]);
        on_each(|| {
            let signals = signal::notify(&[SIGUSR1, SIGUSR2]).unwrap();
            for _ in 0..1000 {
                send(SIGUSR1);
            }
            send(SIGUSR2);
            let mut came: Vec<i32> = Vec::new();
            while !came.contains(&SIGUSR2) {
                came.push(signals.recv().unwrap());
            }
            while let Ok(signal) = signals.recv_timeout(20 * MILLI) {
                came.push(signal);
            }
            // At most: the message in the channel, the message that waits for room, and the pending flag, and
            // a few received in between.
            assert!((2..=8).contains(&came.len()), "{came:?}");
            assert!(came.contains(&SIGUSR1));
        });
    });
}

#[test]
fn receivers_are_channels() {
    passes("receivers_are_channels", "", || {
        keep(&[SIGUSR1]);
        on_each(|| {
            let signals = signal::notify(&[SIGUSR1]).unwrap();
            assert_eq!(signals.recv_timeout(MILLI), Err(RecvTimeoutError::Timeout));
            assert!(timeout(MILLI, || signals.recv()).is_err());
            let sender = spawn(|| {
                sleep(MILLI);
                send(SIGUSR1);
            });
            select! {
                recv(signals.channel()) -> signal => assert_eq!(signal, Ok(SIGUSR1)),
                default(HOUR) => panic!("the signal does not come"),
            }
            sender.join().unwrap();
            let waits = spawn(move || signals.iter().count());
            sleep(MILLI);
            waits.cancel();
            assert!(waits.join().unwrap_err().is::<Cancelled>());
        });
    });
}

#[test]
fn ctrl_c_waits_for_an_interrupt() {
    passes("ctrl_c_waits_for_an_interrupt", "", || {
        keep(&[SIGINT]);
        everywhere(|| {
            let other = signal::notify(&[SIGINT]).unwrap();
            let done = Arc::new(AtomicBool::new(false));
            let says = done.clone();
            let waits = spawn(move || {
                signal::ctrl_c().unwrap();
                says.store(true, SeqCst);
            });
            // Until the other thread waits, only this receiver gets the signal.
            wait_until("ctrl_c has returned", || {
                send(SIGINT);
                assert_eq!(other.recv(), Ok(SIGINT));
                done.load(SeqCst)
            });
            waits.join().unwrap();
        });
    });
}

#[test]
fn an_interrupt_is_awaited_from_the_call_on() {
    passes("an_interrupt_is_awaited_from_the_call_on", "", || {
        keep(&[SIGINT]);
        everywhere(|| {
            // The signal comes before the first poll.
            let pressed = signal::ctrl_c_async();
            send(SIGINT);
            block_on(pressed).unwrap();
            let pressed = spawn(signal::ctrl_c_async());
            send(SIGINT);
            pressed.join().unwrap().unwrap();
        });
    });
}

#[test]
fn a_signal_without_receivers_has_its_default_effect() {
    let body = || {
        let _dog = Watchdog::new();
        on(2, || {
            let signals = signal::notify(&[SIGTERM]).unwrap();
            let again = signal::notify(&[SIGTERM, SIGTERM]).unwrap();
            drop(signals);
            send(SIGTERM);
            assert_eq!(again.recv(), Ok(SIGTERM));
            eprintln!("still here");
            drop(again);
            send(SIGTERM);
            sleep(HOUR);
        });
    };
    run("a_signal_without_receivers_has_its_default_effect", "", body, |output| {
        assert_eq!(output.status.signal(), Some(SIGTERM), "{}", tests::child::text(output));
        assert!(tests::child::stderr(output).contains("still here"));
    });
}

/// Real-time signals, and two of Linux's own.
#[cfg(target_os = "linux")]
fn unusual_signals() -> Vec<i32> {
    vec![libc::SIGRTMIN(), libc::SIGRTMIN() + 7, libc::SIGRTMAX(), libc::SIGPWR, libc::SIGSTKFLT]
}

#[test]
#[cfg(target_os = "linux")]
fn every_signal_of_the_system_can_be_received() {
    passes("every_signal_of_the_system_can_be_received", "", || {
        keep(&unusual_signals());
        everywhere(|| {
            for signal in unusual_signals() {
                let signals = signal::notify(&[signal]).unwrap();
                for _ in 0..3 {
                    send(signal);
                    assert_eq!(signals.recv(), Ok(signal));
                }
            }
        });
    });
}

#[test]
#[cfg(target_os = "linux")]
fn an_unusual_signal_without_receivers_has_its_default_effect() {
    for signal in unusual_signals() {
        let body = move || {
            let _dog = Watchdog::new();
            on(2, || {
                let signals = signal::notify(&[signal]).unwrap();
                send(signal);
                assert_eq!(signals.recv(), Ok(signal));
                eprintln!("still here");
                drop(signals);
                send(signal);
                sleep(HOUR);
            });
        };
        let case = signal.to_string();
        run("an_unusual_signal_without_receivers_has_its_default_effect", &case, body, |output| {
            assert_eq!(output.status.signal(), Some(signal), "{}", tests::child::text(output));
            assert!(tests::child::stderr(output).contains("still here"));
        });
    }
}

#[test]
fn invalid_signals_are_refused() {
    on(1, || {
        for refused in [&[][..], &[SIGKILL], &[SIGUSR1, SIGSEGV], &[12345], &[-1]] {
            assert_eq!(signal::notify(refused).unwrap_err().kind(), ErrorKind::InvalidInput, "{refused:?}");
        }
    });
}

#[test]
fn dropped_receivers_leave_nothing_behind() {
    passes("dropped_receivers_leave_nothing_behind", "", || {
        keep(&[SIGUSR1]);
        with(2, |runtime| {
            // The handler of a signal stays installed after its first receiver.
            runtime.block_on(|| drop(signal::notify(&[SIGUSR1, SIGUSR2]).unwrap()));
            let all_have_ended = || {
                let metrics = runtime.handle().metrics();
                metrics.spawned == metrics.ended
            };
            wait_until("the green threads have ended", all_have_ended);
            #[cfg(target_os = "linux")]
            let before = tests::system::descriptors();
            for _ in 0..50 {
                let signals = runtime.block_on(|| signal::notify(&[SIGUSR1, SIGUSR2]).unwrap());
                send(SIGUSR1);
                assert_eq!(signals.recv(), Ok(SIGUSR1));
            }
            wait_until("the green threads have ended", all_have_ended);
            #[cfg(target_os = "linux")]
            assert_eq!(tests::system::descriptors(), before);
        });
    });
}

#[test]
fn a_runtime_that_ends_disconnects_its_receivers() {
    passes("a_runtime_that_ends_disconnects_its_receivers", "", || {
        let other = signal::notify(&[SIGUSR1]).unwrap();
        let signals = tests::runtime(1).block_on(|| signal::notify(&[SIGUSR1]).unwrap());
        assert!(signals.recv().is_err());
        send(SIGUSR1);
        // The other receiver keeps the signal from its default effect, whenever the system delivers it.
        assert_eq!(other.recv(), Ok(SIGUSR1));
        assert!(signals.recv().is_err());
    });
}

#[test]
fn a_signal_cancels_its_contexts_and_tells_the_cause() {
    passes("a_signal_cancels_its_contexts_and_tells_the_cause", "", || {
        keep(&[SIGUSR1, SIGUSR2]);
        everywhere(|| {
            let (parent, cancel_parent) = Context::background().with_cancel();
            let (one, _stop_one) = notify_context(&parent, &[SIGUSR1]).unwrap();
            let (both, _stop_both) = notify_context(&parent, &[SIGUSR1, SIGUSR2]).unwrap();
            let (stopped, stop) = notify_context(&parent, &[SIGUSR2]).unwrap();
            let runs = spawn({
                let both = both.clone();
                move || both.run(|| sleep(HOUR)).is_err()
            });
            drop(stop);
            assert_eq!(stopped.err(), Some(ContextError::Canceled));
            send(SIGUSR2);
            assert!(runs.join().unwrap());
            let cause = both.cause().unwrap();
            assert_eq!(cause.downcast_ref().copied().map(Received::signal), Some(SIGUSR2));
            assert!(stopped.cause().unwrap().is::<ContextError>());
            assert_eq!((one.err(), parent.err()), (None, None));
            cancel_parent.cancel();
            assert!(one.cause().unwrap().is::<ContextError>());
        });
    });
}

#[test]
fn a_dropped_notify_context_restores_the_default_effect() {
    let body = || {
        on(1, || {
            let (context, stop) = notify_context(&Context::background(), &[SIGTERM]).unwrap();
            send(SIGTERM);
            context.done().recv().unwrap_err();
            // The signal does not end the process as long as `stop` is there.
            send(SIGTERM);
            sleep(MILLI);
            println!("it is over");
            drop(stop);
            send(SIGTERM);
            sleep(HOUR);
        });
    };
    run("a_dropped_notify_context_restores_the_default_effect", "", body, |output| {
        assert!(text(output).contains("it is over") && output.status.signal() == Some(SIGTERM), "{output:?}");
    });
}

#[test]
fn dropped_notify_contexts_leave_no_green_thread() {
    passes("dropped_notify_contexts_leave_no_green_thread", "", || {
        with(2, |runtime| {
            for _ in 0..20 {
                runtime.block_on(|| drop(notify_context(&Context::background(), &[SIGUSR1]).unwrap()));
            }
            wait_until("the green threads have ended", || {
                let metrics = runtime.handle().metrics();
                metrics.spawned == metrics.ended
            });
        });
    });
}
