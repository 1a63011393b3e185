//! Unchanged tonic on the runtime: a client and a server (HTTP/2).

use std::time::Duration;

use crates::{Watchdog, free_port, wait_for_port};
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
