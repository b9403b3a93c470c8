//! The order of rows, and the key of their messages.

use std::collections::HashMap;

use postrider::layout::{ColumnMap, MappedField, RowLayout, RowTable};
use postrider::relay::{Order, Policy, Relay, Subscription};
use postrider::store::postgres::PostgresRowStore;
use postrider::store::{RowExtras, Start};
use postrider::{Code, Ident, Result};

use super::case::{Case, on_every_layout};
use crate::recording_sink::RecordingSink;
use crate::relay_cases::{relay, relay_to};
use crate::test_layouts::TestLayout;

#[tokio::test]
async fn two_aggregate_types_with_one_id_are_ordered_separately_and_send_the_same_key() -> Result<()> {
    on_every_layout(async |case| {
        let layout = case.layout;
        let id = "5e0d2d3e-1f1c-4b66-9a3a-0f8d0b3f8f10";
        for kind in ["Order", "User"] {
            case.run(&TestLayout::of(layout).insert_of_aggregate(kind, id)).await?;
        }
        let events = crate::row_database::read(&case).await?;
        let keys: Vec<_> = events.iter().map(|stored| stored.event.ordering_key().unwrap()).collect();
        assert_eq!(keys, [format!("Order/{id}"), format!("User/{id}")], "{layout:?}");
        assert!(events.iter().all(|stored| stored.event.message_key() == Some(id)), "{layout:?}");
        Ok(())
    })
    .await
}

/// 40 keys, two rows each, all in one statement that the database fills with random ids.
#[tokio::test]
async fn rows_of_one_statement_arrive_in_its_order() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::Outbox).await?;
    let row = |key: usize, number: usize| {
        format!("('Order', gen_random_uuid(), 'placed', 'orders', 'key{key}', '{{\"n\": {number}}}')")
    };
    let rows: Vec<String> = (0..2).flat_map(|number| (0..40).map(move |key| row(key, number))).collect();
    case.run(&format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, topic, partition_key, payload) VALUES {}",
        rows.join(", ")
    ))
    .await?;
    let sink = RecordingSink::new(|_, _| None);
    let relay = relay(case.store().await?, &sink).await?;
    sink.wait_for(80).await;
    relay.shutdown().await?;
    let mut of_keys: HashMap<String, Vec<u64>> = HashMap::new();
    sink.accepted().into_iter().for_each(|(key, number)| of_keys.entry(key).or_default().push(number));
    assert!(of_keys.len() == 40 && of_keys.values().all(|numbers| *numbers == [0, 1]), "{of_keys:?}");
    Ok(())
}

#[tokio::test]
async fn a_relay_refuses_an_order_that_no_column_provides() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let mut case = Case::without_tables(RowLayout::Custom).await?;
    case.run(
        "CREATE TABLE outboxevent (id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL,
                                   type text NOT NULL, payload jsonb, seq bigserial);
         INSERT INTO outboxevent VALUES (gen_random_uuid(), 'Order', '7', 'placed', '{\"n\": 1}')",
    )
    .await?;
    let schema = Ident::new(&case.schema)?;
    let table = |map| -> Result<RowTable> {
        Ok(RowTable::custom(Ident::new("outboxevent")?, map)?.in_schema(schema.clone()))
    };
    let (unordered, ordered) =
        (table(ColumnMap::debezium())?, table(ColumnMap::debezium().with(MappedField::Order, "seq")?)?);
    let migrated = PostgresRowStore::migrate(&case.config, &unordered, RowExtras::default()).await?;
    assert!(
        migrated.differences.iter().any(|reported| reported.what.contains("no column defines the order")),
        "{migrated:?}"
    );
    case.table = unordered;
    let sink = RecordingSink::new(|_, _| None);
    let refused = relay_to(case.store().await?, sink.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::OrderUndefined);
    assert!(refused.report().contains("order = \"none\""), "{refused}");
    let policy = Policy::default().order(Order::None);
    let subscription = Subscription::new("mail", sink.clone()).start(Start::Beginning).policy(policy);
    let relay = Relay::builder().outbox(case.store().await?, [subscription]).spawn().await?;
    sink.wait_for(1).await;
    assert_eq!(sink.accepted(), [("7".to_owned(), 1)], "Debezium's key: the id of the aggregate");
    relay.shutdown().await?;
    case.table = ordered;
    relay_to(case.store().await?, sink).await?.shutdown().await.map(|_| ())
}
