use postrider::Outbox;
use sqlx::{Connection, MySqlConnection};

pub(crate) async fn place(database: &str, order: i64, cents: i64) -> crate::Result {
    let mut db = MySqlConnection::connect(database).await?;
    let mut tx = db.begin().await?;
    let insert = sqlx::query("INSERT INTO orders (id, cents) VALUES (?, ?)");
    insert.bind(order).bind(cents).execute(&mut *tx).await?;
    Outbox::new().write(&mut tx, crate::placed(order, cents)).await?;
    crate::check(cents)?;
    Ok(tx.commit().await?)
}
