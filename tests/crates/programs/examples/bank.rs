//! axum and sqlx, as their own documentation uses them: accounts in PostgreSQL, and transfers in
//! transactions. Only `main` names the runtime. SIGTERM or SIGINT ends the service.
//!
//! ```sh
//! export DATABASE_URL=postgres://postgres@127.0.0.1/postgres
//! cargo run --example bank -- 127.0.0.1:8087
//! curl -X PUT http://127.0.0.1:8087/accounts/ann/100
//! curl -X PUT http://127.0.0.1:8087/accounts/bob/0
//! curl -i -H 'Content-Type: application/json' -d '{"from": "ann", "to": "bob", "amount": 30}' http://127.0.0.1:8087/transfers
//! curl http://127.0.0.1:8087/accounts
//! ```
//!
//! Needs the feature `tokio` of the runtime, and the crates `axum`, `serde` (derive), `sqlx` (macros,
//! postgres, runtime-tokio) and `tokio` (full).

use std::env;
use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post, put};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Serialize, sqlx::FromRow)]
struct Account {
    owner: String,
    balance: i64,
}

#[derive(Deserialize)]
struct Transfer {
    from: String,
    to: String,
    amount: i64,
}

type Failure = (StatusCode, String);

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    runtime::Builder::new().tokio(true).build_global()?;
    runtime::block_on(serve())
}

async fn serve() -> Result<(), Box<dyn Error + Send + Sync>> {
    let pool = PgPoolOptions::new()
        .max_connections(16)
        .acquire_timeout(Duration::from_secs(5))
        .connect(&env::var("DATABASE_URL")?)
        .await?;
    let table = "create table if not exists accounts (owner text primary key, balance bigint not null check (balance >= 0))";
    sqlx::query(table).execute(&pool).await?;
    let routes = Router::new()
        .route("/accounts", get(list))
        .route("/accounts/{owner}/{balance}", put(open))
        .route("/transfers", post(transfer))
        .with_state(pool.clone());

    let end = end()?;
    let addr = env::args().nth(1).unwrap_or("127.0.0.1:8087".into());
    let listener = tokio::net::TcpListener::bind(addr).await?;
    println!("serving on {}", listener.local_addr()?);
    // axum accepts no further connection after a signal, and waits for the replies.
    axum::serve(listener, routes).with_graceful_shutdown(end).await?;
    pool.close().await;
    Ok(())
}

/// Returns a future that waits for a signal.
fn end() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn list(State(pool): State<PgPool>) -> Result<Json<Vec<Account>>, Failure> {
    let accounts = sqlx::query_as("select owner, balance from accounts order by owner limit 1000");
    Ok(Json(accounts.fetch_all(&pool).await.map_err(failed)?))
}

async fn open(
    State(pool): State<PgPool>,
    Path((owner, balance)): Path<(String, i64)>,
) -> Result<StatusCode, Failure> {
    let insert =
        sqlx::query("insert into accounts values ($1, $2) on conflict do nothing").bind(owner).bind(balance);
    match insert.execute(&pool).await.map_err(failed)?.rows_affected() {
        0 => Err((StatusCode::CONFLICT, "there is such an account".into())),
        _ => Ok(StatusCode::CREATED),
    }
}

async fn transfer(State(pool): State<PgPool>, Json(order): Json<Transfer>) -> Result<StatusCode, Failure> {
    let refused = |why: &str| Err((StatusCode::UNPROCESSABLE_ENTITY, why.to_string()));
    if order.amount <= 0 || order.from == order.to {
        return refused("a transfer has an amount and two accounts");
    }
    // A transaction that is dropped is rolled back.
    let mut transaction = pool.begin().await.map_err(failed)?;
    // All transfers lock accounts in the same order, so no two wait for each other.
    let lock = sqlx::query("select 1 from accounts where owner in ($1, $2) order by owner for update");
    let known = lock.bind(&order.from).bind(&order.to).fetch_all(&mut *transaction).await.map_err(failed)?;
    if known.len() < 2 {
        return refused("there is no such account");
    }
    let take = sqlx::query("update accounts set balance = balance - $2 where owner = $1 and balance >= $2");
    let take = take.bind(&order.from).bind(order.amount).execute(&mut *transaction).await.map_err(failed)?;
    if take.rows_affected() == 0 {
        return refused("the account has not enough");
    }
    let give = sqlx::query("update accounts set balance = balance + $2 where owner = $1");
    give.bind(&order.to).bind(order.amount).execute(&mut *transaction).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The cause is for the log only.
fn failed(error: sqlx::Error) -> Failure {
    eprintln!("query failed: {error}");
    match error {
        sqlx::Error::PoolTimedOut => (StatusCode::SERVICE_UNAVAILABLE, "try again later".into()),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "the service has failed".into()),
    }
}
