//! How fast a backlog goes, beside the row-by-row protocol of its seed. Run it by name; it takes a minute.

use std::time::{Duration, Instant};

use postrider::Result;
use postrider::layout::RowLayout;
use postrider::relay::{Policy, Relay, Retention, Subscription};
use postrider::store::Start;

use super::case::{Case, failed};
use super::relay::delivered;
use super::sink::Taker;

const BACKLOG: i64 = 100_000;
const BY_ROW: Duration = Duration::from_secs(4);

/// Fills the table with rows of distinct keys and a payload of 340 bytes.
async fn fill(case: &Case) -> Result<()> {
    let payload = "jsonb_build_object('n', n, 'text', repeat('x', 320))";
    let sql = match case.layout {
        RowLayout::EventOutbox => format!(
            "INSERT INTO event_outbox (event_key, entity_table, entity_pk, event_type, payload)
             SELECT gen_random_uuid(), 'orders', n, 'order.placed', {payload} FROM generate_series(1, {BACKLOG}) AS n"
        ),
        RowLayout::Outbox => format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, topic, payload)
             SELECT 'Order', gen_random_uuid(), 'order.placed', 'orders', {payload}
             FROM generate_series(1, {BACKLOG}) AS n"
        ),
        RowLayout::OutboxEvents => format!(
            "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
             SELECT 'Order', n, 'order.placed', {payload} FROM generate_series(1, {BACKLOG}) AS n"
        ),
    };
    case.run(&sql).await?;
    case.run("ANALYZE {t}").await
}

/// Rows per second of a publisher that takes one row after the other, as the seed's statements invite.
async fn row_by_row(case: &Case) -> Result<f64> {
    let (take, claim, mark) = match case.layout {
        RowLayout::EventOutbox => (
            "SELECT id::text, payload FROM event_outbox WHERE status IN ('pending', 'failed')
             AND (next_attempt_at IS NULL OR next_attempt_at <= now()) ORDER BY created_at LIMIT 100",
            None,
            "UPDATE event_outbox SET status = 'sent', processed_at = now() WHERE id = $1::text::bigint",
        ),
        RowLayout::Outbox => (
            "SELECT id::text, payload FROM outbox WHERE status = 'pending' ORDER BY created_at LIMIT 100",
            None,
            "UPDATE outbox SET status = 'published', published_at = now() WHERE id = $1::text::uuid",
        ),
        RowLayout::OutboxEvents => (
            "SELECT id::text, payload FROM outbox_events
             WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 3) ORDER BY created_at LIMIT 100",
            Some(
                "UPDATE outbox_events SET status = 'PUBLISHING', attempt_count = attempt_count + 1,
                 last_attempt_at = now() WHERE id = $1::text::bigint AND status IN ('PENDING', 'FAILED')",
            ),
            "UPDATE outbox_events SET status = 'PUBLISHED' WHERE id = $1::text::bigint",
        ),
    };
    let (begun, mut rows) = (Instant::now(), 0u32);
    let take = case.client.prepare(take).await.map_err(failed)?;
    let mark = case.client.prepare(mark).await.map_err(failed)?;
    while begun.elapsed() < BY_ROW {
        for row in case.client.query(&take, &[]).await.map_err(failed)? {
            let id: &str = row.get(0);
            if let Some(claim) = claim {
                case.client.execute(claim, &[&id]).await.map_err(failed)?;
            }
            case.client.execute(&mark, &[&id]).await.map_err(failed)?;
            rows += 1;
        }
    }
    Ok(f64::from(rows) / begun.elapsed().as_secs_f64())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures for a minute; run it by name, alone"]
async fn a_backlog_is_carried_away_many_times_faster_than_row_by_row() -> Result<()> {
    for layout in RowLayout::ALL {
        if !Case::is_available() {
            return Ok(());
        }
        let case = Case::new(layout).await?;
        fill(&case).await?;
        let by_row = row_by_row(&case).await?;
        let before = delivered(&case).await?;
        let sink = Taker::new(|_, _| None);
        let subscription =
            Subscription::new("mail", sink.clone()).start(Start::Beginning).policy(Policy::default());
        let begun = Instant::now();
        let relay = Relay::builder()
            .outbox_keeping(case.store().await?, [subscription], Retention::FOREVER)
            .spawn()
            .await?;
        sink.wait_for(usize::try_from(BACKLOG - before).unwrap()).await;
        relay.shutdown().await?;
        let rate = (BACKLOG - before) as f64 / begun.elapsed().as_secs_f64();
        assert_eq!(delivered(&case).await?, BACKLOG);
        assert_eq!(sink.taken().len() as i64, BACKLOG - before, "none twice");
        println!("{}: {rate:.0} rows/s, row by row {by_row:.0}: {:.0} times", layout.name(), rate / by_row);
    }
    Ok(())
}
