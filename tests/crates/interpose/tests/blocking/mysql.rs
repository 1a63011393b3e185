//! The unchanged blocking crate mysql with MariaDB, many clients at a time on green threads: no OS thread for
//! each.

use interpose::crowd;
use interpose::servers::{MariaDb, missing};
use mysql::prelude::Queryable;

#[test]
fn mysql_clients_sleep_1000_at_once() {
    let _dog = crowd::watch();
    let Some(server) = MariaDb::start(1000) else { return missing("mariadb-server") };
    let port = server.port;
    let results = crowd::run("mysql", 1000, move |i| {
        let options =
            mysql::OptsBuilder::new().ip_or_hostname(Some("127.0.0.1")).tcp_port(port).user(Some("root"));
        let mut connection = mysql::Conn::new(options.prefer_socket(false)).unwrap();
        // A text query, and a prepared one.
        let slept: Option<u8> = connection.query_first("SELECT SLEEP(0.2)").unwrap();
        let twice: Option<usize> = connection.exec_first("SELECT ? * 2", (i,)).unwrap();
        (slept, twice)
    });
    assert!(results.into_iter().enumerate().all(|(i, result)| result == (Some(0), Some(i * 2))));
}
