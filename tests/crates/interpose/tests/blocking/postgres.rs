//! PostgreSQL by libpq, a C library, also with TLS, and by the unchanged crate diesel: many clients at a time
//! on green threads take no OS thread for each.

use std::ffi::{CStr, CString};

use diesel::sql_types::Integer;
use diesel::{Connection, PgConnection, RunQueryDsl};
use interpose::crowd;
use interpose::servers::{Postgres, missing};

const CLIENTS: usize = 500;

/// Queries by libpq. Returns the answer, and the name of the TLS library if the connection uses one.
fn query(connection: &CStr, query: &CStr) -> (String, Option<String>) {
    use pq_sys::{ConnStatusType, PQclear, PQconnectdb, PQerrorMessage, PQexec, PQfinish, PQgetvalue};
    use pq_sys::{PQsslAttribute, PQstatus};
    let text = |text: *const std::ffi::c_char| {
        // SAFETY: libpq returns null, or text that ends with a zero byte and lives as long as its result or
        // connection.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned())
    };
    // SAFETY: the calls of libpq in the order of its manual; no pointer is used after it was given up.
    unsafe {
        let connection = PQconnectdb(connection.as_ptr());
        let error = || text(PQerrorMessage(connection));
        assert_eq!(PQstatus(connection), ConnStatusType::CONNECTION_OK, "{:?}", error());
        let library = text(PQsslAttribute(connection, c"library".as_ptr()));
        let result = PQexec(connection, query.as_ptr());
        let answer = text(PQgetvalue(result, 0, 0)).unwrap_or_else(|| panic!("no answer: {:?}", error()));
        PQclear(result);
        PQfinish(connection);
        (answer, library)
    }
}

fn sleeping_query(i: usize) -> CString {
    CString::new(format!("select {i} * 2 from pg_sleep(0.5)")).unwrap()
}

#[test]
fn libpq_sleeps_in_500_queries_at_once() {
    let _dog = crowd::watch();
    let Some(server) = Postgres::start_with(CLIENTS, false) else { return missing("postgresql") };
    let port = server.port;
    let results = crowd::run("libpq", CLIENTS, move |i| {
        let info = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=disable");
        query(&CString::new(info).unwrap(), &sleeping_query(i))
    });
    assert!(results.into_iter().enumerate().all(|(i, result)| result == ((i * 2).to_string(), None)));
}

#[test]
fn libpq_with_tls_sleeps_in_500_queries_at_once() {
    let _dog = crowd::watch();
    let Some(server) = Postgres::start_with(CLIENTS, true) else { return missing("postgresql or openssl") };
    let info = format!(
        "host=localhost hostaddr=127.0.0.1 port={} user=postgres dbname=postgres sslmode=verify-full sslrootcert={}",
        server.port,
        server.certificate().display(),
    );
    let info: &'static CStr = Box::leak(CString::new(info).unwrap().into_boxed_c_str());
    let results = crowd::run("libpq with TLS", CLIENTS, move |i| query(info, &sleeping_query(i)));
    let expected = |i: usize| ((i * 2).to_string(), Some("OpenSSL".into()));
    assert!(results.into_iter().enumerate().all(|(i, result)| result == expected(i)));
}

#[derive(diesel::QueryableByName)]
struct Answer {
    #[diesel(sql_type = Integer)]
    answer: i32,
}

#[test]
fn diesel_sleeps_in_500_queries_at_once() {
    let _dog = crowd::watch();
    let Some(server) = Postgres::start_with(CLIENTS, false) else { return missing("postgresql") };
    let port = server.port;
    let results = crowd::run("diesel", CLIENTS, move |i| {
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let mut connection = PgConnection::establish(&url).unwrap();
        let query =
            diesel::sql_query("select $1 * 2 as answer from pg_sleep(0.5)").bind::<Integer, _>(i as i32);
        query.get_result::<Answer>(&mut connection).unwrap().answer
    });
    assert!(results.into_iter().enumerate().all(|(i, answer)| answer == i as i32 * 2));
}
