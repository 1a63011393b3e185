//! The macros `select!` and `select_biased!`, which wait for the first of several channel operations.
//!
//! - `@read` sorts the cases into two lists: operations, and `default`.
//! - `@bind` binds the handle of each operation by a `match` of its own, so that temporaries live as long as the
//!   whole.
//! - `@build` makes the call of the select, or of `recv` and its like for a single receive.
//! - `@complete` is a chain of `if`s that completes the chosen operation.

/// Waits for the first of several channel operations, performs it, and evaluates the expression beside it.
///
/// ```text
/// select! {
///     recv(receiver) -> result => expression,            // result: Result<T, RecvError>
///     send(sender, message) -> result => expression,     // result: Result<(), SendError<T>>
///     default => expression,                             // or default(timeout) => expression
/// }
/// ```
///
/// There may be any number of `recv` and `send` cases, and one `default` at most. `default` is chosen if no operation
/// is ready at once, or within the time-out. If several operations are ready, a random one is chosen;
/// [`select_biased!`](crate::select_biased) chooses the first. An operation on a disconnected channel is ready, and
/// its result is an error.
///
/// A result may be any irrefutable pattern. The comma after a `{ .. }` may be left out. The value of the macro is
/// that of the chosen expression.
///
/// Receivers and senders are evaluated first, in order. A message is evaluated only when its case has been chosen. On
/// a channel of capacity 0 the receiver then waits for the message, and no cancellation ends that wait. (If
/// evaluating the message unwinds, the receiver goes on waiting for another.)
///
/// # Cancellation
///
/// A cancelled green thread that has to wait unwinds from here. Nothing has then been sent or received.
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
#[macro_export]
macro_rules! select {
    () => { compile_error!("empty `select!` block") };
    ($($cases:tt)+) => { $crate::__select!(@read false [] [] $($cases)+) };
}

/// Waits as [`select!`](crate::select) does, but chooses the first case that is ready.
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
    (@read $biased:tt $cases:tt $default:tt $other:tt $($rest:tt)*) => {
        compile_error!(concat!("expected one of `recv`, `send`, or `default`, found `", stringify!($other), "`"))
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
        $crate::__select!(@bind $biased $default () () [$($cases)*])
    };

    // Binds one handle after the other. The list gets (index handle), the completing chain gets {index handle ..}.
    (@bind $biased:tt $default:tt ($($list:tt)*) ($($bound:tt)*)
        [{recv ($r:expr) ($res:pat) $body:expr} $($rest:tt)*]
    ) => {
        match &$r {
            receiver => {
                let receiver: &$crate::channel::Receiver<_> = receiver;
                $crate::__select!(@bind $biased $default
                    ($($list)* receiver) ($($bound)* {recv receiver ($res) $body}) [$($rest)*])
            }
        }
    };
    (@bind $biased:tt $default:tt ($($list:tt)*) ($($bound:tt)*)
        [{send ($s:expr, $m:expr) ($res:pat) $body:expr} $($rest:tt)*]
    ) => {
        match &$s {
            sender => {
                let sender: &$crate::channel::Sender<_> = sender;
                $crate::__select!(@bind $biased $default
                    ($($list)* sender) ($($bound)* {send sender ($m) ($res) $body}) [$($rest)*])
            }
        }
    };
    (@bind $biased:tt $default:tt ($($handle:ident)*) ($($bound:tt)*) []) => {{
        #[allow(unused_mut, unused_assignments)]
        let mut index = 0;
        let mut cases: [$crate::channel::internal::Case<'_>; $crate::__select!(@count $($handle)*)] = [
            $({
                let case = $crate::channel::internal::Case::new($handle, index);
                #[allow(unused_assignments)]
                { index += 1; }
                case
            }),*
        ];
        $crate::__select!(@choose $biased $default cases ($($bound)*))
    }};

    (@choose $biased:tt [] $cases:ident $bound:tt) => {{
        let operation = $crate::channel::internal::select(&mut $cases, $biased);
        $crate::__select!(@complete operation (0) $bound)
    }};
    (@choose $biased:tt [() $otherwise:expr] $cases:ident $bound:tt) => {
        match $crate::channel::internal::try_select(&mut $cases, $biased) {
            ::std::result::Result::Err(_) => $otherwise,
            #[allow(unused_variables, unreachable_code)]
            ::std::result::Result::Ok(operation) => $crate::__select!(@complete operation (0) $bound),
        }
    };
    (@choose $biased:tt [($timeout:expr) $otherwise:expr] $cases:ident $bound:tt) => {
        match $crate::channel::internal::select_timeout(&mut $cases, $timeout, $biased) {
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
    (@complete $operation:ident $index:tt ()) => {
        ::std::unreachable!("the chosen operation is one of the list")
    };

    (@count) => { 0usize };
    (@count $one:ident $($rest:ident)*) => { 1usize + $crate::__select!(@count $($rest)*) };
}
