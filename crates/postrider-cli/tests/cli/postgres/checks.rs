//! Every check of the doctor fails when it should.

use postrider_testkit::servers::pgbouncer;

use super::roles::{program, staffed};
use super::{Shop, config, on};
use crate::program::Program;
use crate::shop::until;
use crate::story::{found, found_with};

/// A limit that every transaction exceeds.
const AT_ONCE: [&str; 2] = ["--transaction-age", "0s"];

fn warns(found: &(String, String), said: &str) {
    assert!(found.0 == "warn" && found.1.contains(said), "{found:?} without {said}");
}

#[test]
fn an_unencrypted_connection_is_reported() {
    let Some(shop) = Shop::new() else { return };
    shop.ready();
    // This machine, under a name that the program does not recognise as loopback.
    let elsewhere = shop.url.replace("127.0.0.1", "127.1");
    let program = Program::with_config(&config(&format!("{elsewhere}?sslmode=disable")));
    warns(&found(&program, "PD-0122"), "the connection is not encrypted");
}

#[test]
fn every_right_that_a_relay_lacks_is_reported() {
    let Some((shop, schema)) = staffed() else { return };
    let relay = program(&shop, &schema, "relay");
    assert_eq!(found(&relay, "PD-0123"), ("ok".into(), "all privileges a relay needs".into()));
    assert_eq!(found(&relay, "PD-0124"), ("ok".into(), "only the privileges a relay needs".into()));
    let viewer = program(&shop, &schema, "viewer");
    warns(&found(&viewer, "PD-0123"), "missing for a relay: DELETE on events, INSERT on subscriptions");

    shop.sql(&format!("REVOKE SELECT ON {schema}.events_position_seq FROM {schema}_relay"));
    let (outcome, what) = found(&relay, "PD-0123");
    assert_eq!(
        (outcome.as_str(), what.as_str()),
        ("warn", "missing for a relay: SELECT on events_position_seq")
    );
    let ran = relay.run(&["relay", "--drain"]);
    assert!(ran.stderr.contains("permission denied for sequence events_position_seq"), "{ran:?}");

    shop.sql(&format!("REVOKE SELECT ON {schema}.migrations FROM {schema}_relay"));
    let (outcome, what) = found(&relay, "PD-0123");
    assert!(outcome == "fail" && what.contains("permission denied for table migrations"), "{what}");
}

#[test]
fn every_right_that_a_relay_does_not_need_is_reported() {
    let Some((shop, schema)) = staffed() else { return };
    let relay = program(&shop, &schema, "relay");
    for verb in ["INSERT", "UPDATE", "TRUNCATE"] {
        shop.sql(&format!("GRANT {verb} ON {schema}.events TO {schema}_relay"));
        warns(&found(&relay, "PD-0124"), &format!("{schema}_relay_user may {verb} events"));
        shop.sql(&format!("REVOKE {verb} ON {schema}.events FROM {schema}_relay"));
        assert_eq!(found(&relay, "PD-0124").0, "ok", "{verb}");
    }
    let migrator = program(&shop, &schema, "migrator");
    warns(&found(&migrator, "PD-0124"), &format!("{schema}_migrator_user owns the outbox"));
}

#[test]
fn a_server_whose_clock_differs_is_reported() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    // A test cannot set the clock of the machine, so another function replaces the server's own.
    shop.sql(
        "ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO true_time;
         CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql
             AS $$ SELECT pg_catalog.true_time() - interval '2 minutes' $$",
    );
    warns(&found(&program, "PD-0126"), "the clocks are 2m");
}

#[test]
fn a_transaction_left_open_is_reported_with_whether_it_has_written_events() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    let url = format!("{}?application_name=forgetful", shop.url);
    on(&url, async |client| {
        client.batch_execute("BEGIN; SELECT 1").await.unwrap();
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let reported = found_with(&program, &AT_ONCE, "PD-0127");
        warns(&reported, &format!("backend pid {pid} (forgetful): idle in transaction for "));
        assert!(reported.1.ends_with("s, last statement: SELECT pg_backend_pid()"), "{reported:?}");
        let write = "INSERT INTO postrider.events (type, payload) VALUES ('late', '')";
        client.batch_execute(write).await.unwrap();
        let said = "s, has written events, last statement: INSERT INTO postrider.events (type, payload) VALUES (?, ?)";
        warns(&found_with(&program, &AT_ONCE, "PD-0127"), said);
        assert_eq!(found(&program, "PD-0127").0, "ok", "not for long");
        client.batch_execute("ROLLBACK").await.unwrap();
    });
    // A server process ends shortly after its client.
    until(|| (found_with(&program, &AT_ONCE, "PD-0127").0 == "ok").then_some(()));
}

#[test]
fn an_orphaned_prepared_transaction_is_reported() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    let name = shop.url.rsplit_once('/').unwrap().1;
    shop.sql(&format!("BEGIN; CREATE TABLE other (); PREPARE TRANSACTION 'left_{name}'"));
    let reported = found_with(&program, &AT_ONCE, "PD-0128");
    warns(&reported, &format!("s ago: left_{name}"));
    assert!(!reported.1.contains("has written events"), "{reported:?}");
    assert_eq!(found(&program, "PD-0128").0, "ok", "not for long");
    shop.sql(&format!("ROLLBACK PREPARED 'left_{name}'"));
    shop.sql(&format!(
        "BEGIN; INSERT INTO postrider.events (type, payload) VALUES ('late', '');
         PREPARE TRANSACTION 'late_{name}'"
    ));
    warns(&found_with(&program, &AT_ONCE, "PD-0128"), &format!("s ago: late_{name}, has written events"));
    shop.sql(&format!("COMMIT PREPARED 'late_{name}'"));
    assert_eq!(found_with(&program, &AT_ONCE, "PD-0128").0, "ok");
}

#[test]
fn a_table_that_is_not_vacuumed_is_reported() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    shop.sql("ALTER TABLE postrider.events SET (autovacuum_enabled = off)");
    shop.sql(
        "INSERT INTO postrider.events (type, payload) SELECT 'old', '' FROM generate_series(1, 10100);
         DELETE FROM postrider.events WHERE type = 'old'",
    );
    // The server updates its statistics with a delay.
    let reported = until(|| Some(found(&program, "PD-0129")).filter(|(outcome, _)| outcome == "warn"));
    warns(&reported, "events: 10100 dead rows, cleaned never");
    shop.sql("VACUUM postrider.events");
    until(|| (found(&program, "PD-0129").0 == "ok").then_some(()));
}

#[test]
fn a_transaction_pooler_is_reported_and_the_other_checks_run_through_it() {
    let (Some(shop), Some(pooler)) = (Shop::new(), pgbouncer::url()) else { return };
    shop.ready();
    let front = pooler.rsplit_once('/').unwrap().0;
    let name = shop.url.rsplit_once('/').unwrap().1;
    let program = Program::with_config(&config(&format!("{front}/{name}")));
    let listening = ["--set", "outbox.shop.listen=true"];
    let configured = ["--set", "outbox.shop.pooler=transaction"];
    warns(&found(&program, "PD-0131"), "the connection goes through a pooler in transaction mode");
    warns(&found_with(&program, &listening, "PD-0131"), "LISTEN does not work");
    assert_eq!(found_with(&program, &configured, "PD-0131").0, "ok");
    for code in ["PD-0101", "PD-0103", "PD-0121", "PD-0123", "PD-0125", "PD-0126", "PD-0127", "PD-0129"] {
        assert_eq!(found(&program, code).0, "ok", "{code}: {}", found(&program, code).1);
    }
}

#[test]
fn rights_pooler_and_inbox_are_checked_next_to_a_table_with_a_state_per_row() {
    let Some(shop) = Shop::new() else { return };
    let owner = super::layouts::program(&shop, "outbox_events");
    assert_eq!(owner.run(&["migrate", "up"]).exit, Some(0));
    for code in ["PD-0123", "PD-0131", "PD-0136", "PD-0164", "PD-0165"] {
        assert_eq!(found(&owner, code).0, "ok", "{code}: {}", found(&owner, code).1);
    }
    warns(&found(&owner, "PD-0124"), "is a superuser");
    let user = shop.url.rsplit_once('/').unwrap().1.to_owned() + "_user";
    shop.sql(&format!(
        "CREATE ROLE {user} LOGIN; GRANT USAGE ON SCHEMA postrider TO {user};
         GRANT SELECT ON ALL TABLES IN SCHEMA postrider TO {user}; GRANT SELECT ON outbox_events TO {user}"
    ));
    let config = std::fs::read_to_string(owner.path().join("postrider.toml")).unwrap();
    let reader = Program::with_config(&config.replace(&shop.url, &shop.url_as(&user)));
    let missing = found(&reader, "PD-0123");
    for right in ["DELETE on inbox", "UPDATE on subscriptions", "INSERT on row_done", "UPDATE on the table"] {
        warns(&missing, right);
    }
    assert_eq!(found(&reader, "PD-0124").0, "ok");
    shop.sql(&format!("GRANT INSERT ON outbox_events TO {user}"));
    warns(&found(&reader, "PD-0124"), "may INSERT events");
    shop.sql("ALTER TABLE postrider.inbox DROP CONSTRAINT inbox_pkey");
    assert_eq!(found(&owner, "PD-0165").0, "fail");
}
