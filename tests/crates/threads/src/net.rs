//! An echo server with a thread for each connection, and 200 clients, each a thread.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use std::thread;

const CONNECTIONS: usize = 200;
const REQUESTS: u32 = 20;

pub fn run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut bytes = [0; 64];
                loop {
                    match stream.read(&mut bytes).unwrap() {
                        0 => return,
                        read => stream.write_all(&bytes[..read]).unwrap(),
                    }
                }
            });
        }
    });
    let [all_connected, counted] = [(); 2].map(|()| Barrier::new(CONNECTIONS + 1));
    let answers: u32 = thread::scope(|scope| {
        let client = || {
            let mut stream = TcpStream::connect(address).unwrap();
            // Then the server has its thread, too.
            ask(&mut stream, 0);
            all_connected.wait();
            counted.wait();
            (0..REQUESTS).map(|number| ask(&mut stream, number)).sum::<u32>()
        };
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(client)).collect();
        all_connected.wait();
        crate::report_os_threads();
        counted.wait();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    println!("answers: {answers}");
}

fn ask(stream: &mut TcpStream, number: u32) -> u32 {
    stream.write_all(&number.to_le_bytes()).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(u32::from_le_bytes(answer), number);
    1
}
