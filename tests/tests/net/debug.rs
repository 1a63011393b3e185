//! Sockets: their `Debug` output equals that of std's sockets.

use std::fmt::Debug;

use runtime::net;
use tests::everywhere;

/// Checks that the output of `ours` equals the output after the conversion to std's type `T`.
fn prints_as<T: Debug>(ours: impl Debug + Into<T>) {
    let (plain, pretty) = (format!("{ours:?}"), format!("{:#?}", Some(&ours)));
    let stds = ours.into();
    assert_eq!(plain, format!("{stds:?}"));
    assert_eq!(pretty, format!("{:#?}", Some(&stds)));
}

#[test]
fn tcp_and_udp_sockets_print_as_in_std() {
    everywhere(|| {
        let (client, server) = tests::sockets::connected();
        assert!(format!("{client:?}").contains(&client.local_addr().unwrap().to_string()));
        prints_as::<std::net::TcpStream>(client);
        // The peer is closed by now.
        prints_as::<std::net::TcpStream>(server);
        prints_as::<std::net::TcpListener>(tests::sockets::listener().0);
        prints_as::<std::net::UdpSocket>(net::UdpSocket::bind("127.0.0.1:0").unwrap());
    });
}

#[test]
#[cfg(unix)]
fn unix_sockets_print_as_in_std() {
    use runtime::net::unix::{UnixDatagram, UnixListener, UnixStream};
    use std::os::unix::net as std_net;

    everywhere(|| {
        let folder = tests::folder::Folder::new();
        let path = folder.path("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        prints_as::<std_net::UnixStream>(listener.accept().unwrap().0);
        prints_as::<std_net::UnixStream>(client);
        prints_as::<std_net::UnixListener>(listener);
        std::fs::remove_file(&path).unwrap();
        prints_as::<std_net::UnixDatagram>(UnixDatagram::unbound().unwrap());
        prints_as::<std_net::UnixDatagram>(UnixDatagram::bind(&path).unwrap());
    });
}
