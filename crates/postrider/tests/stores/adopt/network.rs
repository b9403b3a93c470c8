//! The network between an adoption and the server breaks at any point.

use postrider::Result;
use postrider::layout::RowLayout;
use postrider::store::Start;
use postrider_testkit::proxy::{Fault, Proxy, Side};

use crate::adopt::mysql::MySqlDriver;
use crate::adopt::postgres::PostgresDriver;
use crate::adopt::refused::{acquired, packed};
use crate::adopt::server::{Driver, Server};
use crate::adopt::stage::*;
use crate::adopt::stopped::{OF_LOG, OF_ROWS, run_out};
use crate::mysql::log::case::{MariaDb, MySql};

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    ToLog,
    ToRows,
}

/// The result of one batch.
struct Round {
    /// Bytes that the server sent.
    answered: u64,
    /// The batch was committed, and its commit was not acknowledged.
    is_unknown: bool,
}

/// Moves the next event of each key. The connection breaks after this number of bytes from the server; events that did not
/// move are moved afterwards.
async fn round(
    stage: &Server<impl Driver>,
    proxy: &Proxy,
    direction: Direction,
    number: usize,
    bytes: Option<u64>,
) -> Result<Round> {
    let (here, there) = match direction {
        Direction::ToLog => (stage.to_rows(), stage.to_log()),
        Direction::ToRows => (stage.to_log(), stage.to_rows()),
    };
    stage.write(&here, events(stage.layout(), number..number + 1)).await?;
    let (source, direct) = match direction {
        Direction::ToLog => (stage.rows_at(proxy.port()).await?, stage.rows().await?),
        Direction::ToRows => (stage.log_at(proxy.port()).await?, stage.log().await?),
    };
    let loaded = acquired(&*source, "cut off").await?;
    let parcel = packed(&*source, &loaded, there.clone()).await?;
    assert_eq!(parcel.events.len(), KEYS);
    let before = proxy.stats();
    proxy.set(bytes.map_or(Fault::None, |bytes| Fault::CutAfter(Side::Server, bytes)));
    let handed_over = source.move_batch(parcel).await;
    let answered = proxy.stats().to_client - before.to_client;
    proxy.set(Fault::None);
    assert_eq!(handed_over.is_err(), proxy.stats().broken > before.broken, "{handed_over:?}");
    run_out(stage, if direction == Direction::ToLog { OF_ROWS } else { OF_LOG }).await?;
    // Taking the lease waits for statements that the server still runs.
    let loaded = acquired(&*direct, "observer").await?;
    let left = direct.counts(NAME).await?.undelivered();
    direct.release(NAME, loaded.epoch, true).await?;
    assert!(left == 0 || left == KEYS as u64 && handed_over.is_err(), "{left} of a batch are left");
    if left > 0 {
        adopt(&*direct, there, all()).await?;
    }
    Ok(Round { answered, is_unknown: handed_over.is_err() && left == 0 })
}

/// Bytes before the end of the responses at which the connection breaks: spread over the batch, and densely within the last
/// response, the one to the commit.
const BEFORE_END: [u64; 16] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 20, 40, 80, 160, 320, 640];

/// The first round is not interrupted; it measures the length of the responses.
const ROUNDS: usize = BEFORE_END.len() + 1;

async fn survives(stage: &Server<impl Driver>, direction: Direction) -> Result<()> {
    let proxy = Proxy::to(stage.port()).await.unwrap();
    let whole = round(stage, &proxy, direction, 0, None).await?.answered;
    let mut unknown = 0;
    for (before_end, number) in BEFORE_END.into_iter().zip(1..) {
        let bytes = whole.saturating_sub(before_end).max(1);
        unknown += usize::from(round(stage, &proxy, direction, number, Some(bytes)).await?.is_unknown);
    }
    assert!(unknown > 0, "no response to a commit was lost");
    Ok(())
}

async fn interrupted<D: Driver>(direction: Direction) -> Result<()> {
    let Some(stage) = Server::<D>::new(RowLayout::OutboxEvents).await? else { return Ok(()) };
    let (source, target) = match direction {
        Direction::ToLog => (stage.rows().await?, stage.log().await?),
        Direction::ToRows => (stage.log().await?, stage.rows().await?),
    };
    source.subscribe(NAME, Start::Beginning).await?;
    survives(&stage, direction).await?;
    in_order(&delivered(target, ROUNDS * KEYS).await?, 0..ROUNDS as u64);
    Ok(())
}

#[tokio::test]
async fn a_batch_that_is_interrupted_at_any_point_moves_each_event_once_on_postgres() -> Result<()> {
    interrupted::<PostgresDriver>(Direction::ToLog).await
}

#[tokio::test]
async fn a_batch_that_is_interrupted_at_any_point_moves_each_event_once_on_mysql() -> Result<()> {
    interrupted::<MySqlDriver<MySql>>(Direction::ToLog).await
}

#[tokio::test]
async fn a_batch_that_is_interrupted_at_any_point_moves_each_event_once_on_mariadb() -> Result<()> {
    interrupted::<MySqlDriver<MariaDb>>(Direction::ToLog).await
}

#[tokio::test]
async fn a_batch_back_that_is_interrupted_at_any_point_moves_each_event_once_on_postgres() -> Result<()> {
    interrupted::<PostgresDriver>(Direction::ToRows).await
}

#[tokio::test]
async fn a_batch_back_that_is_interrupted_at_any_point_moves_each_event_once_on_mysql() -> Result<()> {
    interrupted::<MySqlDriver<MySql>>(Direction::ToRows).await
}

#[tokio::test]
async fn a_batch_back_that_is_interrupted_at_any_point_moves_each_event_once_on_mariadb() -> Result<()> {
    interrupted::<MySqlDriver<MariaDb>>(Direction::ToRows).await
}
