//! From the layout `postrider` into a table.

use std::time::Duration;

use postrider::Result;
use postrider::layout::RowLayout;
use postrider::relay::{Policy, Relay, Retention, Subscription};
use postrider::sink::{Failure, Outcome};
use postrider::store::{Start, Store};

use crate::sink::{LONG, Taker};
use crate::stage::*;

pub(crate) async fn undelivered_events_move_in_order_and_a_relay_delivers_each_once_from_the_table(
    stage: &impl Stage,
) -> Result<()> {
    write_each(stage, &stage.to_log(), events(stage.layout(), 0..2)).await?;
    delivered(stage.log().await?, 2 * KEYS).await?;
    write_each(stage, &stage.to_log(), events(stage.layout(), 2..8)).await?;
    let (counts, adopted) = adopt(&*stage.log().await?, stage.to_rows(), all()).await?;
    assert_eq!((counts.pending, counts.delivered, counts.undelivered()), (30, 10, 30));
    assert!(counts.oldest.is_some() && counts.oldest <= counts.newest, "{counts:?}");
    assert_eq!((adopted.copied, adopted.strangers, adopted.counts.undelivered()), (30, 0, 0));
    assert_eq!((states(stage).await?, in_log(stage).await?), ((30, 0), 40));
    in_order(&delivered(stage.rows().await?, 30).await?, 2..8);
    Ok(())
}

pub(crate) async fn what_was_parked_moves_with_its_tries(stage: &impl Stage) -> Result<()> {
    stage.write(&stage.to_log(), events(stage.layout(), 0..3)).await?;
    let sink = Taker::new(|key, _| key.ends_with("key1").then(|| Outcome::Failed(Failure::new("not today"))));
    let policy = Policy {
        backoff_min: Duration::from_secs(3_600),
        backoff_max: Duration::from_secs(3_600),
        ..Policy::default()
    };
    let store: std::sync::Arc<dyn Store> = stage.log().await?;
    let subscription = Subscription::new(NAME, sink.clone()).start(Start::Beginning).policy(policy);
    let relay = Relay::builder().outbox_keeping(store, [subscription], Retention::FOREVER).spawn().await?;
    sink.wait_for(3 * (KEYS - 1)).await;
    let parked = "SELECT count(*) FROM {parked} WHERE state = 'retry' AND attempts = 1";
    let waiting = async {
        while stage.one(parked).await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("it is parked");
    relay.shutdown().await?;
    let (counts, adopted) = adopt(&*stage.log().await?, stage.to_rows(), all()).await?;
    assert_eq!((counts.retrying, counts.undelivered(), adopted.copied), (1, 3, 3), "{counts}");
    assert_eq!(stage.one("SELECT count(*) FROM {parked}").await?, 0);
    let attempts = words(stage.layout()).attempts;
    let tried = format!("SELECT count(*) FROM {{t}} WHERE {attempts} = 1");
    assert_eq!((stage.one(&tried).await?, states(stage).await?), (1, (3, 0)));
    let sink = delivered(stage.rows().await?, 3).await?;
    assert_eq!(sink.of_key("key1"), [0, 1, 2]);
    Ok(())
}

pub(crate) async fn an_event_that_came_from_the_table_goes_back_into_it(stage: &impl Stage) -> Result<()> {
    stage.log().await?.subscribe(NAME, Start::Now).await?;
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..2)).await?;
    adopt(&*stage.rows().await?, stage.to_log(), all()).await?;
    let (_, adopted) = adopt(&*stage.log().await?, stage.to_rows(), all()).await?;
    assert_eq!(adopted.copied, 10);
    // Where the event's id is the row's, the row that it was handed over from makes way for it.
    let handed_over = if stage.layout() == RowLayout::OutboxEvents { 10 } else { 0 };
    assert_eq!(states(stage).await?, (10, handed_over));
    in_order(&delivered(stage.rows().await?, 10).await?, 0..2);
    Ok(())
}
