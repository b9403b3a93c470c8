//! Cleanup by hand and the list of the inbox, on MySQL and MariaDB.

use crate::cleanup::{LogCase, TIME, delivered_events_are_deleted_and_everything_else_stays, json};
use crate::inbox::{inserts, processed_messages_are_listed_page_by_page};
use crate::mysql::{Shop, rows};

#[test]
fn delivered_events_are_deleted_by_cleanup() {
    for shop in Shop::all() {
        let program = shop.program();
        assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
        delivered_events_are_deleted_and_everything_else_stays(&LogCase {
            program: &program,
            sql: &|sql| shop.sql(sql),
            number: &|sql| shop.number(sql),
            events: &format!("{}.events", shop.schema),
            times: ["'2019-12-31 23:59:59.999999'", "'2020-01-01 00:00:00'"],
        });
    }
}

#[test]
fn only_our_own_rows_are_deleted_by_cleanup() {
    for shop in Shop::all() {
        let program = rows(&shop, "outbox_events'\nretention = '9000d");
        assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
        let insert = |status: &str| {
            shop.sql(&format!(
                "INSERT INTO {{schema}}_shop.outbox_events (aggregate_type, aggregate_id, event_type, payload, status)
                 VALUES ('Order', '1', 'order.placed', '{{}}', '{status}')"
            ));
        };
        ["PUBLISHED", "PENDING", "PENDING"].into_iter().for_each(insert);
        let drained = program.run(&["relay", "--drain"]);
        assert_eq!(drained.exit, Some(0), "{drained:?}");
        insert("PENDING");
        // A row that is younger than its note would be another row with the same number.
        shop.sql("UPDATE {schema}_shop.outbox_events SET created_at = '2019-01-01'");
        shop.sql("UPDATE {schema}.row_done SET done_at = '2019-12-31 23:59:59.999999'");
        shop.sql("UPDATE {schema}.row_done SET done_at = '2020-01-01' ORDER BY row_id DESC LIMIT 1");
        let left = || shop.number(&format!("SELECT COUNT(*) FROM {}_shop.outbox_events", shop.schema));
        let counted = json(&program.run(&["cleanup", "--before", TIME, "--dry-run", "--json"]));
        assert_eq!((&counted["matched"]["events"], left()), (&1.into(), 4), "{counted}");
        let cleaned = json(&program.run(&["cleanup", "--before", TIME, "--yes", "--json"]));
        assert_eq!((&cleaned["deleted"], left()), (&1.into(), 3), "{cleaned}");
        let audit = json(&program.run(&["audit", "list", "--json"]));
        assert_eq!((&audit[0]["action"], &audit[0]["events"]), (&"cleanup".into(), &1.into()), "{audit}");
    }
}

#[test]
fn processed_messages_are_listed_by_inbox() {
    for shop in Shop::all() {
        let program = shop.program();
        assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
        let sql = inserts(
            "{schema}.inbox",
            |time| format!("'{time}'"),
            |id| format!("UNHEX(REPLACE('{id}', '-', ''))"),
        );
        sql.split(';')
            .filter(|statement| !statement.trim().is_empty())
            .for_each(|statement| shop.sql(statement));
        processed_messages_are_listed_page_by_page(&program, "inbox");
    }
}
