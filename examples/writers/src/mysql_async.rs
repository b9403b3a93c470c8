use mysql_async::prelude::Queryable;
use mysql_async::{Conn, TxOpts};
use postrider::Outbox;

pub(crate) async fn place(database: &str, order: i64, cents: i64) -> crate::Result {
    let mut db = Conn::from_url(database).await?;
    let mut tx = db.start_transaction(TxOpts::default()).await?;
    tx.exec_drop("INSERT INTO orders (id, cents) VALUES (?, ?)", (order, cents)).await?;
    Outbox::new().write(&mut tx, crate::placed(order, cents)).await?;
    crate::check(cents)?;
    tx.commit().await?;
    Ok(db.disconnect().await?)
}
