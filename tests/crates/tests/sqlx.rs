//! Unchanged sqlx on the runtime, with PostgreSQL and SQLite.

use std::time::{Duration, Instant};

use crates::{Postgres, Watchdog, missing};
use sqlx::Row;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::SqlitePoolOptions;

#[test]
fn many_green_threads_query_postgres_through_a_pool() {
    let _dog = Watchdog::new();
    let Some(server) = Postgres::start() else { return missing("postgresql") };
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", server.port);
    runtime::block_on(|| {
        let pool = runtime::block_on(PgPoolOptions::new().max_connections(50).connect(&url)).unwrap();
        let start = Instant::now();
        let futures: Vec<_> = (0..100i64)
            .map(|n| {
                let pool = pool.clone();
                runtime::spawn(async move {
                    let row = sqlx::query("select $1 * 2 from pg_sleep(0.1)")
                        .bind(n)
                        .fetch_one(&pool)
                        .await
                        .unwrap();
                    assert_eq!(row.get::<i64, _>(0), n * 2);
                })
            })
            .collect();
        let closures: Vec<_> = (0..100i64)
            .map(|n| {
                let pool = pool.clone();
                runtime::spawn(move || {
                    let query = sqlx::query_scalar::<_, i64>("select $1 + 1 from pg_sleep(0.1)").bind(n);
                    assert_eq!(runtime::block_on(query.fetch_one(&pool)).unwrap(), n + 1);
                })
            })
            .collect();
        futures.into_iter().chain(closures).for_each(|query| query.join().unwrap());
        // Sequential queries would take 20 seconds.
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        runtime::block_on(pool.close());
    });
}

#[test]
fn many_green_threads_insert_into_sqlite() {
    let _dog = Watchdog::new();
    runtime::block_on(async {
        let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
        sqlx::query("create table words (n integer, word text)").execute(&pool).await.unwrap();
        let inserts: Vec<_> = (0..100i64)
            .map(|n| {
                let pool = pool.clone();
                runtime::spawn(async move {
                    let insert =
                        sqlx::query("insert into words values (?, ?)").bind(n).bind(format!("word {n}"));
                    insert.execute(&pool).await.unwrap();
                })
            })
            .collect();
        for insert in inserts {
            insert.await.unwrap();
        }
        let count: i64 = sqlx::query_scalar("select count(*) from words").fetch_one(&pool).await.unwrap();
        assert_eq!(count, 100);
    });
}
