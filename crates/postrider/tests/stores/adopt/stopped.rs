//! Adoptions that are interrupted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use postrider::adopt::{AdoptSource, AdoptionRun, Moved};
use postrider::store::Start;
use postrider::{Code, Outbox, Result};

use crate::adopt::refused::{acquired, packed};
use crate::adopt::stage::*;

/// Makes the leases of a kind expire.
pub(crate) async fn run_out(stage: &impl Stage, leases: &str) -> Result<()> {
    stage.run(&format!("UPDATE {leases} SET expires_at = {{never}}")).await
}

pub(crate) const OF_ROWS: &str = "{leases of rows}";
pub(crate) const OF_LOG: &str = "{leases of log}";

async fn goes_on(stage: &impl Stage, source: Arc<dyn AdoptSource>, to: Outbox, leases: &str) -> Result<()> {
    let counts = source.counts(NAME).await?;
    let mut copying = AdoptionRun::begin(&*source, to.clone(), all(), &counts).await?;
    assert_eq!(copying.next_batch().await?, Some(7));
    assert_eq!(copying.next_batch().await?, Some(7));
    drop(copying);
    let error = adopt(&*source, to.clone(), all()).await.expect_err("the lease is not over");
    assert_eq!(error.code(), Code::LeaseHeld);
    run_out(stage, leases).await?;
    let (counts, adopted) = adopt(&*source, to, all()).await?;
    assert_eq!((counts.undelivered(), adopted.copied), (16, 16));
    Ok(())
}

pub(crate) async fn a_copy_that_stops_between_batches_resumes_where_it_stopped(
    stage: &impl Stage,
) -> Result<()> {
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..6)).await?;
    goes_on(stage, stage.rows().await?, stage.to_log(), OF_ROWS).await?;
    in_order(&delivered(stage.log().await?, 30).await?, 0..6);
    Ok(())
}

pub(crate) async fn a_copy_back_that_stops_between_batches_resumes_where_it_stopped(
    stage: &impl Stage,
) -> Result<()> {
    write_each(stage, &stage.to_log(), events(stage.layout(), 0..6)).await?;
    let source = stage.log().await?;
    source.subscribe(NAME, Start::Beginning).await?;
    goes_on(stage, source, stage.to_rows(), OF_LOG).await?;
    in_order(&delivered(stage.rows().await?, 30).await?, 0..6);
    Ok(())
}

/// A future that is dropped after this many polls.
struct Cut<F> {
    inner: Pin<Box<F>>,
    polls: usize,
}

impl<F: Future> Future for Cut<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        self.inner.as_mut().poll(context).map(Some)
    }
}

/// Begins repeatedly, each time with a new source, and is dropped a little later each time.
pub(crate) async fn is_dropped_anywhere(
    stage: &impl Stage,
    leases: &str,
    to: Outbox,
    source: impl AsyncFn() -> Result<Arc<dyn AdoptSource>>,
) -> Result<()> {
    for polls in 1..14 {
        let source = source().await?;
        let counts = source.counts(NAME).await?;
        let mut copying = AdoptionRun::begin(&*source, to.clone(), all(), &counts).await?;
        let whole = async { while copying.next_batch().await.expect("nothing interferes").is_some() {} };
        Cut { inner: Box::pin(whole), polls }.await;
        drop(copying);
        // Statements that a thread or a server received before may still run; taking the lease waits for them.
        run_out(stage, leases).await?;
    }
    adopt(&*source().await?, to, all()).await?;
    Ok(())
}

pub(crate) async fn a_copy_that_is_dropped_at_any_point_loses_nothing_and_copies_nothing_twice(
    stage: &impl Stage,
) -> Result<()> {
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..16)).await?;
    is_dropped_anywhere(stage, OF_ROWS, stage.to_log(), async || stage.rows().await).await?;
    assert_eq!((states(stage).await?, in_log(stage).await?), ((0, 80), 80));
    in_order(&delivered(stage.log().await?, 80).await?, 0..16);
    Ok(())
}

pub(crate) async fn a_copy_back_that_is_dropped_at_any_point_loses_nothing_and_copies_nothing_twice(
    stage: &impl Stage,
) -> Result<()> {
    write_each(stage, &stage.to_log(), events(stage.layout(), 0..16)).await?;
    stage.log().await?.subscribe(NAME, Start::Beginning).await?;
    is_dropped_anywhere(stage, OF_LOG, stage.to_rows(), async || stage.log().await).await?;
    assert_eq!(states(stage).await?, (80, 0));
    in_order(&delivered(stage.rows().await?, 80).await?, 0..16);
    Ok(())
}

pub(crate) async fn a_batch_that_fails_is_neither_copied_nor_settled(stage: &impl Stage) -> Result<()> {
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..4)).await?;
    let source = stage.rows().await?;
    let counts = source.counts(NAME).await?;
    let mut copying = AdoptionRun::begin(&*source, stage.to_log(), all(), &counts).await?;
    assert_eq!(copying.next_batch().await?, Some(7));
    stage.hide_log(true).await?;
    let error = copying.next_batch().await.expect_err("there is no table to write to");
    assert!(error.report().contains("7 events were copied before"), "{error}");
    stage.hide_log(false).await?;
    copying.release().await?;
    assert_eq!((states(stage).await?, in_log(stage).await?), ((13, 7), 7));
    let (_, adopted) = adopt(&*source, stage.to_log(), all()).await?;
    assert_eq!(adopted.copied, 13);
    in_order(&delivered(stage.log().await?, 20).await?, 0..4);
    Ok(())
}

pub(crate) async fn a_copy_that_lost_its_lease_moves_nothing(stage: &impl Stage) -> Result<()> {
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..2)).await?;
    let source = stage.rows().await?;
    let counts = source.counts(NAME).await?;
    let mut copying = AdoptionRun::begin(&*source, stage.to_log(), all(), &counts).await?;
    run_out(stage, OF_ROWS).await?;
    let other = stage.rows().await?;
    let loaded = acquired(&*other, "other").await?;
    let parcel = packed(&*other, &loaded, stage.to_log()).await?;
    let error = copying.next_batch().await.expect_err("the lease is another's");
    assert_eq!(error.code(), Code::LeaseHeld);
    // The other one then loses it as well, after it has read its batch.
    run_out(stage, OF_ROWS).await?;
    acquired(&*source, "third").await?;
    assert_eq!(other.move_batch(parcel).await?, Moved::Fenced);
    assert_eq!((states(stage).await?, in_log(stage).await?), ((10, 0), 0));
    Ok(())
}
