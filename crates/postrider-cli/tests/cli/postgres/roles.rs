//! Each role can do its own work, and no other.

use postrider::{Code, Event, Ident, Outbox};

use super::{Shop, config, on};
use crate::parked::the_operators_role_is_enough;
use crate::program::Program;
use crate::runbooks::Runbook;
use crate::story::found;

/// A shop with the roles and a user of each, by the name of the schema.
pub(super) fn staffed() -> Option<(Shop, String)> {
    let shop = Shop::new()?;
    let schema = shop.url.rsplit_once('/').unwrap().1.to_owned();
    let program = shop.program().variable("POSTRIDER__OUTBOX__SHOP__SCHEMA", &schema);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let roles = program.run(&["migrate", "roles"]);
    assert_eq!(roles.exit, Some(0), "{roles:?}");
    shop.sql(&roles.stdout);
    shop.sql(&roles.stdout);
    for role in ["writer", "relay", "inbox", "viewer", "operator", "migrator"] {
        shop.sql(&format!("CREATE ROLE {schema}_{role}_user LOGIN IN ROLE {schema}_{role}"));
    }
    Some((shop, schema))
}

pub(super) fn program(shop: &Shop, schema: &str, role: &str) -> Program {
    Program::with_config(&config(&shop.url_as(&format!("{schema}_{role}_user"))))
        .variable("POSTRIDER__OUTBOX__SHOP__SCHEMA", schema)
}

#[test]
fn the_writer_relay_and_viewer_roles_allow_their_own_work_and_nothing_else() {
    let Some((shop, schema)) = staffed() else { return };
    let [writer, relay, viewer, inbox] =
        ["writer", "relay", "viewer", "inbox"].map(|role| program(&shop, &schema, role));
    let written = writer.run(&["write", "--type", "a"]);
    assert_eq!(written.exit, Some(0), "{written:?}");
    let ran = relay.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(std::fs::read_to_string(relay.path().join("events.jsonl")).unwrap().lines().count(), 1);
    for args in [&["status"][..], &["migrate", "status"]] {
        let seen = viewer.run(args);
        assert_eq!(seen.exit, Some(0), "{seen:?}");
    }
    for (who, args) in [
        (&writer, &["relay"][..]),
        (&writer, &["status"]),
        (&relay, &["write", "--type", "a"]),
        (&viewer, &["write", "--type", "a"]),
        (&viewer, &["relay"]),
        (&viewer, &["pause", "orders"]),
        (&inbox, &["status"]),
        (&inbox, &["write", "--type", "a"]),
    ] {
        // A viewer finds that the subscription exists. It would have to take the lease, which it cannot.
        if args == ["relay"] && std::ptr::eq(who, &viewer) {
            shop.sql(&format!("DELETE FROM {schema}.subscriptions"));
        }
        let ran = who.run(args);
        assert_eq!(ran.exit, Some(3), "{args:?} {ran:?}");
        assert!(ran.stderr.starts_with("error[PR-0307]: "), "{args:?} {ran:?}");
        assert!(ran.stderr.contains("permission denied for "), "{args:?} {ran:?}");
    }
    for (role, sql) in [
        ("writer", "UPDATE {s}.events SET type = 'b'"),
        ("writer", "DELETE FROM {s}.events"),
        ("writer", "SELECT payload FROM {s}.events"),
        ("writer", "INSERT INTO {s}.events (tx, type, payload) VALUES ('1', 'a', '')"),
        (
            "writer",
            "INSERT INTO {s}.events (position, type, payload) OVERRIDING SYSTEM VALUE VALUES (9, 'a', '')",
        ),
        ("writer", "UPDATE {s}.subscriptions SET floor = 0"),
        ("relay", "UPDATE {s}.events SET type = 'b'"),
        ("relay", "INSERT INTO {s}.events (type, payload) VALUES ('a', '')"),
        ("relay", "ALTER TABLE {s}.events ADD COLUMN x int"),
        ("viewer", "DELETE FROM {s}.events"),
        ("inbox", "SELECT 1 FROM {s}.events"),
        ("inbox", "UPDATE {s}.inbox SET expires_at = now()"),
        ("writer", "INSERT INTO {s}.inbox (consumer_group, event_id) VALUES ('a', gen_random_uuid())"),
        ("relay", "INSERT INTO {s}.inbox (consumer_group, event_id) VALUES ('a', gen_random_uuid())"),
        ("viewer", "DELETE FROM {s}.inbox"),
    ] {
        let sql = sql.replace("{s}", &schema);
        let state = on(&shop.url_as(&format!("{schema}_{role}_user")), async |client| {
            client.batch_execute(&sql).await.err().and_then(|error| Some(error.code()?.code().to_owned()))
        });
        assert_eq!(state.as_deref(), Some("42501"), "{role}: {sql}");
    }
}

#[test]
fn the_role_of_operators_is_enough_for_their_commands_and_nothing_else() {
    let Some((shop, schema)) = staffed() else { return };
    let owner = shop.program().variable("POSTRIDER__OUTBOX__SHOP__SCHEMA", &schema);
    the_operators_role_is_enough(&owner, &program(&shop, &schema, "operator"));
}

#[test]
fn a_relay_without_its_rights_gets_them_back() {
    let Some((shop, schema)) = staffed() else { return };
    let relay = program(&shop, &schema, "relay");
    shop.sql(&format!("REVOKE DELETE ON {schema}.parked FROM {schema}_relay"));
    let (outcome, what) = found(&relay, "PD-0123");
    assert_eq!((&*outcome, &*what), ("warn", "missing for a relay: DELETE on parked"));
    let owner = shop.program().variable("POSTRIDER__OUTBOX__SHOP__SCHEMA", &schema);
    shop.sql(&Runbook::open("privileges", &[]).run(&owner, "migrate roles", &[]));
    assert_eq!(found(&relay, "PD-0123").0, "ok");
    assert_eq!(relay.run(&["relay", "--drain"]).exit, Some(0));
}

#[test]
fn the_writer_role_is_enough_for_a_program_that_writes() {
    let Some((shop, schema)) = staffed() else { return };
    let outbox = Outbox::anonymous().schema(Ident::new(&schema).unwrap());
    let write = async |role: &str| {
        let url = shop.url_as(&format!("{schema}_{role}_user"));
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        outbox.write(&client, Event::new("a", "{}")).await.map(|written| written.position.get())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert_eq!(write("writer").await.unwrap(), 1);
        let error = write("relay").await.unwrap_err();
        assert_eq!(error.code(), Code::PrivilegeMissing);
        assert_eq!(
            error.one_line(),
            "the event could not be inserted: ERROR: permission denied for table events"
        );
    });
}

#[test]
fn the_migrator_role_creates_the_tables() {
    let Some((shop, schema)) = staffed() else { return };
    let role = format!("{schema}_migrator");
    shop.sql(&format!("DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema} AUTHORIZATION {role}"));
    let url = format!("{}?options=-c%20role%3D{role}", shop.url_as(&format!("{role}_user")));
    let program = Program::with_config(&config(&url)).variable("POSTRIDER__OUTBOX__SHOP__SCHEMA", &schema);
    let made = program.run(&["migrate", "up"]);
    assert_eq!(made.exit, Some(0), "{made:?}");
    let owned =
        format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}' AND tableowner = '{role}'");
    assert!(shop.number(&owned) >= 5);
}

#[test]
fn sqlite_has_no_roles() {
    let ran = crate::shop::ready().run(&["migrate", "roles"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("sqlite:shop.db has no roles"), "{ran:?}");
}
