//! From a table into the layout `postrider`.

use std::time::Duration;

use postrider::adopt::AdoptionRun;
use postrider::layout::Ability;
use postrider::store::{Purge, Start};
use postrider::{Result, Timestamp};

use crate::adopt::stage::*;
use crate::test_layouts::TestLayout;

pub(crate) async fn undelivered_rows_move_in_order_and_a_relay_delivers_each_once(
    stage: &impl Stage,
) -> Result<()> {
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..2)).await?;
    delivered(stage.rows().await?, 2 * KEYS).await?;
    write_each(stage, &stage.to_rows(), events(stage.layout(), 2..8)).await?;
    let (counts, adopted) = adopt(&*stage.rows().await?, stage.to_log(), all()).await?;
    assert_eq!((counts.pending, counts.delivered, counts.undelivered()), (30, 10, 30));
    assert!(counts.oldest.is_some() && counts.oldest <= counts.newest, "{counts:?}");
    assert_eq!((adopted.copied, adopted.delivered_elsewhere), (30, 0));
    assert_eq!((adopted.counts.undelivered(), adopted.counts.oldest), (0, None));
    assert_eq!((states(stage).await?, in_log(stage).await?), ((0, 40), 30));
    in_order(&delivered(stage.log().await?, 30).await?, 2..8);
    Ok(())
}

pub(crate) async fn attempts_of_a_row_are_kept(stage: &impl Stage) -> Result<()> {
    stage.write(&stage.to_rows(), events(stage.layout(), 0..1)).await?;
    let (retrying, attempts) = (TestLayout::of(stage.layout()).retrying, stage.layout().spec().attempts);
    stage.run(&format!("UPDATE {{t}} SET status = '{retrying}', {attempts} = 2")).await?;
    stage.write(&stage.to_rows(), events(stage.layout(), 1..2)).await?;
    let (counts, _) = adopt(&*stage.rows().await?, stage.to_log(), all()).await?;
    assert_eq!((counts.pending, counts.retrying), (KEYS as u64, KEYS as u64));
    let left = ATTEMPTS_MAX - 2;
    let tried = format!("SELECT count(*) FROM {{events}} WHERE max_attempts = {left}");
    assert_eq!(stage.one(&tried).await?, KEYS as i64);
    // The limit of a row is kept; that of the outbox is not.
    let untried = match stage.layout().has(Ability::RowLimit) {
        true => "SELECT count(*) FROM {events} WHERE max_attempts = 5",
        false => "SELECT count(*) FROM {events} WHERE max_attempts IS NULL",
    };
    assert_eq!(stage.one(untried).await?, KEYS as i64);
    Ok(())
}

pub(crate) async fn rows_older_than_the_start_stay(stage: &impl Stage) -> Result<()> {
    stage.write(&stage.to_rows(), events(stage.layout(), 0..1)).await?;
    stage.run("UPDATE {t} SET created_at = '2001-02-03 04:05:06'").await?;
    stage.write(&stage.to_rows(), events(stage.layout(), 1..2)).await?;
    let of_2020 = Timestamp::from_micros(1_577_836_800_000_000);
    let (_, adopted) =
        adopt(&*stage.rows().await?, stage.to_log(), all().start(Start::Time(of_2020))).await?;
    assert_eq!((adopted.copied, adopted.counts.pending), (5, 5));
    assert_eq!((states(stage).await?, in_log(stage).await?), ((5, 5), 5));
    in_order(&delivered(stage.log().await?, 5).await?, 1..2);
    Ok(())
}

pub(crate) async fn a_row_that_is_committed_late_moves_too(stage: &impl Stage) -> Result<()> {
    let late = stage.write_late(event(stage.layout(), KEYS, 7)).await?;
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..4)).await?;
    let source = stage.rows().await?;
    let counts = source.counts(NAME).await?;
    let mut copying = AdoptionRun::begin(&*source, stage.to_log(), all(), &counts).await?;
    assert_eq!(copying.next_batch().await?, Some(7));
    late.await?;
    while copying.next_batch().await?.is_some() {}
    let adopted = copying.finish().await?;
    assert_eq!((adopted.copied, adopted.counts.undelivered()), (21, 0));
    let sink = delivered(stage.log().await?, 21).await?;
    in_order(&sink, 0..4);
    assert_eq!(sink.of_key(&format!("key{KEYS}")), [7]);
    Ok(())
}

pub(crate) async fn a_row_that_waits_for_a_retry_moves_before_those_behind_it(
    stage: &impl Stage,
) -> Result<()> {
    fail_one_key(stage, stage.rows().await?, &stage.to_rows(), "{notes}").await?;
    let (counts, adopted) = adopt(&*stage.rows().await?, stage.to_log(), all()).await?;
    assert_eq!((counts.retrying, counts.undelivered(), adopted.copied), (1, 3, 3), "{counts}");
    assert_eq!((stage.one("SELECT count(*) FROM {notes}").await?, states(stage).await?), (0, (0, 15)));
    let left = ATTEMPTS_MAX - 1;
    let tried = format!("SELECT count(*) FROM {{events}} WHERE max_attempts = {left}");
    assert_eq!(stage.one(&tried).await?, 1);
    let sink = delivered(stage.log().await?, 3).await?;
    assert_eq!(sink.of_key("key1"), [0, 1, 2]);
    Ok(())
}

/// Rows that were handed over are marked as delivered, but were not delivered from here.
pub(crate) async fn adopted_rows_are_not_deleted_by_retention(stage: &impl Stage) -> Result<()> {
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..2)).await?;
    let source = stage.rows().await?;
    source.note_deliveries();
    adopt(&*source, stage.to_log(), all()).await?;
    if stage.layout().has(Ability::Expiry) {
        stage.run("UPDATE {t} SET expires_at = '2020-01-01 00:00:00'").await?;
    }
    assert_eq!(source.purge(Purge::new(Duration::ZERO, 100)).await?.deleted, 0);
    assert_eq!(states(stage).await?, (0, 10), "all of them are there");
    Ok(())
}
