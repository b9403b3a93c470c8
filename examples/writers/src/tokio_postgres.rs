use postrider::Outbox;
use tokio_postgres::NoTls;

pub(crate) async fn place(database: &str, order: i64, cents: i64) -> crate::Result {
    let (mut db, connection) = tokio_postgres::connect(database, NoTls).await?;
    tokio::spawn(connection);
    let tx = db.transaction().await?;
    tx.execute("INSERT INTO orders (id, cents) VALUES ($1, $2)", &[&order, &cents]).await?;
    Outbox::new().write(&tx, crate::placed(order, cents)).await?;
    crate::check(cents)?;
    Ok(tx.commit().await?)
}
