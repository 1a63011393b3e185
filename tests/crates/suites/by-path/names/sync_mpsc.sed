# The channels are crossbeam-channel's: a receive returns a `Result`, not an `Option`.
s/\.recv_async()\.await/&.ok()/
s/Some(10), rx\.recv()/Ok(10), rx.recv()/
/fn recv_close_gets_none_reserved/,/^}/s/v, Some(123)/v, Ok(123)/
/fn ready_close_cancel_bounded/,/^}/s/is_none()/is_err()/
s/\bTrySendError::Closed\b/TrySendError::Disconnected/
# More of what awaits, and what parks.
s/\.\(reserve\|reserve_owned\|recv_many\)(/.\1_async(/g
s/\.send(\(.*\))\.await/.send_async(\1).await/
s/\bsent_fut = tx\.send(/sent_fut = tx.send_async(/
s/\.blocking_send(/.send(/
# A channel with a bound and one without have the same types.
/^impl.* Assert\(Ref\)\?UnwindSafe for mpsc::\(Unbounded\|WeakUnbounded\|PermitIterator\)/d
# No receiver that is polled without a future.
/^mod support {/,/^}/d
# In a test that is left out.
s/^#\[tokio::test(start_paused = true)\]/#[tokio::test]/
