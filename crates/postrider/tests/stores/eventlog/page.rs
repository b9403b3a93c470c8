//! The statement that `docs/src/any-language.md` shows for programs in any language.

use postrider::Result;

use super::calls::Calls;
use super::{EventlogDatabase, cases, utc};
use crate::row_database::RowDatabase;

cases! {
    the_statement_of_the_page_for_any_language_writes_an_event,
}

const PAGE: &str = include_str!("../../../../../docs/src/any-language.md");

async fn the_statement_of_the_page_for_any_language_writes_an_event<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let section = PAGE.split_once("### Layout eventlog").unwrap().1;
    let sql = section.split_once("```sql\n").unwrap().1.split_once("```").unwrap().0;
    // Each case has a schema of its own.
    let sql = sql.replace("eventlog.events", "events");
    let sql = match D::NOW == "now()" {
        true => sql,
        false => {
            assert!(section.contains("the same with `UTC_TIMESTAMP(6)` for the times"));
            sql.replace("clock_timestamp() AT TIME ZONE 'UTC'", "UTC_TIMESTAMP(6)")
        }
    };
    log.run(&sql).await?;
    assert_eq!(log.one("SELECT count(*) FROM events WHERE NOT delivered").await?, "1");
    let young = format!("SELECT count(*) FROM events WHERE event_date > {} - interval '1' hour", utc::<D>());
    assert_eq!(log.one(&young).await?, "1");
    let calls = Calls::default();
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.wait_for("SELECT state FROM event_notifications", "SUCCEEDED").await?;
    relay.shutdown().await?;
    assert_eq!(calls.of("mail"), ["OrderPlaced 42 null"]);
    Ok(())
}
