//! The commands of operators, on PostgreSQL.

use super::Shop;
use super::layouts::INSERTS;
use crate::cleanup::{LogCase, TIME, delivered_events_are_deleted_and_everything_else_stays, json};
use crate::dead::{a_discarded_event_is_never_delivered, dead_events_are_listed_shown_and_retried};
use crate::explain_walk::{Walk, every_state_is_produced_and_explained as walk};
use crate::parked::waiting_events_are_listed_given_up_and_skipped;
use crate::program::Program;
use crate::replay;
use crate::subscriptions::a_subscription_is_added_listed_moved_and_removed;

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
fn finished_events_are_delivered_again() {
    let Some(shop) = Shop::new() else { return };
    let config = crate::shop::GOOD.replace("sqlite:shop.db", &shop.url);
    replay::finished_events_are_delivered_again(&Program::with_config(&config));
}

#[test]
fn every_state_is_produced_and_explained() {
    let Some(shop) = Shop::new() else { return };
    walk(&Walk {
        outbox: &format!("url = '{}'", shop.url),
        sql: &|_, sql| shop.sql(sql),
        events: "postrider.events",
        old: "'2019-01-01 00:00:00+00'",
        reset: &["ALTER SEQUENCE postrider.events_position_seq RESTART"],
        open: Some(&|id| {
            shop.open(&format!(
                "INSERT INTO postrider.events (id, type, payload) VALUES ('{id}', 'late', '{{}}')"
            ))
        }),
        shows_statement: true,
    });
}

#[test]
fn dead_and_waiting_events_and_subscriptions_are_changed() {
    for story in [
        dead_events_are_listed_shown_and_retried,
        a_discarded_event_is_never_delivered,
        waiting_events_are_listed_given_up_and_skipped,
        a_subscription_is_added_listed_moved_and_removed,
    ] {
        let Some(shop) = Shop::new() else { return };
        story(&shop.program());
    }
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
