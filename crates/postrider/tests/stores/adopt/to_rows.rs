//! From the layout `postrider` into a table.

use postrider::Result;
use postrider::layout::EventField;
use postrider::store::Start;

use crate::adopt::stage::*;

pub(crate) async fn undelivered_events_move_in_order_and_a_relay_delivers_each_once_from_the_table(
    stage: &impl Stage,
) -> Result<()> {
    let log = stage.log().await?;
    log.subscribe("other", Start::Beginning).await?;
    write_each(stage, &stage.to_log(), events(stage.layout(), 0..2)).await?;
    delivered(stage.log().await?, 2 * KEYS).await?;
    write_each(stage, &stage.to_log(), events(stage.layout(), 2..8)).await?;
    let (counts, adopted) = adopt(&*stage.log().await?, stage.to_rows(), all()).await?;
    assert_eq!((counts.pending, counts.delivered, counts.undelivered()), (30, 10, 30));
    assert!(counts.oldest.is_some() && counts.oldest <= counts.newest, "{counts:?}");
    assert_eq!((adopted.copied, adopted.delivered_elsewhere, adopted.counts.undelivered()), (30, 0, 0));
    assert_eq!((states(stage).await?, in_log(stage).await?), ((30, 0), 40));
    in_order(&delivered(stage.rows().await?, 30).await?, 2..8);
    assert_eq!(log.counts("other").await?.undelivered(), 40, "another subscription is not touched");
    Ok(())
}

pub(crate) async fn parked_events_move_with_their_attempts(stage: &impl Stage) -> Result<()> {
    fail_one_key(stage, stage.log().await?, &stage.to_log(), "{parked}").await?;
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
    // If the id of the event is the id of the row, the row that it was handed over from is replaced.
    let handed_over = if stage.layout().spec().has_column(EventField::Id) { 0 } else { 10 };
    assert_eq!(states(stage).await?, (10, handed_over));
    in_order(&delivered(stage.rows().await?, 10).await?, 0..2);
    Ok(())
}
