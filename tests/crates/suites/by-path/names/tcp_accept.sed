# The channels are crossbeam-channel's: a receive returns a `Result`, not an `Option`.
s/\b\(accepted\|pending\|notified\)_rx\.recv_async()\.await/&.ok()/
