//! The writer that a store creates.

use postrider::Event;

use super::case::case;

case! {
    async fn the_writer_of_a_store_writes_into_its_schema(case) {
        let store = case.store().await?;
        store.outbox().write(&case.writer, Event::new("order.placed", "{}")).await?;
        assert_eq!(case.one::<i64>("SELECT count(*) FROM {schema}.events").await?, 1);
    }
}
