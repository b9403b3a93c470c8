//! The commands of operators, on MySQL and MariaDB.

use crate::cleanup::{LogCase, TIME, delivered_events_are_deleted_and_everything_else_stays, json};
use crate::dead::{a_discarded_event_is_never_delivered, dead_events_are_listed_shown_and_retried};
use crate::explain_walk::{Walk, every_state_is_produced_and_explained as walk};
use crate::inbox::{inserts, processed_messages_are_listed_page_by_page};
use crate::mysql::{Shop, rows};
use crate::parked::{the_operators_role_is_enough, waiting_events_are_listed_given_up_and_skipped};
use crate::program::Program;
use crate::replay::finished_events_are_delivered_again;
use crate::subscriptions::a_subscription_is_added_listed_moved_and_removed;

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
fn finished_events_are_delivered_again_by_replay() {
    for shop in Shop::all() {
        finished_events_are_delivered_again(&shop.program());
    }
}

#[test]
fn every_state_is_produced_and_explained() {
    for shop in Shop::all() {
        let schema = &shop.schema;
        walk(&Walk {
            outbox: &format!("url = '{}'\nschema = '{schema}'", shop.url),
            sql: &|_, sql| shop.sql(sql),
            events: &format!("{schema}.events"),
            old: "'2019-01-01'",
            reset: &[&format!("ALTER TABLE {schema}.events AUTO_INCREMENT = 1")],
            open: Some(&|id| {
                let id = id.replace('-', "");
                shop.open(&format!(
                    "INSERT INTO {schema}.events (id, type, payload) VALUES (UNHEX('{id}'), 'late', '{{}}')"
                ))
            }),
            shows_statement: !shop.url.starts_with("mariadb"),
        });
    }
}

#[test]
fn dead_and_waiting_events_and_subscriptions_are_changed() {
    for story in [
        dead_events_are_listed_shown_and_retried,
        a_discarded_event_is_never_delivered,
        waiting_events_are_listed_given_up_and_skipped,
        a_subscription_is_added_listed_moved_and_removed,
    ] {
        Shop::all().iter().for_each(|shop| story(&shop.program()));
    }
}

#[test]
fn the_role_of_operators_is_enough_for_their_commands_and_nothing_else() {
    for shop in Shop::all() {
        let owner = shop.program();
        assert_eq!(owner.run(&["migrate", "up"]).exit, Some(0));
        let (schema, url) = (&shop.schema, &shop.url);
        let grant = if url.starts_with("mariadb") { "FOR" } else { "TO" };
        shop.sql(&owner.run(&["migrate", "roles"]).stdout);
        shop.sql(&format!(
            "CREATE USER '{schema}_o'@'%'; GRANT '{schema}_operator' TO '{schema}_o'@'%';
             SET DEFAULT ROLE '{schema}_operator' {grant} '{schema}_o'@'%'"
        ));
        let (server, _) = url.rsplit_once('/').unwrap();
        let url = format!("{}/{schema}", server.replacen("root@", &format!("{schema}_o@"), 1));
        let operator = shop.config(&url);
        the_operators_role_is_enough(&owner, &Program::with_config(&operator));
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
