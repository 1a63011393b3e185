//! The echo server: a listener, several green threads that accept connections, and a green thread for each
//! connection.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use runtime::net::{TcpListener, TcpStream};
use runtime::{JoinHandle, Runtime};
use tests::Drops;

use crate::actor::{Actor, Unborn};
use crate::board::Other;
use crate::site::{Life, Site};
use crate::world::World;

const ACCEPTERS: usize = 3;

/// Binds a listener of `runtime`.
pub(crate) fn listen(runtime: &Runtime, site: &Arc<Site>) -> (TcpListener, SocketAddr) {
    let life = Life::begin(site, &Drops::default());
    let listener = runtime.block_on(move || {
        let _life = life;
        // An address that no operation binds, where the system has more than one: see `ops/net.rs`.
        let host = if cfg!(target_os = "linux") { "127.0.0.251:0" } else { "127.0.0.1:0" };
        TcpListener::bind(host).expect("a listener")
    });
    let addr = listener.local_addr().expect("an address");
    (listener, addr)
}

/// Starts the server. It serves until its thread is cancelled.
pub(crate) fn start(world: &Arc<World>, listener: TcpListener) -> JoinHandle<()> {
    let unborn = Unborn::new(world, &world.home, 0);
    world.home.spawn(move || {
        let mut actor = unborn.begin();
        actor.rests(Other::Echo);
        runtime::scope(|s| {
            for _ in 0..ACCEPTERS {
                let (unborn, listener) = (actor.offspring(), &listener);
                s.spawn(move || accepts(&mut unborn.begin(), listener));
            }
        });
    })
}

fn accepts(actor: &mut Actor, listener: &TcpListener) {
    actor.rests(Other::Echo);
    loop {
        let (stream, _) = listener.accept().expect("a connection");
        let unborn = actor.offspring();
        // The thread ends with its connection, so no joiner waits for it.
        drop(runtime::spawn(move || echoes(&mut unborn.begin(), &stream)));
    }
}

fn echoes(actor: &mut Actor, mut stream: &TcpStream) {
    actor.rests(Other::Echo);
    let mut buffer = [0; 512];
    // Clients close at any moment; an error ends this connection only.
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..n]).is_err() {
            return;
        }
    }
}
