//! The network between an adoption and the server breaks, wherever that may be.

use std::sync::Arc;

use postrider::Result;
use postrider::adopt::{Copying, HandsOver};
use postrider::layout::RowLayout;
use postrider::store::Start;
use postrider_testkit::proxy::{Fault, Proxy, Side};

use crate::mysql::{OfMariaDb, OfMySql, Server};
use crate::postgres::Postgres;
use crate::stage::*;
use crate::stopped::{OF_LOG, OF_ROWS, run_out};

/// A stage on a server that can be reached by another port.
#[allow(async_fn_in_trait, reason = "only tests call it")]
pub(crate) trait OnServer: Stage {
    fn port(&self) -> u16;

    /// The store of the table.
    async fn rows_at(&self, port: u16) -> Result<Arc<dyn HandsOver>>;

    /// The store of the other outbox.
    async fn log_at(&self, port: u16) -> Result<Arc<dyn HandsOver>>;
}

/// Copies until the network breaks. Answers whether the server has committed a batch that nobody here knows of.
async fn breaks(
    stage: &impl OnServer,
    proxy: &Proxy,
    source: Arc<dyn HandsOver>,
    is_forth: bool,
    fault: Fault,
) -> Result<bool> {
    let adoption = postrider::adopt::Adoption { batch_events_max: 5, ..all() };
    let to = if is_forth { stage.to_log() } else { stage.to_rows() };
    let direct = if is_forth { stage.rows().await? } else { stage.log().await? };
    let counts = source.counts(NAME).await?;
    let mut copying = Copying::begin(&*source, to, adoption, &counts).await?;
    proxy.set(fault);
    while let Ok(Some(_)) = copying.next_batch().await {}
    let known = copying.copied();
    drop(copying);
    // Where a connection was given up, its server may still be at work; the lock on the subscription tells.
    run_out(stage, if is_forth { OF_ROWS } else { OF_LOG }).await?;
    let loaded = crate::refused::acquired(&*direct, "looker").await?;
    let moved = counts.undelivered() - direct.counts(NAME).await?.undelivered();
    direct.release(NAME, loaded.epoch, true).await?;
    proxy.set(Fault::None);
    assert!(moved == known || moved == known + 5, "{known} events are known to be moved, and {moved} are");
    Ok(moved > known)
}

async fn survives(stage: &impl OnServer, is_forth: bool) -> Result<()> {
    let proxy = Proxy::to(stage.port()).await.unwrap();
    let mut unknown = 0;
    // Every few bytes, so that each question and each answer of a batch is hit.
    for bytes in (1..600).step_by(23) {
        let source =
            if is_forth { stage.rows_at(proxy.port()).await? } else { stage.log_at(proxy.port()).await? };
        let fault = Fault::CutAfter(Side::Server, bytes);
        unknown += usize::from(breaks(stage, &proxy, source, is_forth, fault).await?);
    }
    assert!(unknown > 0, "no answer to a commit was lost");
    let (source, to) = match is_forth {
        true => (stage.rows().await?, stage.to_log()),
        false => (stage.log().await?, stage.to_rows()),
    };
    adopt(&*source, to, all()).await?;
    Ok(())
}

const ROUNDS: usize = 60;

async fn forth<S: OnServer>() -> Result<()> {
    let Some(stage) = S::new(RowLayout::OutboxEvents).await? else { return Ok(()) };
    stage.write(&stage.to_rows(), events(stage.layout(), 0..ROUNDS)).await?;
    survives(&stage, true).await?;
    in_order(&delivered(stage.log().await?, ROUNDS * KEYS).await?, 0..ROUNDS as u64);
    Ok(())
}

async fn back<S: OnServer>() -> Result<()> {
    let Some(stage) = S::new(RowLayout::OutboxEvents).await? else { return Ok(()) };
    stage.write(&stage.to_log(), events(stage.layout(), 0..ROUNDS)).await?;
    stage.log().await?.subscribe(NAME, Start::Beginning).await?;
    survives(&stage, false).await?;
    in_order(&delivered(stage.rows().await?, ROUNDS * KEYS).await?, 0..ROUNDS as u64);
    Ok(())
}

#[tokio::test]
async fn a_copy_that_is_cut_off_anywhere_moves_each_event_once_on_postgres() -> Result<()> {
    forth::<Postgres>().await
}

#[tokio::test]
async fn a_copy_that_is_cut_off_anywhere_moves_each_event_once_on_mysql() -> Result<()> {
    forth::<Server<OfMySql>>().await
}

#[tokio::test]
async fn a_copy_that_is_cut_off_anywhere_moves_each_event_once_on_mariadb() -> Result<()> {
    forth::<Server<OfMariaDb>>().await
}

#[tokio::test]
async fn a_copy_back_that_is_cut_off_anywhere_moves_each_event_once_on_postgres() -> Result<()> {
    back::<Postgres>().await
}

#[tokio::test]
async fn a_copy_back_that_is_cut_off_anywhere_moves_each_event_once_on_mysql() -> Result<()> {
    back::<Server<OfMySql>>().await
}

#[tokio::test]
async fn a_copy_back_that_is_cut_off_anywhere_moves_each_event_once_on_mariadb() -> Result<()> {
    back::<Server<OfMariaDb>>().await
}
