use postrider::Outbox;
use sea_orm::{ConnectionTrait, Database, Statement, TransactionTrait};

pub(crate) async fn place(database: &str, order: i64, cents: i64) -> crate::Result {
    let db = Database::connect(database).await?;
    let tx = db.begin().await?;
    let insert = format!("INSERT INTO orders (id, cents) VALUES ({order}, {cents})");
    tx.execute_raw(Statement::from_string(db.get_database_backend(), insert)).await?;
    Outbox::new().write(&tx, crate::placed(order, cents)).await?;
    crate::check(cents)?;
    tx.commit().await?;
    Ok(db.close().await?)
}
