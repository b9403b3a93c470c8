//! Commands depend on nothing that other users can change, and report such changes.

use postrider_testkit::servers::postgres::TRAPS;

use super::roles::{program, staffed};
use super::{Shop, config, layouts};
use crate::adopt::both;
use crate::program::Program;
use crate::story::found;

fn works(program: &Program, args: &[&str]) -> String {
    let ran = program.run(args);
    assert_eq!(ran.exit, Some(0), "{args:?}: {ran:?}");
    ran.stdout
}

/// Every session in this database, including the superuser's, resolves names in the schema `trap` first.
fn trapped() -> Option<Shop> {
    let shop = Shop::new()?;
    shop.sql(TRAPS);
    let name = shop.url.rsplit_once('/').unwrap().1;
    shop.sql(&format!("ALTER DATABASE {name} SET search_path = trap, public, pg_catalog"));
    Some(shop)
}

#[test]
fn functions_and_operators_planted_on_the_search_path_are_called_by_no_command() {
    let Some(shop) = trapped() else { return };
    let program = shop.program();
    works(&program, &["migrate", "up", "--with", "views"]);
    works(&program, &["migrate", "status"]);
    let roles = works(&program, &["migrate", "roles"]);
    shop.sql(&roles);
    works(&program, &["write", "--type", "shop.opened"]);
    works(&program, &["relay", "--drain"]);
    works(&program, &["write", "--type", "shop.closed"]);
    for args in [
        &["status"][..],
        &["status", "--by", "type"],
        &["status", "--by", "hour"],
        &["status", "--by", "producer"],
        &["events", "list", "--type", "shop.opened"],
        &["events", "list", "--since", "1h", "--contains", "{}"],
        &["events", "list", "--plan"],
        &["pause", "orders"],
        &["resume", "orders"],
        &["accept-history", "orders", "--from", "floor"],
    ] {
        works(&program, args);
    }
    let examined = program.run(&["doctor"]);
    assert!(!format!("{examined:?}").contains("trapped"), "{examined:?}");
    assert!(!format!("{examined:?}").contains("cannot be checked"), "{examined:?}");
    works(&program, &["relay", "--drain"]);
}

#[test]
fn the_printed_migrations_resolve_no_name_through_the_search_path() {
    let Some(shop) = trapped() else { return };
    let program = shop.program();
    shop.sql(&works(&program, &["migrate", "print"]));
    works(&program, &["write", "--type", "shop.opened"]);
    works(&program, &["relay", "--drain"]);
}

#[test]
fn an_adoption_calls_no_planted_function() {
    let Some(shop) = trapped() else { return };
    let old = format!("url = '{}'\nlayout = 'outbox_events'\nschema = 'of_rows'", shop.url);
    let program = both(&old, &format!("url = '{}'", shop.url));
    shop.sql(
        "INSERT INTO public.outbox_events (aggregate_type, aggregate_id, event_type, payload)
         VALUES ('Order', '1', 'order.placed', '{}'), ('Order', '2', 'order.placed', '{}')",
    );
    works(&program, &["events", "list", "--outbox", "old", "--contains", "{}"]);
    works(&program, &["status"]);
    works(&program, &["adopt", "--from", "outbox_events", "--to", "postrider", "--start", "beginning"]);
    assert_eq!(shop.number("SELECT count(*) FROM postrider.events"), 2);
}

#[test]
fn tables_with_a_state_per_row_work_next_to_planted_functions() {
    for (layout, insert) in layouts::INSERTS {
        let Some(shop) = trapped() else { return };
        let program = layouts::program(&shop, layout);
        works(&program, &["migrate", "up"]);
        shop.sql(&format!("SET search_path = public; {insert}"));
        works(&program, &["events", "list", "--contains", "{}"]);
        works(&program, &["relay", "--drain"]);
        for args in
            [&["status"][..], &["status", "--by", "type"], &["events", "list"], &["events", "list", "--plan"]]
        {
            works(&program, args);
        }
        let examined = format!("{:?}", program.run(&["doctor"]));
        assert!(
            !examined.contains("trapped") && !examined.contains("cannot be checked"),
            "{layout}: {examined}"
        );
        let file = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
        assert_eq!(file.lines().count(), 3, "{layout}");
    }
}

#[test]
fn a_table_with_a_state_per_row_whose_rows_a_policy_hides_is_refused() {
    let Some(shop) = Shop::new() else { return };
    let (layout, insert) = layouts::INSERTS[2];
    works(&layouts::program(&shop, layout), &["migrate", "up"]);
    shop.sql(insert);
    let role = shop.url.rsplit_once('/').unwrap().1;
    shop.sql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA postrider, public TO {role};
         GRANT ALL ON ALL TABLES IN SCHEMA postrider, public TO {role};
         GRANT ALL ON ALL SEQUENCES IN SCHEMA postrider, public TO {role};
         ALTER TABLE {layout} ENABLE ROW LEVEL SECURITY"
    ));
    let program = layouts::program(&Shop { url: shop.url_as(role) }, layout);
    let refused = program.run(&["relay", "--drain"]);
    assert!(refused.exit == Some(3) && refused.stderr.starts_with("error[PR-0340]"), "{refused:?}");
    shop.sql(&format!("ALTER TABLE {layout} DISABLE ROW LEVEL SECURITY"));
    works(&program, &["relay", "--drain"]);
}

#[test]
fn the_doctor_reports_hidden_rows_an_altered_sequence_and_another_encoding() {
    let Some((shop, schema)) = staffed() else { return };
    let relay = program(&shop, &schema, "relay");
    for code in ["PD-0135", "PD-0136", "PD-0137", "PD-0138"] {
        assert_eq!(found(&relay, code).0, "ok", "{code}");
    }
    shop.sql(&format!("ALTER TABLE {schema}.events ENABLE ROW LEVEL SECURITY"));
    let (outcome, what) = found(&relay, "PD-0135");
    assert!(outcome == "fail" && what.contains("events"), "{what}");
    let refused = relay.run(&["relay", "--drain"]);
    assert!(refused.exit == Some(3) && refused.stderr.starts_with("error[PR-0340]"), "{refused:?}");
    shop.sql(&format!("ALTER TABLE {schema}.events DISABLE ROW LEVEL SECURITY"));
    shop.sql(&format!("ALTER SEQUENCE {schema}.events_position_seq CACHE 20"));
    let (outcome, what) = found(&relay, "PD-0137");
    assert!(outcome == "fail" && what.contains("CACHE 20"), "{what}");

    let (server, _) = shop.url.rsplit_once('/').unwrap();
    let latin = format!("{schema}_latin");
    shop.sql(&format!(
        "CREATE DATABASE {latin} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
    ));
    let elsewhere = Program::with_config(&config(&format!("{server}/{latin}")));
    let (outcome, what) = found(&elsewhere, "PD-0136");
    assert!(outcome == "fail" && what.contains("LATIN1"), "{what}");
    let refused = elsewhere.run(&["migrate", "up"]);
    assert!(refused.exit == Some(3) && refused.stderr.starts_with("error[PR-0341]"), "{refused:?}");
}

#[test]
fn the_doctor_reports_reused_positions_and_its_advice_delivers_them() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    for _ in 0..4 {
        works(&program, &["write", "--type", "old"]);
    }
    works(&program, &["relay", "--drain"]);
    shop.sql("DELETE FROM postrider.events WHERE position < 5; ALTER SEQUENCE postrider.events_position_seq RESTART");
    let (outcome, what) = found(&program, "PD-0138");
    assert!(
        outcome == "fail" && what.contains("position 5 was assigned before, but the sequence is at 0"),
        "{what}"
    );
    for _ in 0..4 {
        works(&program, &["write", "--type", "new"]);
    }
    assert_ne!(program.run(&["write", "--type", "refused"]).exit, Some(0), "its position holds an event");
    let (outcome, what) = found(&program, "PD-0138");
    assert!(outcome == "fail" && what.contains("later events are at positions 1 to 4"), "{what}");
    let held = program.run(&["relay", "--drain"]);
    assert!(held.exit != Some(0), "{held:?}");
    let refused = program.run(&["accept-history", "orders", "--from", "floor"]);
    assert!(
        refused.stderr.starts_with("error[PR-0306]") && refused.stderr.contains("later events are at 1 to 4"),
        "{refused:?}"
    );
    works(&program, &["accept-history", "orders", "--from", "position:1"]);
    works(&program, &["relay", "--drain"]);
    assert_eq!(found(&program, "PD-0138").0, "ok");
    // An event that was committed late is in a gap of the done positions.
    let seen = "seen_tx = (SELECT tx FROM postrider.events WHERE position = 4)";
    shop.sql(&format!("UPDATE postrider.subscriptions SET floor = 3, done = '3 5', {seen}"));
    assert_eq!(found(&program, "PD-0138").0, "ok");
    shop.sql("UPDATE postrider.subscriptions SET floor = 2, done = '2 4-5'");
    let (outcome, what) = found(&program, "PD-0138");
    assert!(outcome == "fail" && what.contains("positions 4 to 4"), "{what}");
    let delivered = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    assert_eq!(delivered.lines().filter(|line| line.contains("\"new\"")).count(), 4, "{delivered}");
}
