//! The macros `select!` and `select_biased!`, which wait for the first of several channel operations and
//! futures.
//!
//! - `@read` sorts the cases into two lists: operations, and `default`.
//! - `@build` makes the call of the select, or of `recv` and its like for a single receive.
//! - `@bind` binds the handle or the future of each case by a `match` of its own, so that temporaries live as
//!   long as the whole. Its last step chooses a case. Futures are pinned, chosen from and dropped in an inner
//!   block, which leaves their outputs.
//! - `@future` names the future of each case that is no channel operation.
//! - `@complete` is a chain of `if`s that completes the chosen operation.

/// Waits for the first of several things, and evaluates the expression beside it.
///
/// ```text
/// select! {
///     recv(receiver) -> result => expression,            // the cases of crossbeam-channel
///     send(sender, message) -> result => expression,
///     join(handle) -> result => expression,              // and whatever else waits
///     future(f) -> output => expression,
///     default => expression,                             // or default(timeout) => expression
/// }
/// ```
///
/// | case | waits until | the result |
/// | --- | --- | --- |
/// | `recv(receiver)` | there is a message | `Result<T, RecvError>` |
/// | `send(sender, message)` | there is room or a receiver | `Result<(), SendError<T>>` |
/// | `join(handle)` | the green thread has ended | [`thread::Result<T>`](crate::thread::Result) |
/// | `accept(listener)` | a client connects | `io::Result<(TcpStream, SocketAddr)>`, or the like of a Unix listener |
/// | `readable(socket)`, `writable(socket)` | a stream, a datagram socket or an [`Async`](crate::net::Async) is ready | `io::Result<()>` |
/// | `done(context)` | the [`Context`](crate::context::Context) is over | [`ContextError`](crate::context::ContextError) |
/// | `notified(notify)` | the [`Notify`](crate::sync::Notify) notifies | `()` |
/// | `acquired(semaphore)` | the [`Semaphore`](crate::sync::Semaphore) gives a permit | `Result<SemaphorePermit, AcquireError>` |
/// | `timer(t)` | a [`Timer`](crate::time::Timer) or [`Ticker`](crate::time::Ticker) is due, a `Duration` is over, an `Instant` is reached | `Instant`: when it was due |
/// | `signal(signals)` | a signal of [`signal::notify`](crate::signal::notify) comes | `Result<i32, RecvError>` |
/// | `future(f)` | the future is ready | its output |
///
/// There may be any number of cases, the same object may be in several, and there is one `default` at most.
/// `default` is chosen if no case is ready at once, or within the time-out. If several cases are ready, a
/// random one is chosen; [`select_biased!`](crate::select_biased) chooses the first. An operation on a
/// disconnected channel is ready, and its result is an error.
///
/// There is no `if` beside a case, as tokio's `select!` has. To leave a case out, give it something that
/// never comes: for a receiver [`never()`](crate::channel::never()), as in
/// `recv(open.then_some(&receiver).unwrap_or(&never()))`, and for a future [`std::future::pending`].
///
/// A result may be any irrefutable pattern. The comma after a `{ .. }` may be left out. The value of the
/// macro is that of the chosen expression, which may also leave the macro by `break`, `continue`, `return`
/// and `?`.
///
/// Receivers, senders and futures are evaluated first, in order. A message is evaluated only when its case
/// has been chosen. On a channel of capacity 0 the receiver then waits for the message, and no cancellation
/// ends that wait. (If evaluating the message unwinds, the receiver goes on waiting for another.)
///
/// It works on green threads, on plain OS threads and in the poll of a future. It parks its caller. A future
/// that must not park its task uses a `select!` of futures instead, with the methods of this crate that end
/// in `_async`.
///
/// # The cases that are not chosen
///
/// They are withdrawn before the chosen expression is evaluated. Nothing is lost:
///
/// | case | when it is not chosen |
/// | --- | --- |
/// | `recv`, `send`, `done`, `timer`, `signal` | the message stays in the channel, or goes to another receiver; nothing is sent |
/// | `join(handle)` | the handle is dropped, so the green thread is detached. `join(&mut handle)` keeps the handle |
/// | `accept` | the connection stays with the listener, for the next accept. An error that would repeat at once is returned after 5 ms |
/// | `readable`, `writable` | nothing is read or written |
/// | `notified` | a notification by `notify_one` goes to the next waiter, or is kept |
/// | `acquired` | the permit goes to the next waiter, or back |
/// | `future(f)` | the future is dropped. `future(&mut f)`, for a future that is `Unpin` or pinned, keeps the future |
///
/// `join(&mut handle)` and `future(&mut f)` must not wait again once they were chosen: the result has been
/// taken.
///
/// Every case that is no channel operation is a future. It is polled on the calling thread: when the select
/// begins, and after its waker was called. A select in a loop joins the line of a semaphore anew each time,
/// behind all that wait there.
///
/// A future need not be `Send`. A poll stays on its OS thread. Between two polls a green thread may move to
/// another OS thread, as it may at every call that parks: see [moving](crate::docs::moving).
///
/// # Cancellation
///
/// A cancelled green thread that has to wait unwinds from here, and so does a green thread after the end of
/// its [`timeout`](crate::time::timeout). Nothing has then been taken or sent, and all cases are withdrawn.
///
/// # Examples
///
/// Channel operations:
///
/// ```
/// use runtime::channel::{after, bounded, unbounded};
/// use runtime::select;
/// use std::time::Duration;
///
/// let (numbers, r1) = unbounded();
/// let (s2, words) = bounded(1);
/// numbers.send(1).unwrap();
///
/// let done = select! {
///     recv(r1) -> number => { assert_eq!(number, Ok(1)); "received" }
///     send(s2, "word".to_string()) -> sent => { sent.unwrap(); "sent" }
///     recv(after(Duration::from_secs(60))) -> _ => "waited long",
/// };
/// assert_eq!(done == "sent", words.try_recv().is_ok());
///
/// drop(numbers);
/// select! {
///     recv(words) -> _ => unreachable!(),
///     default(Duration::from_millis(1)) => {}
/// }
/// ```
///
/// A green thread's result, unless the context ends first:
///
/// ```
/// use runtime::context::{Context, ContextError};
/// use runtime::select;
///
/// fn fetch(context: &Context) -> Result<u32, ContextError> {
///     let mut thread = runtime::spawn(|| 42);
///     select! {
///         join(&mut thread) -> result => Ok(result.unwrap()),
///         done(context) -> why => {
///             thread.cancel();
///             Err(why)
///         }
///     }
/// }
///
/// let (context, cancel) = Context::background().with_cancel();
/// assert_eq!(fetch(&context), Ok(42));
/// ```
///
/// A permit or a notification, whichever comes first:
///
/// ```
/// use runtime::select;
/// use runtime::sync::{Notify, Semaphore};
///
/// let (seats, closed) = (Semaphore::new(0), Notify::new());
/// closed.notify_one();
/// select! {
///     acquired(seats) -> permit => drop(permit.unwrap()),
///     notified(closed) -> () => println!("closed"),
/// }
/// // The select has left the line.
/// seats.add_permits(1);
/// assert!(seats.try_acquire().is_ok());
/// ```
///
/// A loop that does something at regular times, until it gets a message to end:
///
/// ```
/// use runtime::select;
/// use runtime::sync::oneshot;
/// use runtime::time::{Duration, Ticker};
///
/// let (stop, mut stopped) = oneshot::channel::<()>();
/// let worker = runtime::spawn(move || {
///     let (ticker, mut ticks) = (Ticker::new(Duration::from_millis(1)), 0);
///     loop {
///         select! {
///             timer(ticker) -> _ => ticks += 1,
///             future(&mut stopped) -> _ => return ticks,
///         }
///     }
/// });
/// runtime::sleep(Duration::from_millis(5));
/// drop(stop);
/// println!("{} ticks", worker.join().unwrap());
/// ```
///
/// An accept loop that ends by a message:
///
/// ```
/// use runtime::channel::bounded;
/// use runtime::net::{TcpListener, TcpStream};
/// use runtime::select;
/// use std::io::Write;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let addr = listener.local_addr()?;
/// let (stop, stopped) = bounded(1);
/// let server = runtime::spawn(move || loop {
///     select! {
///         accept(listener) -> connection => match connection {
///             Ok((mut stream, _peer)) => drop(runtime::spawn(move || stream.write_all(b"hello"))),
///             // Most likely there is no free descriptor. `accept` has paused, so that the loop does not spin.
///             Err(error) => eprintln!("cannot accept: {error}"),
///         },
///         recv(stopped) -> _ => break,
///     }
/// });
/// TcpStream::connect(addr)?;
/// stop.send(()).unwrap();
/// server.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
///
/// A read that ends at a deadline or by a signal:
///
/// ```
/// # #[cfg(unix)] {
/// use runtime::net::Async;
/// use runtime::select;
/// use runtime::signal::{self, SIGUSR2};
/// use std::time::Duration;
///
/// let (reader, _writer) = std::io::pipe()?;
/// let (reader, signals) = (Async::new(reader)?, signal::notify(&[SIGUSR2])?);
/// let end = select! {
///     readable(reader) -> ready => { ready?; "ready" }
///     signal(signals) -> _ => "signal",
///     timer(Duration::from_millis(5)) -> _ => "time-out",
/// };
/// assert_eq!(end, "time-out");
/// # }
/// # std::io::Result::Ok(())
/// ```
#[macro_export]
macro_rules! select {
    () => { compile_error!("empty `select!` block") };
    ($($cases:tt)+) => { $crate::__select!(@read false [] [] $($cases)+) };
}

/// Waits as [`select!`](crate::select) does, with the same cases, but chooses the first case that is ready.
///
/// A future behind a case that is ready at once is not polled.
///
/// ```
/// let (s, r) = runtime::channel::unbounded();
/// s.send(1).unwrap();
/// runtime::select_biased! {
///     recv(r) -> msg => assert_eq!(msg, Ok(1)),
///     send(s, 2) -> _ => unreachable!("the first is ready"),
/// }
/// ```
#[macro_export]
macro_rules! select_biased {
    () => { compile_error!("empty `select!` block") };
    ($($cases:tt)+) => { $crate::__select!(@read true [] [] $($cases)+) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    // All cases are read.
    (@read $biased:tt [$($cases:tt)*] [$($default:tt)*]) => {
        $crate::__select!(@build $biased [$($cases)*] [$($default)*])
    };

    // A case with a block. The comma may be missing.
    (@read $biased:tt [$($cases:tt)*] $default:tt
        recv($r:expr $(,)?) -> $res:pat => $body:block $(, $($rest:tt)*)?
    ) => {
        $crate::__select!(@read $biased [$($cases)* {recv ($r) ($res) $body}] $default $($($rest)*)?)
    };
    (@read $biased:tt [$($cases:tt)*] $default:tt
        recv($r:expr $(,)?) -> $res:pat => $body:block $($rest:tt)*
    ) => {
        $crate::__select!(@read $biased [$($cases)* {recv ($r) ($res) $body}] $default $($rest)*)
    };
    (@read $biased:tt [$($cases:tt)*] $default:tt
        send($s:expr, $m:expr $(,)?) -> $res:pat => $body:block $(, $($rest:tt)*)?
    ) => {
        $crate::__select!(@read $biased [$($cases)* {send ($s, $m) ($res) $body}] $default $($($rest)*)?)
    };
    (@read $biased:tt [$($cases:tt)*] $default:tt
        send($s:expr, $m:expr $(,)?) -> $res:pat => $body:block $($rest:tt)*
    ) => {
        $crate::__select!(@read $biased [$($cases)* {send ($s, $m) ($res) $body}] $default $($rest)*)
    };
    (@read $biased:tt $cases:tt [] default $(($($timeout:expr $(,)?)?))? => $body:block $(, $($rest:tt)*)?) => {
        $crate::__select!(@read $biased $cases [($($($timeout)?)?) $body] $($($rest)*)?)
    };
    (@read $biased:tt $cases:tt [] default $(($($timeout:expr $(,)?)?))? => $body:block $($rest:tt)*) => {
        $crate::__select!(@read $biased $cases [($($($timeout)?)?) $body] $($rest)*)
    };

    // A case with an expression. Only the last case may be without a comma.
    (@read $biased:tt [$($cases:tt)*] $default:tt
        recv($r:expr $(,)?) -> $res:pat => $body:expr $(, $($rest:tt)*)?
    ) => {
        $crate::__select!(@read $biased [$($cases)* {recv ($r) ($res) $body}] $default $($($rest)*)?)
    };
    (@read $biased:tt [$($cases:tt)*] $default:tt
        send($s:expr, $m:expr $(,)?) -> $res:pat => $body:expr $(, $($rest:tt)*)?
    ) => {
        $crate::__select!(@read $biased [$($cases)* {send ($s, $m) ($res) $body}] $default $($($rest)*)?)
    };
    (@read $biased:tt $cases:tt [] default $(($($timeout:expr $(,)?)?))? => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@read $biased $cases [($($($timeout)?)?) $body] $($($rest)*)?)
    };

    // A receiver of signals is a channel.
    (@read $biased:tt $cases:tt $default:tt signal($signals:expr $(,)?) -> $($rest:tt)*) => {
        $crate::__select!(@read $biased $cases $default recv($signals.channel()) -> $($rest)*)
    };

    // Cases that cannot be read.
    (@read $biased:tt $cases:tt [$($one:tt)+] default $($rest:tt)*) => {
        compile_error!("there can be only one `default` case in a `select!` block")
    };
    (@read $biased:tt $cases:tt $default:tt recv $($rest:tt)*) => {
        compile_error!("a receive case is `recv(receiver) -> result => expression`, and a comma if another case follows")
    };
    (@read $biased:tt $cases:tt $default:tt send $($rest:tt)*) => {
        compile_error!("a send case is `send(sender, message) -> result => expression`, and a comma if another case follows")
    };
    (@read $biased:tt $cases:tt $default:tt default $($rest:tt)*) => {
        compile_error!("the default case is `default => expression` or `default(timeout) => expression`")
    };
    (@read $biased:tt [$($cases:tt)*] $default:tt
        $kind:ident($e:expr $(,)?) -> $res:pat => $body:block $(, $($rest:tt)*)?
    ) => {
        $crate::__select!(@read $biased [$($cases)* {$kind ($e) ($res) $body}] $default $($($rest)*)?)
    };
    (@read $biased:tt [$($cases:tt)*] $default:tt
        $kind:ident($e:expr $(,)?) -> $res:pat => $body:block $($rest:tt)*
    ) => {
        $crate::__select!(@read $biased [$($cases)* {$kind ($e) ($res) $body}] $default $($rest)*)
    };
    (@read $biased:tt [$($cases:tt)*] $default:tt
        $kind:ident($e:expr $(,)?) -> $res:pat => $body:expr $(, $($rest:tt)*)?
    ) => {
        $crate::__select!(@read $biased [$($cases)* {$kind ($e) ($res) $body}] $default $($($rest)*)?)
    };
    (@read $biased:tt $cases:tt $default:tt $kind:ident($($e:tt)*) $($rest:tt)*) => {
        compile_error!(concat!(
            "a case is `", stringify!($kind), "(value) -> result => expression`, and a comma if another case follows"
        ))
    };
    (@read $biased:tt $cases:tt $default:tt $other:tt $($rest:tt)*) => {
        compile_error!(concat!("expected a case such as `recv`, `send`, or `default`, found `", stringify!($other), "`"))
    };

    // A single receive is a `recv`, `try_recv` or `recv_timeout`.
    (@build $biased:tt [{recv ($r:expr) ($res:pat) $body:expr}] []) => {
        match &$r {
            receiver => {
                let receiver: &$crate::channel::Receiver<_> = receiver;
                let $res = receiver.recv();
                $body
            }
        }
    };
    (@build $biased:tt [{recv ($r:expr) ($res:pat) $body:expr}] [() $otherwise:expr]) => {
        match &$r {
            receiver => {
                let receiver: &$crate::channel::Receiver<_> = receiver;
                match receiver.try_recv() {
                    ::std::result::Result::Err($crate::channel::TryRecvError::Empty) => $otherwise,
                    received => {
                        let $res = received.map_err(|_| $crate::channel::RecvError);
                        $body
                    }
                }
            }
        }
    };
    (@build $biased:tt [{recv ($r:expr) ($res:pat) $body:expr}] [($timeout:expr) $otherwise:expr]) => {
        match &$r {
            receiver => {
                let receiver: &$crate::channel::Receiver<_> = receiver;
                match receiver.recv_timeout($timeout) {
                    ::std::result::Result::Err($crate::channel::RecvTimeoutError::Timeout) => $otherwise,
                    received => {
                        let $res = received.map_err(|_| $crate::channel::RecvError);
                        $body
                    }
                }
            }
        }
    };
    (@build $biased:tt [$($cases:tt)*] $default:tt) => {
        $crate::__select!(@bind $biased $default (0) () () () () [$($cases)*])
    };

    // Binds one handle or future after the other. The first list gets all cases, the second those of
    // channels, each as {index handle}. The third gets the futures, as {event future}. The completing chain
    // gets {kind handle ..}.
    (@bind $biased:tt $default:tt ($($index:tt)*) ($($all:tt)*) ($($channels:tt)*) $futures:tt ($($bound:tt)*)
        [{recv ($r:expr) ($res:pat) $body:expr} $($rest:tt)*]
    ) => {
        match &$r {
            receiver => {
                let receiver: &$crate::channel::Receiver<_> = receiver;
                $crate::__select!(@bind $biased $default ($($index)* + 1)
                    ($($all)* {($($index)*) receiver}) ($($channels)* {($($index)*) receiver}) $futures
                    ($($bound)* {recv receiver ($res) $body}) [$($rest)*])
            }
        }
    };
    (@bind $biased:tt $default:tt ($($index:tt)*) ($($all:tt)*) ($($channels:tt)*) $futures:tt ($($bound:tt)*)
        [{send ($s:expr, $m:expr) ($res:pat) $body:expr} $($rest:tt)*]
    ) => {
        match &$s {
            sender => {
                let sender: &$crate::channel::Sender<_> = sender;
                $crate::__select!(@bind $biased $default ($($index)* + 1)
                    ($($all)* {($($index)*) sender}) ($($channels)* {($($index)*) sender}) $futures
                    ($($bound)* {send sender ($m) ($res) $body}) [$($rest)*])
            }
        }
    };
    (@bind $biased:tt $default:tt ($($index:tt)*) ($($all:tt)*) ($($channels:tt)*) $futures:tt ($($bound:tt)*)
        [{done ($context:expr) ($res:pat) $body:expr} $($rest:tt)*]
    ) => {
        match &$context {
            context => {
                let context: &$crate::context::Context = context;
                let receiver = context.done();
                $crate::__select!(@bind $biased $default ($($index)* + 1)
                    ($($all)* {($($index)*) receiver}) ($($channels)* {($($index)*) receiver}) $futures
                    ($($bound)* {done receiver context ($res) $body}) [$($rest)*])
            }
        }
    };
    (@bind $biased:tt $default:tt ($($index:tt)*) ($($all:tt)*) ($($channels:tt)*) $futures:tt ($($bound:tt)*)
        [{timer ($timer:expr) ($res:pat) $body:expr} $($rest:tt)*]
    ) => {
        match &$crate::selects::Moments::moments(&$timer) {
            moments => {
                $crate::__select!(@bind $biased $default ($($index)* + 1)
                    ($($all)* {($($index)*) moments}) ($($channels)* {($($index)*) moments}) $futures
                    ($($bound)* {timer moments ($res) $body}) [$($rest)*])
            }
        }
    };
    (@bind $biased:tt $default:tt ($($index:tt)*) ($($all:tt)*) $channels:tt ($($futures:tt)*) ($($bound:tt)*)
        [{$kind:ident ($e:expr) ($res:pat) $body:expr} $($rest:tt)*]
    ) => {
        match ::std::future::IntoFuture::into_future($crate::__select!(@future $kind $e)) {
            future => {
                $crate::__select!(@bind $biased $default ($($index)* + 1)
                    ($($all)* {($($index)*) event}) $channels ($($futures)* {event future})
                    ($($bound)* {future future ($res) $body}) [$($rest)*])
            }
        }
    };

    // Without futures. Without a default, too: a `Result` around the operation would cost a copy.
    (@bind $biased:tt [] $count:tt ($({$index:tt $handle:ident})*) $channels:tt () $bound:tt []) => {{
        let mut cases: [$crate::channel::internal::Case<'_>; $crate::__select!(@count $($handle)*)] =
            [$($crate::channel::internal::Case::new($handle, $index)),*];
        let operation = $crate::channel::internal::select(&mut cases, $biased);
        $crate::__select!(@complete operation (0) $bound)
    }};
    (@bind $biased:tt $default:tt $count:tt ($({$index:tt $handle:ident})*) $channels:tt () $bound:tt []) => {{
        let mut cases: [$crate::channel::internal::Case<'_>; $crate::__select!(@count $($handle)*)] =
            [$($crate::channel::internal::Case::new($handle, $index)),*];
        $crate::__select!(@finish $default ($crate::__select!(@choose $biased $default cases)) $bound)
    }};
    // With futures. They are dropped before the chosen expression, and before the message of a send is
    // evaluated. So these may use what the futures have borrowed.
    (@bind $biased:tt $default:tt $count:tt ($({$index:tt $handle:ident})*) ($({$at:tt $channel:ident})*)
        ($({$event:ident $future:ident})+) $bound:tt []
    ) => {{
        let channels: [$crate::channel::internal::Case<'_>; $crate::__select!(@count $($channel)*)] =
            [$($crate::channel::internal::Case::new($channel, $at)),*];
        let (chosen, ($($future,)+)) = {
            $(let $event = ::std::pin::pin!($crate::channel::internal::Event::new($future));)+
            $(let $event = &$event.as_ref();)+
            let mut cases: [$crate::channel::internal::Case<'_>; $crate::__select!(@count $($handle)*)] =
                [$($crate::channel::internal::Case::new($handle, $index)),*];
            let chosen = $crate::__select!(@choose $biased $default cases);
            $($event.withdraw();)+
            (chosen.map(|operation| operation.of_channels(&channels)), ($($event.output(),)+))
        };
        $crate::__select!(@finish $default (chosen) $bound)
    }};

    (@choose $biased:tt [] $cases:ident) => {
        ::std::result::Result::<_, ::std::convert::Infallible>::Ok(
            $crate::channel::internal::select(&mut $cases, $biased)
        )
    };
    (@choose $biased:tt [() $otherwise:expr] $cases:ident) => {
        $crate::channel::internal::try_select(&mut $cases, $biased)
    };
    (@choose $biased:tt [($timeout:expr) $otherwise:expr] $cases:ident) => {
        $crate::channel::internal::select_timeout(&mut $cases, $timeout, $biased)
    };

    (@finish [] ($chosen:expr) $bound:tt) => {{
        let ::std::result::Result::Ok(operation) = $chosen;
        $crate::__select!(@complete operation (0) $bound)
    }};
    (@finish [$timeout:tt $otherwise:expr] ($chosen:expr) $bound:tt) => {
        match $chosen {
            ::std::result::Result::Err(_) => $otherwise,
            #[allow(unused_variables, unreachable_code)]
            ::std::result::Result::Ok(operation) => $crate::__select!(@complete operation (0) $bound),
        }
    };

    // Completes the operation with that index.
    (@complete $operation:ident ($($index:tt)*) ({recv $receiver:ident ($res:pat) $body:expr} $($rest:tt)*)) => {
        if $operation.index() == ($($index)*) {
            let $res = $operation.recv($receiver);
            $body
        } else {
            $crate::__select!(@complete $operation ($($index)* + 1) ($($rest)*))
        }
    };
    (@complete $operation:ident ($($index:tt)*) ({send $sender:ident ($m:expr) ($res:pat) $body:expr} $($rest:tt)*)) => {
        if $operation.index() == ($($index)*) {
            let $res = $operation.send($sender, $m);
            $body
        } else {
            $crate::__select!(@complete $operation ($($index)* + 1) ($($rest)*))
        }
    };
    (@complete $operation:ident ($($index:tt)*)
        ({done $receiver:ident $context:ident ($res:pat) $body:expr} $($rest:tt)*)
    ) => {
        if $operation.index() == ($($index)*) {
            let $res = $operation.recv($receiver).err().and($context.err()).expect("its channel is disconnected");
            $body
        } else {
            $crate::__select!(@complete $operation ($($index)* + 1) ($($rest)*))
        }
    };
    (@complete $operation:ident ($($index:tt)*) ({timer $moments:ident ($res:pat) $body:expr} $($rest:tt)*)) => {
        if $operation.index() == ($($index)*) {
            let $res = $operation.recv($moments).expect("a timer is never disconnected");
            $body
        } else {
            $crate::__select!(@complete $operation ($($index)* + 1) ($($rest)*))
        }
    };
    (@complete $operation:ident ($($index:tt)*) ({future $output:ident ($res:pat) $body:expr} $($rest:tt)*)) => {
        if $operation.index() == ($($index)*) {
            let $res = $output.expect("the future of the chosen case is ready");
            $body
        } else {
            $crate::__select!(@complete $operation ($($index)* + 1) ($($rest)*))
        }
    };
    (@complete $operation:ident $index:tt ()) => {
        ::std::unreachable!("the chosen operation is one of the list")
    };

    // The future of a case.
    (@future future $f:expr) => { $f };
    (@future join $handle:expr) => { $crate::selects::join($handle) };
    (@future accept $listener:expr) => { $crate::selects::accept($listener.accept_async()) };
    (@future readable $socket:expr) => { $socket.readable_async() };
    (@future writable $socket:expr) => { $socket.writable_async() };
    (@future notified $notify:expr) => { $notify.notified_async() };
    (@future acquired $semaphore:expr) => { $semaphore.acquire_async() };
    (@future $kind:ident $e:expr) => {
        compile_error!(concat!(
            "expected one of `recv`, `send`, `default`, `join`, `accept`, `readable`, `writable`, `done`, `notified`, `acquired`, ",
            "`timer`, `signal`, or `future`, found `", stringify!($kind), "`"
        ))
    };

    (@count) => { 0usize };
    (@count $one:ident $($rest:ident)*) => { 1usize + $crate::__select!(@count $($rest)*) };
}
