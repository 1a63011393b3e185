# The listener is std's in this file.
s/\bnet::TcpListener::bind_async(/net::TcpListener::bind(/
s/\blistener\.accept_async()/listener.accept()/
