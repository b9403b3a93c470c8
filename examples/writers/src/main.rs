//! Writes an order and its event in one transaction, with every supported driver.
//!
//! `cargo run -p postrider-writers-example -- DRIVER DATABASE ORDER CENTS`: an order of 0 cents is rolled back after
//! both were written, so neither exists. The database has a table `orders (id, cents)` and an outbox.

mod diesel_mysql;
mod diesel_postgres;
mod mysql_async;
mod rusqlite;
mod sea_orm;
mod sqlx_mysql;
mod sqlx_postgres;
mod sqlx_sqlite;
mod tokio_postgres;

use postrider::Event;

type Result = std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn placed(order: i64, cents: i64) -> Event {
    Event::new("order.placed", format!(r#"{{"cents":{cents}}}"#)).with_aggregate("Order", order.to_string())
}

/// The check before the commit. A caller that returns its error drops the transaction, which rolls it back.
fn check(cents: i64) -> Result {
    if cents > 0 { Ok(()) } else { Err("an order of nothing".into()) }
}

#[tokio::main]
async fn main() -> Result {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [driver, database, order, cents] = arguments.as_slice() else {
        return Err("usage: writers DRIVER DATABASE ORDER CENTS".into());
    };
    let (order, cents) = (order.parse()?, cents.parse()?);
    match driver.as_str() {
        "diesel-mysql" => diesel_mysql::place(database, order, cents).await,
        "diesel-postgres" => diesel_postgres::place(database, order, cents).await,
        "mysql_async" => mysql_async::place(database, order, cents).await,
        "rusqlite" => rusqlite::place(database, order, cents),
        "sea-orm" => sea_orm::place(database, order, cents).await,
        "sqlx-mysql" => sqlx_mysql::place(database, order, cents).await,
        "sqlx-postgres" => sqlx_postgres::place(database, order, cents).await,
        "sqlx-sqlite" => sqlx_sqlite::place(database, order, cents).await,
        "tokio-postgres" => tokio_postgres::place(database, order, cents).await,
        other => Err(format!("there is no writer for {other}").into()),
    }
}
