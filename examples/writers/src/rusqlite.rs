use postrider::Outbox;

pub(crate) fn place(database: &str, order: i64, cents: i64) -> crate::Result {
    let mut db = rusqlite::Connection::open(database)?;
    let tx = db.transaction()?;
    tx.execute("INSERT INTO orders (id, cents) VALUES (?, ?)", [order, cents])?;
    Outbox::new().write(&tx, crate::placed(order, cents))?;
    crate::check(cents)?;
    Ok(tx.commit()?)
}
