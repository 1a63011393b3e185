# More of what awaits.
s/\bUnixStream::connect_addr(/UnixStream::connect_addr_async(/
