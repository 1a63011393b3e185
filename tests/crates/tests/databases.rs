//! Unchanged database crates on green threads: rusqlite and r2d2, postgres and tokio-postgres.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crates::{Postgres, Watchdog, missing};

/// Opens connections to one database in memory.
struct Memory;

impl r2d2::ManageConnection for Memory {
    type Connection = rusqlite::Connection;
    type Error = rusqlite::Error;

    fn connect(&self) -> Result<rusqlite::Connection, rusqlite::Error> {
        rusqlite::Connection::open("file:numbers?mode=memory&cache=shared")
    }

    fn is_valid(&self, connection: &mut rusqlite::Connection) -> Result<(), rusqlite::Error> {
        connection.execute_batch("")
    }

    fn has_broken(&self, _: &mut rusqlite::Connection) -> bool {
        false
    }
}

#[test]
fn rusqlite_writes_files_in_blocking() {
    let _dog = Watchdog::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("numbers.db");
    runtime::block_on(|| {
        let open = || rusqlite::Connection::open(&file).unwrap();
        runtime::blocking(|| {
            open().execute_batch("pragma journal_mode = wal; create table numbers (n integer)")
        })
        .unwrap();
        // A lock that parks keeps writers in line: SQLite itself lets one write at a time.
        let connection = runtime::sync::Mutex::new(open());
        runtime::scope(|s| {
            for n in 0..100 {
                let connection = &connection;
                s.spawn(move || {
                    let connection = connection.lock();
                    runtime::blocking(|| connection.execute("insert into numbers values (?1)", [n])).unwrap();
                });
            }
        });
        let connection = connection.into_inner();
        let sum: i64 = connection.query_row("select sum(n) from numbers", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 99 * 100 / 2);
    });
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
}

#[test]
fn green_threads_share_a_pool_of_r2d2() {
    let _dog = Watchdog::new();
    const SIZE: u32 = 4;
    let pool = r2d2::Pool::builder().max_size(SIZE).build(Memory).unwrap();
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // The permit makes green threads park, so that at most `SIZE` of them are in the pool's lock of std.
    let permits = runtime::sync::Semaphore::new(SIZE as usize);
    runtime::scope(|s| {
        for n in 0..100i64 {
            let (pool, permits, now, most) = (&pool, &permits, &now, &most);
            s.spawn(move || {
                let _permit = permits.acquire().unwrap();
                let connection = runtime::blocking(|| pool.get()).unwrap();
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                // The connection is kept across a park.
                runtime::sleep(Duration::from_millis(1));
                let twice: i64 = connection.query_row("select ?1 * 2", [n], |row| row.get(0)).unwrap();
                now.fetch_sub(1, SeqCst);
                assert_eq!(twice, n * 2);
            });
        }
    });
    assert!((2..=SIZE as usize).contains(&most.load(SeqCst)), "{most:?} connections at once");
}

#[test]
fn postgres_and_tokio_postgres_query_at_once() {
    let _dog = Watchdog::new();
    let Some(server) = Postgres::start() else { return missing("postgresql") };
    let info = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", server.port);
    runtime::block_on(|| {
        let blocking = (0..30i32).map(|n| {
            let info = info.clone();
            // This client drives a reactor of its own, which blocks its OS thread.
            runtime::spawn(move || {
                runtime::blocking(|| {
                    let mut client = postgres::Client::connect(&info, postgres::NoTls).unwrap();
                    let row = client.query_one("select $1::int4 * 2 from pg_sleep(0.2)", &[&n]).unwrap();
                    assert_eq!(row.get::<_, i32>(0), n * 2);
                });
            })
        });
        let futures = (0..50i32).map(|n| {
            let info = info.clone();
            runtime::spawn(async move {
                let (client, connection) =
                    tokio_postgres::connect(&info, tokio_postgres::NoTls).await.unwrap();
                let driver = runtime::spawn(connection);
                let row = client.query_one("select $1::int4 * 2 from pg_sleep(0.2)", &[&n]).await.unwrap();
                assert_eq!(row.get::<_, i32>(0), n * 2);
                drop(client);
                driver.await.unwrap().unwrap();
            })
        });
        // Both kinds run at once.
        let all: Vec<_> = blocking.chain(futures).collect();
        all.into_iter().for_each(|query| query.join().unwrap());
    });
}
