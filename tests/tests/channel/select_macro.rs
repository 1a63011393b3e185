//! `select!` and `select_biased!`: the syntax of their arms, and which expressions are evaluated when.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use runtime::channel::{
    self, Receiver, RecvError, SendError, Sender, TryRecvError, after, bounded, never, tick, unbounded,
};
use runtime::{select, select_biased, sleep, spawn};
use tests::channels::{A_WHILE, BUFFERED, KINDS, Kind, LONG, start};
use tests::crowd::in_each;
use tests::{ON_PURPOSE, Random, quiet_panics_on_purpose};

const SHORT: Duration = Duration::from_millis(1);

fn ready<T>(message: T) -> Receiver<T> {
    let (s, r) = unbounded();
    s.send(message).unwrap();
    r
}

#[test]
fn the_macro_returns_the_value_of_the_chosen_arm() {
    in_each(|| {
        let (s, r) = unbounded::<u8>();
        let (full, _r) = bounded(0);
        let choose = || {
            select! {
                recv(r) -> message => message.map_or(-1, i32::from),
                send(full, 1u8) -> _ => unreachable!(),
                default(SHORT) => -2,
            }
        };
        assert_eq!(choose(), -2);
        s.send(7).unwrap();
        assert_eq!(choose(), 7);
        drop(s);
        assert_eq!(choose(), -1, "a disconnected receive is ready");
    });
}

#[test]
fn a_single_arm() {
    in_each(|| {
        let (s, r) = bounded(1);
        select! { send(s, 5) -> sent => assert_eq!(sent, Ok(())) }
        select! { recv(r) -> message => assert_eq!(message, Ok(5)) }
        select! { recv(r) -> _ => unreachable!(), default => {} }
        let begin = Instant::now();
        select! { recv(r) -> _ => unreachable!(), default(A_WHILE) => {} }
        assert!(begin.elapsed() >= A_WHILE);
        s.send(6).unwrap();
        select! { send(s, 7) -> _ => unreachable!(), default => {} }
        select! { send(s, 8) -> _ => unreachable!(), default(SHORT) => {} }
        select! { recv(r) -> message => assert_eq!(message, Ok(6)), default => unreachable!() }
        drop(s);
        select! { recv(r) -> message => assert_eq!(message, Err(RecvError)), default => unreachable!() }
        select! { recv(r) -> message => assert_eq!(message, Err(RecvError)), default(LONG) => unreachable!() }
        let (s, r) = bounded(1);
        drop(r);
        select! { send(s, 9) -> sent => assert_eq!(sent, Err(SendError(9))), default => unreachable!() }
    });
}

#[test]
fn a_single_default() {
    let begin = Instant::now();
    assert_eq!(select! { default => 1 }, 1);
    assert_eq!(select! { default() => 2 }, 2);
    assert_eq!(select! { default(A_WHILE) => 3 }, 3);
    assert!(begin.elapsed() >= A_WHILE);
}

#[test]
fn arms_of_every_shape() {
    let (s, r) = bounded::<i32>(1);
    let (s2, r2) = bounded::<i32>(1);
    // Blocks without and with commas, expressions, the default in front, trailing commas inside.
    select! {
        default => {}
        recv(r,) -> _ => {}
        recv(r2) -> _message => {},
        send(s, 1,) -> _ => {}
        send(s2, 2) -> _ => (),
    }
    select! {
        recv(r) -> _ => {}
        recv(r2) -> _ => {}
        send(s2, if true { 2 } else { 3 }) -> sent => { sent.unwrap() }
        default(Duration::from_secs(3600),) => unreachable!("something is ready"),
    }
    // Arms that end in a path, a method, an operator.
    let n = select! {
        recv(r) -> message => message.unwrap_or(1) + 1,
        recv(r2) -> message => message.unwrap_or(1) * 2,
        default => i32::MAX
    };
    assert!([2, 4, i32::MAX].contains(&n), "{n}");
    // Patterns that bind.
    select! {
        send(s, 5) -> mut sent => { sent = sent.and(Ok(())); assert!(sent.is_ok()) }
        recv(r) -> ref message => assert!(message.is_ok()),
    }
}

#[test]
fn handles_of_every_shape() {
    struct Pair(Receiver<u8>, Sender<u8>);
    let (s, r) = unbounded();
    let pair = Pair(r, s);
    let boxed = Box::new(never::<u8>());
    let list = [never::<u8>()];
    let maybe: Option<Receiver<u8>> = None;
    for _ in 0..20 {
        select! {
            recv(pair.0) -> message => assert_eq!(message, Ok(1)),
            send(pair.1, 1) -> sent => assert_eq!(sent, Ok(())),
            recv(*boxed) -> _ => unreachable!(),
            recv(&list[0]) -> _ => unreachable!(),
            recv(list.first().unwrap()) -> _ => unreachable!(),
            recv(maybe.as_ref().unwrap_or(&never())) -> _ => unreachable!(),
            recv(if list.len() == 1 { never() } else { after(SHORT) }) -> due => { let _: Result<Instant, _> = due; }
            recv(channel::tick(LONG)) -> _ => unreachable!(),
            recv({ let s = &pair.1; assert!(s.capacity().is_none()); after(LONG) }) -> _ => unreachable!(),
        }
    }
}

#[test]
fn types_are_inferred_from_the_arms() {
    let (s, r) = bounded(1);
    let ((_s2, r2), (s3, _r3)) = (unbounded(), bounded(0));
    select! {
        recv(r2) -> message => { let _: Result<String, RecvError> = message; }
        send(s3, vec![1u8]) -> sent => { let _: Result<(), SendError<Vec<u8>>> = sent; }
        send(s, 1.5f32) -> sent => sent.unwrap(),
    }
    assert_eq!(r.recv(), Ok(1.5));
}

#[test]
fn all_arms_may_bind_the_same_name() {
    // The senders live, so that each is ready once.
    let ((of_number, r), (of_text, text)) = (bounded(1), bounded(1));
    of_number.send(1).unwrap();
    of_text.send("one").unwrap();
    for _ in 0..2 {
        select! {
            recv(r) -> x => assert_eq!(x, Ok(1)),
            recv(text) -> x => assert_eq!(x, Ok("one")),
        }
    }
    // The macro's own names do not clash with the user's.
    let (receiver, sender, operation, index, cases, case) = (ready(2), 3, 4, 5, 6, 7);
    let (s, _r) = bounded(1);
    select! {
        recv(receiver) -> x => assert_eq!((x, sender, operation, index, cases, case), (Ok(2), 3, 4, 5, 6, 7)),
        send(s, (sender, operation, index, cases, case)) -> _ => assert_eq!(index, 5),
    }
}

#[test]
fn arms_may_move_the_same_value() {
    let kept = String::from("kept");
    let message = String::from("message");
    let (s, r) = bounded(1);
    let back = select! {
        send(s, message) -> sent => { sent.unwrap(); kept }
        recv(r) -> _ => kept,
        default => kept,
    };
    assert_eq!((back, r.recv().unwrap()), ("kept".into(), "message".into()));
    // A closure that can be called once only.
    let once = move || back_of(r);
    select! {
        recv(never::<u8>()) -> _ => drop(once),
        default => assert!(once().is_err()),
    }
    fn back_of(r: Receiver<String>) -> Result<String, TryRecvError> {
        r.try_recv()
    }
}

#[test]
fn arms_may_break_continue_and_return() {
    fn first(r: &Receiver<Result<u8, String>>) -> Result<u8, String> {
        loop {
            select! {
                recv(r) -> message => match message {
                    Ok(n) => {
                        let n = n?;
                        if n > 5 {
                            break Ok(n);
                        }
                        continue;
                    }
                    Err(RecvError) => return Err("the end".into()),
                },
                recv(after(LONG)) -> _ => unreachable!(),
            }
        }
    }
    let (s, r) = unbounded();
    (3..8).for_each(|n| s.send(Ok(n)).unwrap());
    s.send(Err("an error".into())).unwrap();
    drop(s);
    assert_eq!(first(&r), Ok(6));
    assert_eq!(first(&r), Ok(7));
    assert_eq!(first(&r), Err("an error".into()));
    assert_eq!(first(&r), Err("the end".into()));
}

#[test]
fn selects_nest() {
    in_each(|| {
        let (outer, inner) = (ready(ready(3)), ready(4));
        let sum = select! {
            recv(outer) -> r => select! {
                recv(r.unwrap()) -> n => select! {
                    recv(never::<i32>()) -> _ => 0,
                    recv(select! { recv(inner) -> n => ready(n.unwrap()) }) -> m => n.unwrap() + m.unwrap(),
                },
                default => 0,
            }
        };
        assert_eq!(sum, 7);
    });
}

#[test]
fn each_handle_is_evaluated_once_and_in_order() {
    let order = RefCell::new(Vec::new());
    let handle = |n| {
        order.borrow_mut().push(n);
        never::<u8>()
    };
    let (s, _r) = bounded::<u8>(0);
    let sender = |n| {
        order.borrow_mut().push(n);
        s.clone()
    };
    select! {
        recv(handle(1)) -> _ => unreachable!(),
        send(sender(2), { order.borrow_mut().push(99); 0 }) -> _ => unreachable!(),
        recv(handle(3)) -> _ => unreachable!(),
        default(SHORT) => order.borrow_mut().push(4),
    }
    assert_eq!(*order.borrow(), [1, 2, 3, 4], "the message of an unchosen send is not evaluated");
}

#[test]
fn a_message_is_evaluated_after_its_send_is_chosen() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            let (full, _r) = bounded(0);
            let receiver = start(1, move || r.recv());
            let computed = Cell::new(0);
            let compute = || {
                computed.set(computed.get() + 1);
                computed.get()
            };
            sleep(SHORT);
            select! {
                send(full, compute()) -> _ => unreachable!(),
                send(s, compute() + 10) -> sent => sent.unwrap(),
            }
            assert_eq!((receiver.join(), computed.get()), (Ok(11), 1));
        }
    });
}

/// The message expression parks, while the receiver waits for the message.
#[test]
fn a_message_expression_may_park() {
    in_each(|| {
        for kind in KINDS {
            for early in [true, false] {
                let (s, r) = kind.make();
                let receiver = start(1, move || {
                    if !early {
                        std::thread::sleep(A_WHILE);
                    }
                    (r.recv(), r.recv())
                });
                if early {
                    sleep(SHORT);
                }
                select! {
                    recv(never::<u8>()) -> _ => unreachable!(),
                    send(s, { sleep(A_WHILE); 1 }) -> sent => sent.unwrap(),
                }
                s.send(2).unwrap();
                assert_eq!(receiver.join(), (Ok(1), Ok(2)), "{kind:?}");
            }
        }
    });
}

fn panic_on_purpose() -> u8 {
    panic!("{ON_PURPOSE}")
}

#[test]
fn a_panic_in_a_message_expression_undoes_the_choice() {
    quiet_panics_on_purpose();
    in_each(|| {
        for kind in KINDS {
            for waits in [true, false] {
                let (s, r) = kind.make::<u8>();
                let receiver = start(0, move || {
                    if !waits {
                        sleep(A_WHILE);
                    }
                    (r.recv(), r.recv())
                });
                if waits {
                    sleep(SHORT);
                }
                let end = catch_unwind(AssertUnwindSafe(|| {
                    select! {
                        recv(never::<u8>()) -> _ => unreachable!(),
                        send(s, panic_on_purpose()) -> _ => unreachable!(),
                    }
                }));
                assert!(end.is_err());
                assert!(s.is_empty());
                s.send(1).unwrap();
                s.send(2).unwrap();
                assert_eq!(receiver.join(), (Ok(1), Ok(2)), "{kind:?}");
            }
        }
    });
}

#[test]
fn handles_and_arms_that_panic() {
    quiet_panics_on_purpose();
    let (s, r) = bounded(1);
    let panics = |f: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    panics(&|| {
        select! {
            send(s, 1) -> _ => unreachable!(),
            recv(if true { panic!("{ON_PURPOSE}") } else { never::<u8>() }) -> _ => unreachable!(),
        }
    });
    assert!(r.is_empty(), "handles are evaluated before the choice");
    panics(&|| {
        select! {
            recv(r) -> _ => unreachable!(),
            default => panic!("{ON_PURPOSE}"),
        }
    });
    panics(&|| {
        select! {
            send(s, 2) -> _ => panic!("{ON_PURPOSE}"),
            recv(never::<u8>()) -> _ => unreachable!(),
        }
    });
    assert_eq!(r.try_recv(), Ok(2), "the message was sent before the arm ran");
}

#[test]
fn a_biased_select_chooses_the_first_ready_arm() {
    let (r, s) = (ready(1), unbounded());
    for _ in 0..50 {
        select_biased! {
            send(s.0, 5) -> _ => {}
            recv(r) -> _ => unreachable!(),
            recv(s.1) -> _ => unreachable!(),
            default => unreachable!(),
        }
    }
    assert_eq!(s.1.len(), 50);
    let n = select_biased! {
        recv(never::<u8>()) -> _ => 0,
        recv(s.1) -> n => n.unwrap(),
        recv(r) -> _ => unreachable!(),
    };
    assert_eq!(n, 5);
    select_biased! { recv(r) -> n => assert_eq!(n, Ok(1)) }
    select_biased! { recv(r) -> n => assert_eq!(n, Err(RecvError)), default(LONG) => unreachable!() }
    select_biased! { recv(never::<u8>()) -> _ => unreachable!(), default(SHORT) => {} }
}

#[test]
fn a_deadline_over_many_selects() {
    in_each(|| {
        let (s, r) = bounded(0);
        let sender = spawn(move || {
            let mut n = 0;
            while s.send(n).is_ok() {
                n += 1;
                sleep(SHORT / 4);
            }
            n
        });
        let begin = Instant::now();
        let deadline = after(4 * SHORT);
        let mut received = 0;
        loop {
            select! {
                recv(r) -> n => { assert_eq!(n, Ok(received)); received += 1; }
                recv(deadline) -> due => { assert!(due.unwrap() >= begin + 4 * SHORT); break; }
            }
        }
        assert!(begin.elapsed() >= 4 * SHORT);
        drop(r);
        assert_eq!(sender.join().unwrap(), received);
    });
}

#[test]
fn a_tick_beside_the_work() {
    in_each(|| {
        let (ticks, (s, r)) = (tick(SHORT), bounded(0));
        let worker = start(1, move || (0..200).for_each(|n| s.send(n).unwrap()));
        let (mut work, mut ticked) = (0, 0);
        while work < 200 || ticked < 3 {
            select! {
                recv(if work < 200 { &r } else { &NEVER }) -> n => { assert_eq!(n, Ok(work)); work += 1; }
                recv(ticks) -> due => { assert!(due.unwrap() <= Instant::now()); ticked += 1; }
            }
        }
        worker.join();
    });
    static NEVER: std::sync::LazyLock<Receiver<i32>> = std::sync::LazyLock::new(never);
}

/// Every operation in a single `select!`, with partners that do the opposite operations.
#[test]
fn all_operations_in_a_select() {
    in_each(|| {
        let channels: Vec<_> =
            [Kind::Bounded(0), Kind::Bounded(1), Kind::Unbounded].map(Kind::make::<u64>).into();
        let (stop, stopped) = bounded::<()>(0);
        let partners: Vec<_> = (0..6)
            .map(|i| {
                let (s, r) = channels[i % 3].clone();
                let stopped = stopped.clone();
                start(i, move || {
                    let (mut random, mut sum) = (Random::new(i as u64), 0);
                    loop {
                        let n = random.below(100);
                        select! {
                            send(s, n) -> sent => { sent.unwrap(); sum += n as i64; }
                            recv(r) -> n => sum -= n.unwrap() as i64,
                            recv(stopped) -> _ => break sum,
                        }
                        if n == 0 {
                            sleep(SHORT / 20);
                        }
                    }
                })
            })
            .collect();
        let ([(s0, r0), (s1, r1), (s2, r2)], mut sum) = (<[_; 3]>::try_from(channels.clone()).unwrap(), 0);
        for n in 0..2000 {
            select! {
                send(s0, n) -> sent => { sent.unwrap(); sum += n as i64; }
                recv(r0) -> n => sum -= n.unwrap() as i64,
                send(s1, n) -> sent => { sent.unwrap(); sum += n as i64; }
                recv(r1) -> n => sum -= n.unwrap() as i64,
                send(s2, n) -> sent => { sent.unwrap(); sum += n as i64; }
                recv(r2) -> n => sum -= n.unwrap() as i64,
                default(SHORT) => {}
            }
        }
        drop(stop);
        sum += partners.into_iter().map(|partner| partner.join()).sum::<i64>();
        let left: u64 = channels.iter().flat_map(|(_, r)| r.try_iter()).sum();
        assert_eq!(sum, left as i64, "each message was received once or is in its channel");
    });
}

#[test]
fn messages_of_selects_keep_their_order() {
    in_each(|| {
        for kind in BUFFERED {
            let (s, r) = kind.make();
            let receiver = start(0, move || {
                for expected in 0..500 {
                    select! {
                        recv(r) -> n => assert_eq!(n, Ok(expected)),
                        recv(after(LONG)) -> _ => unreachable!(),
                    }
                }
            });
            for n in 0..500 {
                select! {
                    send(s, n) -> sent => sent.unwrap(),
                    recv(after(LONG)) -> _ => unreachable!(),
                }
            }
            receiver.join();
        }
    });
}
