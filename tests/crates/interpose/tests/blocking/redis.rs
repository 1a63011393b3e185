//! The unchanged blocking crate redis, many clients at a time on green threads: no OS thread for each.

use interpose::crowd;
use interpose::servers::{Redis, missing};

#[test]
fn redis_clients_wait_1000_at_once() {
    let _dog = crowd::watch();
    let Some(server) = Redis::start() else { return missing("redis-server") };
    let port = server.port;
    let results = crowd::run("redis", 1000, move |i| {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
        let mut connection = client.get_connection().unwrap();
        let nothing: Option<(String, String)> =
            redis::cmd("BLPOP").arg(format!("list-{i}")).arg(0.2).query(&mut connection).unwrap();
        let set: String = redis::cmd("SET").arg(i).arg(i * 2).query(&mut connection).unwrap();
        let got: usize = redis::cmd("GET").arg(i).query(&mut connection).unwrap();
        (nothing, set, got)
    });
    assert!(results.into_iter().enumerate().all(|(i, result)| result == (None, "OK".into(), i * 2)));
}
