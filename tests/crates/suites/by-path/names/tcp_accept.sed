# No listener that is polled without a future.
/^impl<'a> Stream for TrackPolls/,/^}/d
# The channels are crossbeam-channel's: a receive returns a `Result`, not an `Option`.
s/\b\(accepted\|pending\|notified\)_rx\.recv_async()\.await/&.ok()/
