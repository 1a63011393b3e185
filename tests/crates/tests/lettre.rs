//! Unchanged lettre sends mails with its tokio transport, in futures and by `block_on`.
//! (`tests/crates/interpose` has its blocking transport.)

use std::io::{BufRead, BufReader, Write};

use crates::Watchdog;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use runtime::net::{TcpListener, TcpStream};

/// Receives mails. Its answer to a mail is the mail's last line.
fn serve(mut stream: &TcpStream) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    stream.write_all(b"220 here\r\n").ok()?;
    loop {
        let line = lines.next()?.ok()?;
        let answer = match line.split([' ', ':']).next()? {
            "DATA" => {
                stream.write_all(b"354 go on\r\n").ok()?;
                let mail: Vec<_> =
                    lines.by_ref().map_while(Result::ok).take_while(|line| line != ".").collect();
                format!("250 {}", mail.last()?)
            }
            "QUIT" => return stream.write_all(b"221 bye\r\n").ok(),
            _ => "250 ok".to_owned(),
        };
        stream.write_all((answer + "\r\n").as_bytes()).ok()?;
    }
}

async fn send(port: u16, n: usize) -> String {
    let mail = Message::builder().from("a@here".parse().unwrap()).to("b@there".parse().unwrap());
    let mail = mail.subject("a number").body(format!("two lines\r\n{n}")).unwrap();
    let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1").port(port).build();
    transport.send(mail).await.unwrap().message().collect()
}

#[test]
fn lettre_sends_mails_by_tokio() {
    let _dog = Watchdog::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime::spawn(move || {
        for stream in listener.incoming().flatten() {
            runtime::spawn(move || serve(&stream));
        }
    });
    runtime::block_on(|| {
        let futures = (0..100).map(|n| (n, runtime::spawn(send(port, n))));
        let closures = (100..200).map(|n| (n, runtime::spawn(move || runtime::block_on(send(port, n)))));
        let mails: Vec<_> = futures.chain(closures).collect();
        mails.into_iter().for_each(|(n, mail)| assert_eq!(mail.join().unwrap(), n.to_string()));
    });
}
