//! Deleting delivered events by hand on PostgreSQL.

use super::Shop;
use super::layouts::INSERTS;
use crate::cleanup::{LogCase, TIME, delivered_events_are_deleted_and_everything_else_stays, json};
use crate::program::Program;

#[test]
fn delivered_events_are_deleted_by_hand() {
    let Some(shop) = Shop::new() else { return };
    let program = Program::with_config(&crate::shop::GOOD.replace("sqlite:shop.db", &shop.url));
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    delivered_events_are_deleted_and_everything_else_stays(&LogCase {
        program: &program,
        sql: &|sql| shop.sql(sql),
        number: &|sql| shop.number(sql),
        events: "postrider.events",
        times: ["'2019-12-31 23:59:59.999999+00'", "'2020-01-01 00:00:00+00'"],
    });
}

#[test]
fn only_our_own_rows_that_were_delivered_before_the_time_are_deleted() {
    for (layout, insert) in INSERTS {
        let Some(shop) = Shop::new() else { return };
        let config = crate::shop::GOOD
            .replace("sqlite:shop.db'", &format!("{}'\nlayout = '{layout}'\nretention = '9000d'", shop.url));
        let program = Program::with_config(&config);
        assert_eq!(program.run(&["migrate", "up"]).exit, Some(0), "{layout}");
        shop.sql(insert);
        assert_eq!(program.run(&["relay", "--drain"]).exit, Some(0), "{layout}");
        let done = if layout == "event_outbox" { "sent" } else { "published" };
        let done = if layout == "outbox_events" { done.to_uppercase() } else { done.to_owned() };
        // Three rows of another program, and three that wait.
        shop.sql(insert);
        shop.sql(&format!("UPDATE {layout} SET status = '{done}'"));
        shop.sql(insert);
        shop.sql(&format!("UPDATE {layout} SET created_at = '2019-01-01'"));
        if layout == "outbox" {
            shop.sql("UPDATE outbox SET expires_at = '2019-02-01'");
        }
        shop.sql("UPDATE postrider.row_done SET done_at = '2019-12-31 23:59:59.999999+00'");
        shop.sql(
            "UPDATE postrider.row_done SET done_at = '2020-01-01 00:00:00+00'
             WHERE row_id = (SELECT max(row_id) FROM postrider.row_done)",
        );
        let left = || shop.number(&format!("SELECT count(*) FROM {layout}"));
        let counted = json(&program.run(&["cleanup", "--before", TIME, "--dry-run", "--json"]));
        assert_eq!((&counted["matched"]["events"], left()), (&2.into(), 9), "{layout}: {counted}");
        assert_eq!(shop.number("SELECT count(*) FROM postrider.row_done"), 3, "{layout}");
        let cleaned = json(&program.run(&["cleanup", "--before", TIME, "--yes", "--json"]));
        assert_eq!((&cleaned["deleted"], left()), (&2.into(), 7), "{layout}: {cleaned}");
        assert_eq!(shop.number("SELECT events FROM postrider.audit WHERE action = 'cleanup'"), 2, "{layout}");
    }
}
