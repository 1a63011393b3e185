# What awaits has another name here, because the plain name parks.
s/\.\(acquire\|acquire_many\|acquire_owned\|acquire_many_owned\|changed\|closed\|notified\|recv\|get_or_init\|get_or_try_init\|join_next\|tick\|wait_for\)(/.\1_async(/g
s/\.\(accept\|peek_from\|peek_sender\|readable\|ready\|recv_from\|send_to\|writable\|wait\|wait_with_output\)(/.\1_async(/g
s/\b\(TcpListener\|TcpStream\|UdpSocket\|UnixStream\)::\(bind\|connect\)(/\1::\2_async(/g
s/\bstd::net::\(TcpListener\|TcpStream\|UdpSocket\)::\(bind\|connect\)_async(/std::net::\1::\2(/g
# What parks has the plain name.
s/\.blocking_\(recv\|acquire\|acquire_many\|acquire_owned\|acquire_many_owned\|read\|write\|lock\)(/.\1(/g
# A green thread is cancelled, as std's names have it, and a process is killed.
s/\.abort()/.cancel()/g
s/\.abort_all()/.cancel_all()/g
s/\.start_kill()/.kill()/g
# The processors of the runtime of a test.
s/flavor = "current_thread"/procs = 1/
s/flavor = "multi_thread", worker_threads = \([0-9]*\)/procs = \1/
s/flavor = "multi_thread"/procs = 2/
