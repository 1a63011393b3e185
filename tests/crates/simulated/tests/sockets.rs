//! Sockets of std in a simulation.

runtime::interpose!(sim);

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use runtime::sim;

/// An echo server as everyone writes it with std: a thread for each connection.
fn serve(listener: TcpListener, connections: usize) {
    let threads: Vec<_> = listener
        .incoming()
        .take(connections)
        .map(|stream| {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut bytes = [0; 1024];
                loop {
                    match stream.read(&mut bytes).unwrap() {
                        0 => break,
                        n => stream.write_all(&bytes[..n]).unwrap(),
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn an_echo_server_of_std() {
    sim::run(1, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = thread::spawn(move || serve(listener, 3));
        let clients: Vec<_> = (0..3)
            .map(|number: u8| {
                thread::spawn(move || {
                    let mut stream = TcpStream::connect(addr).unwrap();
                    stream.write_all(&[number; 5000]).unwrap();
                    let mut answer = [0; 5000];
                    stream.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, [number; 5000]);
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.join().unwrap();
    });
}
