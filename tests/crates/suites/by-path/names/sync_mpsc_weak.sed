# The channels are crossbeam-channel's: a receive returns a `Result`, not an `Option`.
s/\.recv_async()\.await/&.ok()/
s/\.\(reserve_owned\)(/.\1_async(/g
s/\.send(\(.*\))\.await/.send_async(\1).await/
s/\bsent_fut = tx\.send(/sent_fut = tx.send_async(/
