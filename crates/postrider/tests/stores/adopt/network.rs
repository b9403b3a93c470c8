//! The network between an adoption and the server breaks, wherever that may be.

use std::sync::Arc;

use postrider::Result;
use postrider::adopt::AdoptSource;
use postrider::layout::RowLayout;
use postrider::store::Start;
use postrider_testkit::proxy::{Fault, Proxy, Side};

use crate::adopt::mysql::{OfMariaDb, OfMySql, Server};
use crate::adopt::postgres::Postgres;
use crate::adopt::refused::{acquired, packed};
use crate::adopt::stage::*;
use crate::adopt::stopped::{OF_LOG, OF_ROWS, run_out};

/// A stage on a server that can be reached by another port.
#[allow(async_fn_in_trait, reason = "only tests call it")]
pub(crate) trait OnServer: Stage {
    fn port(&self) -> u16;

    /// The store of the table.
    async fn rows_at(&self, port: u16) -> Result<Arc<dyn AdoptSource>>;

    /// The store of the other outbox.
    async fn log_at(&self, port: u16) -> Result<Arc<dyn AdoptSource>>;
}

/// What became of one batch.
struct Round {
    /// Bytes that the server answered with.
    answered: u64,
    /// It was committed, and nobody here knows.
    is_unknown: bool,
}

/// One event of each key, the next, is read and handed over; after so many bytes of the server's answers the connection
/// breaks. What did not move then moves after it.
async fn round(
    stage: &impl OnServer,
    proxy: &Proxy,
    is_forth: bool,
    number: usize,
    bytes: Option<u64>,
) -> Result<Round> {
    let (here, there) = match is_forth {
        true => (stage.to_rows(), stage.to_log()),
        false => (stage.to_log(), stage.to_rows()),
    };
    stage.write(&here, events(stage.layout(), number..number + 1)).await?;
    let (source, direct) = match is_forth {
        true => (stage.rows_at(proxy.port()).await?, stage.rows().await?),
        false => (stage.log_at(proxy.port()).await?, stage.log().await?),
    };
    let loaded = acquired(&*source, "cut off").await?;
    let parcel = packed(&*source, &loaded, there.clone()).await?;
    assert_eq!(parcel.events.len(), KEYS);
    let before = proxy.seen();
    proxy.set(bytes.map_or(Fault::None, |bytes| Fault::CutAfter(Side::Server, bytes)));
    let handed_over = source.move_batch(parcel).await;
    let answered = proxy.seen().to_client - before.to_client;
    proxy.set(Fault::None);
    assert_eq!(handed_over.is_err(), proxy.seen().broken > before.broken, "{handed_over:?}");
    run_out(stage, if is_forth { OF_ROWS } else { OF_LOG }).await?;
    // It waits for what the server is still at work on.
    let loaded = acquired(&*direct, "looker").await?;
    let left = direct.counts(NAME).await?.undelivered();
    direct.release(NAME, loaded.epoch, true).await?;
    assert!(left == 0 || left == KEYS as u64 && handed_over.is_err(), "{left} of a batch are left");
    if left > 0 {
        adopt(&*direct, there, all()).await?;
    }
    Ok(Round { answered, is_unknown: handed_over.is_err() && left == 0 })
}

/// Bytes before the end of the answers at which they break off: all over the batch, and often within the last answer, that
/// to the commit.
const BEFORE_END: [u64; 16] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 20, 40, 80, 160, 320, 640];

/// The first round is whole, and tells how long the answers are.
const ROUNDS: usize = BEFORE_END.len() + 1;

async fn survives(stage: &impl OnServer, is_forth: bool) -> Result<()> {
    let proxy = Proxy::to(stage.port()).await.unwrap();
    let whole = round(stage, &proxy, is_forth, 0, None).await?.answered;
    let mut unknown = 0;
    for (before_end, number) in BEFORE_END.into_iter().zip(1..) {
        let bytes = whole.saturating_sub(before_end).max(1);
        unknown += usize::from(round(stage, &proxy, is_forth, number, Some(bytes)).await?.is_unknown);
    }
    assert!(unknown > 0, "no answer to a commit was lost");
    Ok(())
}

async fn forth<S: OnServer>() -> Result<()> {
    let Some(stage) = S::new(RowLayout::OutboxEvents).await? else { return Ok(()) };
    stage.rows().await?.subscribe(NAME, Start::Beginning).await?;
    survives(&stage, true).await?;
    in_order(&delivered(stage.log().await?, ROUNDS * KEYS).await?, 0..ROUNDS as u64);
    Ok(())
}

async fn back<S: OnServer>() -> Result<()> {
    let Some(stage) = S::new(RowLayout::OutboxEvents).await? else { return Ok(()) };
    stage.log().await?.subscribe(NAME, Start::Beginning).await?;
    survives(&stage, false).await?;
    in_order(&delivered(stage.rows().await?, ROUNDS * KEYS).await?, 0..ROUNDS as u64);
    Ok(())
}

#[tokio::test]
async fn a_batch_that_is_cut_off_anywhere_moves_each_event_once_on_postgres() -> Result<()> {
    forth::<Postgres>().await
}

#[tokio::test]
async fn a_batch_that_is_cut_off_anywhere_moves_each_event_once_on_mysql() -> Result<()> {
    forth::<Server<OfMySql>>().await
}

#[tokio::test]
async fn a_batch_that_is_cut_off_anywhere_moves_each_event_once_on_mariadb() -> Result<()> {
    forth::<Server<OfMariaDb>>().await
}

#[tokio::test]
async fn a_batch_back_that_is_cut_off_anywhere_moves_each_event_once_on_postgres() -> Result<()> {
    back::<Postgres>().await
}

#[tokio::test]
async fn a_batch_back_that_is_cut_off_anywhere_moves_each_event_once_on_mysql() -> Result<()> {
    back::<Server<OfMySql>>().await
}

#[tokio::test]
async fn a_batch_back_that_is_cut_off_anywhere_moves_each_event_once_on_mariadb() -> Result<()> {
    back::<Server<OfMariaDb>>().await
}
