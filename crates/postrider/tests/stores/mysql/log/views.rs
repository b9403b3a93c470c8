//! The work that the views of the default layout cause.

use mysql_async::prelude::Queryable;
use postrider::store::mysql::MySqlStore;
use postrider::store::{CountBy, Start, Store};
use postrider::{Event, Result};

use super::case::{Case, ServerKind, case, failed};

const EVENTS: usize = 3_000;

/// Rows that this connection has read.
async fn rows_read(client: &mut mysql_async::Conn) -> Result<u64> {
    let status: Vec<(String, u64)> =
        client.query("SHOW SESSION STATUS LIKE 'Handler_read%'").await.map_err(failed)?;
    Ok(status.iter().map(|(_, rows)| rows).sum())
}

async fn filled<W: ServerKind>(case: &Case<W>) -> Result<()> {
    let store = case.store().await?;
    store.subscribe("mail", Start::Beginning).await?;
    let events: Vec<Event> = (0..EVENTS).map(|_| Event::new("order.placed", "{}")).collect();
    let mut client = case.another().await?;
    for part in events.chunks(500) {
        case.insert(&mut client, part).await?;
    }
    // Every other event is done: as many ranges as the ledger can have.
    let done: Vec<String> = (1..=EVENTS / 2).map(|n| (n * 2).to_string()).collect();
    case.run(&format!("UPDATE {{schema}}.subscriptions SET done = '0 {}'", done.join(" "))).await?;
    case.run("ANALYZE TABLE {schema}.events").await
}

case! {
    async fn the_views_read_each_event_a_few_times_however_many_ranges_are_done(case) {
        MySqlStore::create_views(&case.config).await?;
        filled(&case).await?;
        let mut client = case.another().await?;
        let before = rows_read(&mut client).await?;
        let sql = case.sql("SELECT COUNT(*) FROM {schema}.vw_outbox WHERE state = 'pending'");
        let pending: Option<usize> = client.query_first(sql).await.map_err(failed)?;
        let read = rows_read(&mut client).await? - before;
        assert_eq!(pending, Some(EVENTS / 2));
        assert!(read < 20 * EVENTS as u64, "{read} rows were read for {EVENTS} events");
    }
}

case! {
    async fn counting_by_type_finds_the_done_ranges(case) {
        filled(&case).await?;
        let counts = MySqlStore::count_events(&case.config, CountBy::Type, 10).await?;
        let [group] = counts.groups.as_slice() else { panic!("{counts:?}") };
        assert_eq!((group.total, group.pending, group.done), (3_000, 1_500, 1_500));
    }
}
