//! The fan-out of layout `eventlog` to a handler of all types reads few rows of a large table.

use postrider::Result;
use postrider::layout::RegisteredHandler;
use postrider::store::{Skipped, Start};

use crate::eventlog::{EventlogDatabase, on, utc};
use crate::mysql::row_state::case::RowCase;
use crate::row_database::RowDatabase;

/// Events in the table.
const EVENTS: u64 = 5_000;

async fn a_fan_out_to_all_types_reads_only_the_events_that_it_takes<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let (now, digits) = (
        utc::<D>(),
        "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)",
    );
    log.run(&format!(
        "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date,
                             model_id, model_type, event_type, payload, event_date, delivered)
         SELECT UUID(), 'shop', UUID(), 'PlaceOrder', '{{}}', {now}, {now}, n, 'Order', CONCAT('Type', n % 5), '{{}}',
                {now} - INTERVAL n SECOND, FALSE
         FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d AS n
               FROM {digits} AS a, {digits} AS b, {digits} AS c, {digits} AS e) AS numbers
         WHERE n < {EVENTS}"
    ))
    .await?;
    log.run("ANALYZE TABLE events").await?;
    let store = log.open().await?;
    let notifications = store.notifications().expect("the layout has notifications");
    notifications.register(&RegisteredHandler::new("audit"), Start::Beginning).await?;
    let before = rows_read(&log).await?;
    let fanned_out = notifications.fan_out(200, &Skipped::default()).await?;
    assert_eq!((fanned_out.events, fanned_out.notifications), (200, 200));
    let read = rows_read(&log).await? - before;
    // 200 per type, which are merged; each of the 200 again for its notification and for its mark; the steps of types.
    assert!((200..2_000).contains(&read), "{read} rows of {EVENTS} were read");
    store.close().await;
    Ok(())
}

/// How many rows of the table all connections have read so far.
async fn rows_read<D: RowDatabase>(log: &EventlogDatabase<D>) -> Result<u64> {
    let sql = "SELECT count_read FROM performance_schema.table_io_waits_summary_by_table
               WHERE object_schema = DATABASE() AND object_name = 'events'";
    Ok(log.one(sql).await?.parse().expect("a number"))
}

mod mysql {
    use super::*;
    use crate::mysql::log::case::MySql;

    #[tokio::test]
    async fn a_fan_out_to_all_types_reads_only_the_events_that_it_takes() -> Result<()> {
        on::<RowCase<MySql>, _>(super::a_fan_out_to_all_types_reads_only_the_events_that_it_takes).await
    }
}

mod mariadb {
    use super::*;
    use crate::mysql::log::case::MariaDb;

    #[tokio::test]
    async fn a_fan_out_to_all_types_reads_only_the_events_that_it_takes() -> Result<()> {
        on::<RowCase<MariaDb>, _>(super::a_fan_out_to_all_types_reads_only_the_events_that_it_takes).await
    }
}
