//! Unchanged tonic on the runtime: a client and a server (HTTP/2).

use std::time::{Duration, Instant};

use crates::{Watchdog, free_port, load_seconds, wait_for_port};
use tonic::transport::{Channel, Server};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[test]
fn many_calls_and_a_stream_share_one_connection() {
    let _dog = Watchdog::new();
    let port = free_port();
    runtime::block_on(|| {
        let (reporter, service) = tonic_health::server::health_reporter();
        let server = runtime::spawn(async move {
            Server::builder().add_service(service).serve(([127, 0, 0, 1], port).into()).await.unwrap();
        });
        wait_for_port(port);
        let ask = || HealthCheckRequest { service: "test".into() };
        runtime::block_on(reporter.set_service_status("test", ServingStatus::Serving));
        let endpoint = Channel::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
        let client = HealthClient::new(runtime::block_on(endpoint.connect()).unwrap());
        let calls: Vec<_> = (0..200)
            .map(|_| {
                let mut client = client.clone();
                runtime::spawn(async move {
                    let status = client.check(ask()).await.unwrap().into_inner().status;
                    assert_eq!(status, ServingStatus::Serving as i32);
                })
            })
            .collect();
        calls.into_iter().for_each(|call| call.join().unwrap());
        // The server sends each change of its status on this stream.
        let mut changes = runtime::block_on(client.clone().watch(ask())).unwrap().into_inner();
        let mut next = || runtime::block_on(changes.message()).unwrap().expect("a change").status;
        assert_eq!(next(), ServingStatus::Serving as i32);
        runtime::sleep(Duration::from_millis(1));
        runtime::block_on(reporter.set_service_status("test", ServingStatus::NotServing));
        assert_eq!(next(), ServingStatus::NotServing as i32);
        server.cancel();
        assert!(server.join().is_err());
    });
}

/// Each call runs a function of the server that parks. 64 clients call for `LOAD_SECONDS`, over eight
/// connections.
#[test]
fn calls_are_answered_for_seconds_while_handlers_park() {
    let seconds = load_seconds();
    let _dog = Watchdog::within(Duration::from_secs(60 + seconds));
    let port = free_port();
    runtime::block_on(|| {
        let (reporter, service) = tonic_health::server::health_reporter();
        runtime::block_on(reporter.set_service_status("test", ServingStatus::Serving));
        let parks = |request: tonic::Request<()>| {
            runtime::sleep(Duration::from_millis(1));
            Ok(request)
        };
        let service = tonic::service::interceptor::InterceptedService::new(service, parks);
        let server = runtime::spawn(async move {
            Server::builder().add_service(service).serve(([127, 0, 0, 1], port).into()).await.unwrap();
        });
        wait_for_port(port);
        let connect = || {
            let endpoint = Channel::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
            HealthClient::new(runtime::block_on(endpoint.connect()).unwrap())
        };
        let connections: Vec<_> = (0..8).map(|_| connect()).collect();
        let end = Instant::now() + Duration::from_secs(seconds);
        let clients: Vec<_> = (0..64)
            .map(|n| {
                let mut client = connections[n % connections.len()].clone();
                runtime::spawn(async move {
                    let mut calls = 0u64;
                    while calls == 0 || Instant::now() < end {
                        let ask = HealthCheckRequest { service: "test".into() };
                        let status = client.check(ask).await.unwrap().into_inner().status;
                        assert_eq!(status, ServingStatus::Serving as i32);
                        calls += 1;
                    }
                    calls
                })
            })
            .collect();
        let calls: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        println!("tonic: {calls} calls in {seconds} s");
        server.cancel();
        assert!(server.join().is_err());
    });
}
