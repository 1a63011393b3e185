//! `io::copy_bidirectional`: both directions go on until each has ended, and an error ends both.

use std::io::{Read, Write, read_to_string};
use std::net::Shutdown;
use std::time::Duration;

use runtime::io::copy_bidirectional;
use runtime::spawn;
use runtime::thread::Cancelled;
use runtime::time::timeout;
use tests::sockets::connected;
use tests::{everywhere, on_each, until_it_waits};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn each_direction_ends_by_itself() {
    everywhere(|| {
        let (client, near) = connected();
        #[cfg(unix)]
        let (far, server) = runtime::net::unix::UnixStream::pair().unwrap();
        #[cfg(windows)]
        let (far, server) = connected();
        let proxy = spawn(move || copy_bidirectional(&near, &far));
        (&client).write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_string(&server).unwrap(), "question");
        // The direction back goes on, for more than what the system keeps.
        let writes = spawn(move || (&server).write_all(&vec![7; 1 << 20]).unwrap());
        let mut answer = Vec::new();
        timeout(MINUTE, || (&client).read_to_end(&mut answer)).unwrap().unwrap();
        assert!(answer.len() == 1 << 20 && answer.iter().all(|&byte| byte == 7));
        writes.join().unwrap();
        assert_eq!(proxy.join().unwrap().unwrap(), (8, 1 << 20));
    });
}

#[test]
fn an_error_ends_both_directions() {
    on_each(|| {
        let (client, near) = connected();
        let (far, server) = connected();
        let proxy = spawn(move || copy_bidirectional(&near, &far));
        (&client).write_all(b"x").unwrap();
        (&server).read_exact(&mut [0]).unwrap();
        // The other direction has nothing to read, and no end.
        client.set_zero_linger().unwrap();
        drop(client);
        let error = timeout(MINUTE, || proxy.join()).unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        drop(server);
    });
}

#[test]
fn a_cancelled_copy_unwinds() {
    on_each(|| {
        let ((_client, near), (far, _server)) = (connected(), connected());
        let proxy = spawn(move || copy_bidirectional(&near, &far));
        until_it_waits(&proxy);
        proxy.cancel();
        assert!(timeout(MINUTE, || proxy.join()).unwrap().unwrap_err().is::<Cancelled>());
    });
}
