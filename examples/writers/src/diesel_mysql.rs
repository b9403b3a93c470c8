use diesel::sql_types::BigInt;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, RunQueryDsl};
use postrider::Outbox;

pub(crate) async fn place(database: &str, order: i64, cents: i64) -> crate::Result {
    let mut db = AsyncMysqlConnection::establish(database).await?;
    db.transaction(async |tx| {
        let insert = diesel::sql_query("INSERT INTO orders (id, cents) VALUES (?, ?)");
        insert.bind::<BigInt, _>(order).bind::<BigInt, _>(cents).execute(tx).await?;
        Outbox::new().write(tx, crate::placed(order, cents)).await?;
        crate::check(cents)
    })
    .await
}
