//! A relay on a table with a state per row, behind a network that breaks. Not an adoption, but it uses the same stage.

use postrider::Result;
use postrider::layout::RowLayout;
use postrider_testkit::eventually;
use postrider_testkit::proxy::{Fault, Proxy, Side};

use crate::adopt::server::{Driver, MariaDb, MySql, Postgres, Server};
use crate::adopt::stage::*;
use crate::recording_sink::RecordingSink;

/// Breaks the network once per fault while rows are delivered; `Fault::None` cuts open connections.
async fn survives<D: Driver>(stage: Option<Server<D>>, faults: &[Fault]) -> Result<()> {
    let Some(stage) = stage else { return Ok(()) };
    let layout = stage.layout();
    let proxy = Proxy::to(stage.port()).await.unwrap();
    let sink = RecordingSink::new(|_, _| None);
    let relay = relay(stage.rows_at(proxy.port()).await?, &sink).await?;
    let mut numbers = 0;
    for fault in faults {
        write_each(&stage, &stage.to_rows(), events(layout, numbers..numbers + 5)).await?;
        // Everything so far was delivered, so there are open connections to break.
        sink.wait_for((numbers + 5) * KEYS).await;
        // The fault hits the settle of delivered rows and the next claim.
        write_each(&stage, &stage.to_rows(), events(layout, numbers + 5..numbers + 10)).await?;
        proxy.break_connections(*fault).await;
        numbers += 10;
        let all = (numbers * KEYS) as i64;
        eventually("all is settled", async || Ok(states(&stage).await? == (0, all))).await?;
    }
    relay.shutdown().await?;
    for key in 0..KEYS {
        let mut next = 0;
        for number in sink.of_key(&format!("key{key}")) {
            assert!(number <= next, "key{key}: {number} came before {next}");
            next = next.max(number + 1);
        }
        assert_eq!(next, numbers as u64, "key{key} is complete");
    }
    Ok(())
}

const CUT: [Fault; 3] = [Fault::None; 3];
const LOST: [Fault; 3] = [Fault::LoseResponse; 3];

fn torn() -> [Fault; 5] {
    [1, 7, 40, 200, 600].map(|bytes| Fault::CutAfter(Side::Client, bytes))
}

/// One layout per database, each case a test.
macro_rules! behind_proxy {
    ($($module:ident: $stage:ident, $layout:ident;)+) => { $(
        mod $module {
            use super::*;

            #[tokio::test]
            async fn nothing_is_lost_when_connections_are_cut() -> Result<()> {
                survives($stage::new(RowLayout::$layout).await?, &CUT).await
            }

            #[tokio::test]
            async fn nothing_is_lost_when_the_response_to_a_commit_is_lost() -> Result<()> {
                survives($stage::new(RowLayout::$layout).await?, &LOST).await
            }

            #[tokio::test]
            async fn nothing_is_lost_when_a_request_is_cut_in_the_middle() -> Result<()> {
                survives($stage::new(RowLayout::$layout).await?, &torn()).await
            }
        }
    )+ };
}

behind_proxy! {
    outbox_events_on_postgres: Postgres, OutboxEvents;
    event_outbox_on_mysql: MySql, EventOutbox;
    outbox_events_on_mariadb: MariaDb, OutboxEvents;
}
