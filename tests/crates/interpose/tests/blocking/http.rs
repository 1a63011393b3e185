//! Unchanged blocking HTTP clients (ureq, libcurl by the crate curl), many at a time on green threads: no OS
//! thread for each.

use interpose::crowd;
use interpose::slow::SlowServer;

#[test]
fn ureq_fetches_4000_urls_at_once() {
    let _dog = crowd::watch();
    let server = SlowServer::start(env!("CARGO_BIN_EXE_slow_server"), &["200", "http"]);
    let port = server.port;
    let results = crowd::run("ureq", 4000, move |i| {
        let mut answer = ureq::get(format!("http://127.0.0.1:{port}/{i}")).call().unwrap();
        answer.body_mut().read_to_string().unwrap()
    });
    assert!(results.iter().enumerate().all(|(i, result)| *result == format!("/{i}")));
}

#[test]
fn libcurl_fetches_500_urls_at_once() {
    let _dog = crowd::watch();
    let server = SlowServer::start(env!("CARGO_BIN_EXE_slow_server"), &["500", "http"]);
    let port = server.port;
    curl::init();
    let results = crowd::run("libcurl", 500, move |i| {
        let mut easy = curl::easy::Easy::new();
        easy.url(&format!("http://127.0.0.1:{port}/{i}")).unwrap();
        let mut body = Vec::new();
        let mut transfer = easy.transfer();
        transfer
            .write_function(|bytes| {
                body.extend_from_slice(bytes);
                Ok(bytes.len())
            })
            .unwrap();
        transfer.perform().unwrap();
        drop(transfer);
        String::from_utf8(body).unwrap()
    });
    assert!(results.iter().enumerate().all(|(i, result)| *result == format!("/{i}")));
}
