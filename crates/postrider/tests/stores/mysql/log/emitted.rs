//! What the testkit reads from an outbox.

use mysql_async::TxOpts;
use postrider::Event;
use postrider_testkit::{Emitted, Expected};

use super::case::{case, failed};

fn order(number: usize) -> Event {
    Event::new("order.placed", format!("{{\"n\": {number}}}"))
        .with_aggregate("Order", "7")
        .with_namespace("shop")
}

case! {
    async fn emitted_events_are_those_that_are_committed(case) {
        let store = case.store().await?;
        let outbox = store.outbox();
        Emitted::committed(&store).await?.assert_none();
        let mut client = case.another().await?;
        // More positions than are read at a time, and positions without an event.
        let mut tx = client.start_transaction(TxOpts::default()).await.map_err(failed)?;
        for first in (0..1_200).step_by(100) {
            outbox.write_all(&mut tx, (first..first + 100).map(order)).await?;
        }
        Emitted::committed(&store).await?.assert_none();
        tx.rollback().await.map_err(failed)?;
        Emitted::committed(&store).await?.assert_none();
        for number in 0..3 {
            let mut tx = client.start_transaction(TxOpts::default()).await.map_err(failed)?;
            outbox.write(&mut tx, order(number)).await?;
            tx.commit().await.map_err(failed)?;
        }
        let before = Emitted::committed(&store).await?;
        before.assert(&[0, 1, 2].map(|number| Expected::of(order(number))));
        outbox.write(&mut client, order(3)).await?;
        Emitted::committed(&store).await?.since(&before).assert(&[Expected::of(order(3))]);
    }
}
