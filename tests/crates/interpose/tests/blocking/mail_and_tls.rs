//! The unchanged blocking crates lettre (mail) and native-tls, many clients at a time on green threads: no OS
//! thread for each.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use interpose::crowd;
use interpose::servers::{make_certificate, missing};
use interpose::slow::SlowServer;
use lettre::{Message, SmtpTransport, Transport};
use native_tls::{Certificate, TlsConnector};

#[test]
fn lettre_sends_500_mails_at_once() {
    let _dog = crowd::watch();
    let server = SlowServer::start(env!("CARGO_BIN_EXE_slow_server"), &["500", "smtp"]);
    let port = server.port;
    let results = crowd::run("lettre", 500, move |i| {
        let mail = Message::builder().from("a@here".parse().unwrap()).to("b@there".parse().unwrap());
        let mail = mail.subject("a number").body(format!("two lines\r\n{i}")).unwrap();
        let transport = SmtpTransport::builder_dangerous("127.0.0.1").port(port).build();
        let answer = transport.send(&mail).unwrap();
        answer.message().collect::<String>()
    });
    assert!(results.into_iter().enumerate().all(|(i, answer)| answer == i.to_string()));
}

#[test]
fn native_tls_connects_500_at_once() {
    let _dog = crowd::watch();
    let folder = tempfile::tempdir().unwrap();
    if !make_certificate(folder.path()) {
        return missing("openssl");
    }
    let args = ["500", "tls", folder.path().to_str().unwrap()];
    let server = SlowServer::start(env!("CARGO_BIN_EXE_slow_server"), &args);
    let port = server.port;
    let certificate =
        Certificate::from_pem(&std::fs::read(folder.path().join("server.crt")).unwrap()).unwrap();
    let connector =
        TlsConnector::builder().disable_built_in_roots(true).add_root_certificate(certificate).build();
    let connector: &'static TlsConnector = Box::leak(Box::new(connector.unwrap()));
    let results = crowd::run("native-tls", 500, move |i| {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut stream = BufReader::new(connector.connect("localhost", stream).unwrap());
        stream.get_mut().write_all(format!("number {i}\n").as_bytes()).unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line
    });
    assert!(results.into_iter().enumerate().all(|(i, line)| line == format!("number {i}\n")));
}
