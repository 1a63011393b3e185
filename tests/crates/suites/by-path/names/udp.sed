# More of what awaits.
s/\.\(connect\|send\|peek\)(/.\1_async(/
# No such options.
s/^test!(IPv6 tclass_v6.*/const _: () = ();/
s/^test!(IPv4 tos_v4.*/const _: () = ();/
# The channels are crossbeam-channel's: a receive returns a `Result`, not an `Option`.
s/\brx\.recv_async()\.await/&.ok()/
