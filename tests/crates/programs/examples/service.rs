//! A JSON web service: books in PostgreSQL, a Redis cache in front of it, a pool of connections, and an end
//! that breaks no reply. Each connection has a green thread of its own. SIGTERM or SIGINT ends the service.
//!
//! ```sh
//! export DATABASE_URL=postgres://postgres@127.0.0.1/postgres REDIS_URL=redis://127.0.0.1/
//! cargo run --example service -- 127.0.0.1:8086
//! curl -i -H 'Content-Type: application/json' -d '{"title": "Emma", "year": 1815}' http://127.0.0.1:8086/books
//! curl -i http://127.0.0.1:8086/books/1
//! ```
//!
//! Needs the features `hyper` and `tokio` of the runtime, and the crates `axum`, `deadpool-postgres`, `hyper`
//! (http1, server), `hyper-util` (service), `redis` (connection-manager, tokio-comp), `serde` (derive),
//! `serde_json` and `tokio-postgres`.

use std::env;
use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Json, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use deadpool_postgres::{Manager, Pool, PoolError, Runtime};
use hyper::server::conn::http1;
use hyper_util::service::TowerToHyperService;
use redis::AsyncCommands;
use redis::aio::ConnectionManager;
use runtime::hyper::Timer;
use runtime::net::{Server, TcpListener, TcpStream};
use runtime::signal::{SIGINT, SIGTERM, notify};
use serde::{Deserialize, Serialize};
use tokio_postgres::{NoTls, Row};

/// The most connections of clients, and the most connections to PostgreSQL.
const CLIENTS: usize = 1000;
const QUERIES: usize = 16;
/// How long a request waits for a connection to PostgreSQL.
const WAIT: Duration = Duration::from_secs(5);
/// The most bytes of a request's body.
const BODY: usize = 16 * 1024;
/// How long the cache keeps a book. A book that changes while it goes into the cache is old there for this
/// time.
const CACHED_SECS: u64 = 60;
/// How long the replies may last after a signal.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone)]
struct App {
    books: Pool,
    cache: ConnectionManager,
}

#[derive(Serialize)]
struct Book {
    id: i64,
    title: String,
    year: i32,
}

#[derive(Deserialize)]
struct NewBook {
    title: String,
    year: i32,
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    runtime::Builder::new().tokio(true).build_global()?;
    runtime::block_on(|| {
        let addr = env::args().nth(1).unwrap_or("127.0.0.1:8086".into());
        let app = runtime::block_on(connect())?;
        let books = app.books.clone();
        let routes = Router::new()
            .route("/books", post(add))
            .route("/books/{id}", get(find).delete(remove))
            .layer(DefaultBodyLimit::max(BODY))
            .with_state(app);

        let end = notify(&[SIGINT, SIGTERM])?;
        let listener = TcpListener::bind(addr)?;
        println!("serving on {}", listener.local_addr()?);
        let server = Server::builder()
            .max_connections(CLIENTS)
            .start(listener, move |stream| serve(stream, routes.clone()))?;
        end.recv()?;
        // Idle connections end at once, and busy ones finish their replies.
        println!("{} connections were cancelled", server.shutdown(PATIENCE));
        books.close();
        Ok(())
    })
}

/// Connects to both stores, and makes the table.
async fn connect() -> Result<App, Box<dyn Error + Send + Sync>> {
    let mut config: tokio_postgres::Config = env::var("DATABASE_URL")?.parse()?;
    config.options("-c statement_timeout=5s");
    let books = Pool::builder(Manager::new(config, NoTls))
        .max_size(QUERIES)
        .wait_timeout(Some(WAIT))
        .create_timeout(Some(WAIT))
        .runtime(Runtime::Tokio1)
        .build()?;
    let table = "create table if not exists books (id bigserial primary key, title text not null, year integer not null)";
    books.get().await?.batch_execute(table).await?;
    // The manager connects again when a connection is lost.
    let cache = ConnectionManager::new(redis::Client::open(env::var("REDIS_URL")?)?).await?;
    Ok(App { books, cache })
}

/// Serves a connection to its end.
fn serve(stream: TcpStream, routes: Router) {
    let mut http = http1::Builder::new();
    // A server that ends shuts the reading half. A request that has come is answered all the same.
    http.half_close(true).timer(Timer).header_read_timeout(Duration::from_secs(30));
    let connection = http.serve_connection(stream, TowerToHyperService::new(routes));
    if let Err(error) = runtime::block_on(connection) {
        eprintln!("connection ended with an error: {error}");
    }
}

async fn add(State(app): State<App>, Json(new): Json<NewBook>) -> Result<(StatusCode, Json<Book>), Failure> {
    if new.title.is_empty() || new.title.len() > 200 {
        return Err(Failure(StatusCode::UNPROCESSABLE_ENTITY, "a title has 1 to 200 bytes"));
    }
    let books = app.books.get().await?;
    let insert = books.prepare_cached("insert into books (title, year) values ($1, $2) returning *").await?;
    let row = books.query_one(&insert, &[&new.title, &new.year]).await?;
    Ok((StatusCode::CREATED, Json(book(&row))))
}

async fn find(State(mut app): State<App>, Path(id): Path<i64>) -> Result<Response, Failure> {
    let json = [(header::CONTENT_TYPE, "application/json")];
    // A cache that fails makes the service slower, but does not end it.
    let cached: Option<String> = app.cache.get(key(id)).await.unwrap_or_default();
    if let Some(text) = cached {
        return Ok((json, text).into_response());
    }
    let books = app.books.get().await?;
    let select = books.prepare_cached("select * from books where id = $1").await?;
    let row = books.query_opt(&select, &[&id]).await?;
    // Other requests may use the connection while this one writes to the cache.
    drop(books);
    let row = row.ok_or(Failure(StatusCode::NOT_FOUND, "there is no such book"))?;
    let text = serde_json::to_string(&book(&row)).expect("a book has only text and numbers");
    let _: Result<(), _> = app.cache.set_ex(key(id), &text, CACHED_SECS).await;
    Ok((json, text).into_response())
}

async fn remove(State(mut app): State<App>, Path(id): Path<i64>) -> Result<StatusCode, Failure> {
    let removed = app.books.get().await?.execute("delete from books where id = $1", &[&id]).await?;
    let _: Result<(), _> = app.cache.del(key(id)).await;
    Ok(if removed == 0 { StatusCode::NOT_FOUND } else { StatusCode::NO_CONTENT })
}

fn book(row: &Row) -> Book {
    Book { id: row.get("id"), title: row.get("title"), year: row.get("year") }
}

fn key(id: i64) -> String {
    format!("book:{id}")
}

/// What a client gets instead of a reply. The cause is for the log only.
struct Failure(StatusCode, &'static str);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(serde_json::json!({ "error": self.1 }))).into_response()
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        eprintln!("no connection to PostgreSQL: {error}");
        Failure(StatusCode::SERVICE_UNAVAILABLE, "the service is busy: try again later")
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        eprintln!("query failed: {error}");
        Failure(StatusCode::INTERNAL_SERVER_ERROR, "the service has failed")
    }
}
