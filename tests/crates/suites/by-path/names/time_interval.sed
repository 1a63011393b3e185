# The channels are crossbeam-channel's: a receive returns a `Result`, not an `Option`.
s/\bres_rx\.recv_async()\.await/&.ok()/
s/\bres_tx\.send(/res_tx.send_async(/
