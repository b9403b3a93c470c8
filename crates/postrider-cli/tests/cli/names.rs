//! Names that need quotes in a database: capital letters, spaces, hyphens, reserved words.

use crate::mysql;
use crate::postgres::Shop;
use crate::program::Program;
use crate::shop::status;

/// A configuration with these lines about the outbox.
fn program(url: &str, lines: &str) -> Program {
    let config = format!(
        "[outbox.shop]\nurl = '{url}'\n{lines}\n[sink.out]\ntype = 'file'\npath = 'events.jsonl'\n\
         [subscription.orders]\nsink = 'out'\nstart = 'beginning'\n"
    );
    Program::with_config(&config)
}

/// Every command succeeds.
fn works(program: &Program, write: impl FnOnce()) {
    for _ in 0..2 {
        let made = program.run(&["migrate", "up"]);
        assert_eq!(made.exit, Some(0), "{made:?}");
    }
    write();
    let drained = program.run(&["relay", "--drain"]);
    assert_eq!(drained.exit, Some(0), "{drained:?}");
    let file = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    assert_eq!(file.lines().count(), 1, "{file}");
    let reported = status(program);
    assert_eq!(reported["backlog"]["events"], 0, "{reported}");
    let listed = program.run(&["events", "list"]);
    assert_eq!(listed.exit, Some(0), "{listed:?}");
    let doctor = program.run(&["doctor", "--json"]);
    assert!(!doctor.stdout.contains("cannot be checked"), "{doctor:?}");
    assert!(!doctor.stdout.contains("\"outcome\":\"fail\""), "{doctor:?}");
}

fn write(program: &Program) {
    let written = program.run(&["write", "--type", "order.placed", "--aggregate", "Order:1"]);
    assert_eq!(written.exit, Some(0), "{written:?}");
}

#[test]
fn postgresql_schemas_and_tables_may_have_any_name_that_can_be_quoted() {
    for (ledger, schema, table) in [
        ("Legacy Ledger", "LegacyApp", "Outbox Events"),
        ("select", "table", "order"),
        ("a-b.c", "größe", "2nd"),
    ] {
        let Some(shop) = Shop::new() else { return };
        let program = program(&shop.url, &format!("schema = '{ledger}'"));
        works(&program, || write(&program));
        let roles = program.run(&["migrate", "roles"]);
        assert_eq!(roles.exit, Some(0), "{roles:?}");
        shop.sql(&roles.stdout);

        let rows = format!(
            "schema = '{ledger} rows'\nlayout = 'outbox_events'\ntable = '{table}'\ntable_schema = '{schema}'"
        );
        let rows = self::program(&shop.url, &rows);
        works(&rows, || {
            shop.sql(&format!(
                "INSERT INTO \"{schema}\".\"{table}\" (aggregate_type, aggregate_id, event_type, payload)
                 VALUES ('Order', '1', 'order.placed', '{{}}')"
            ));
        });

        shop.sql(&format!(
            "CREATE TABLE \"{schema}\".\"{table} mapped\" (\"Id\" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                 \"group\" text NOT NULL, \"Event Body\" jsonb NOT NULL, \"sentAt\" timestamptz, \"order\" bigint DEFAULT 1);
             INSERT INTO \"{schema}\".\"{table} mapped\" (\"group\", \"Event Body\") VALUES ('order.placed', '{{}}')"
        ));
        let mapped = format!(
            "schema = '{ledger} mapped'\nlayout = 'custom'\ntable = '{table} mapped'\ntable_schema = '{schema}'\n\
             columns = {{ id = 'Id', type = 'group', payload = 'Event Body', delivered_at = 'sentAt', order = 'order' }}"
        );
        works(&self::program(&shop.url, &mapped), || ());
    }
}

#[test]
fn mysql_databases_may_have_hyphens_and_capital_letters() {
    for (number, shop) in mysql::Shop::all().into_iter().enumerate() {
        for name in ["my-app", "MyApp", "select"] {
            let schema = format!("{name}{}{number}", std::process::id() % 1_000);
            let program = program(&shop.url, &format!("schema = '{schema}'"));
            works(&program, || write(&program));
            let roles = program.run(&["migrate", "roles"]);
            assert_eq!(roles.exit, Some(0), "{roles:?}");
            shop.sql(&roles.stdout);

            let rows = format!(
                "schema = '{schema}-rows'\nlayout = 'outbox_events'\ntable = 'Outbox Events'\n\
                 table_schema = '{schema}-app'"
            );
            let rows = self::program(&shop.url, &rows);
            works(&rows, || {
                shop.sql(&format!(
                    "INSERT INTO `{schema}-app`.`Outbox Events` (aggregate_type, aggregate_id, event_type, payload)
                     VALUES ('Order', '1', 'order.placed', '{{}}')"
                ));
            });
        }
    }
}

#[test]
fn a_name_that_could_end_its_quotes_is_refused() {
    for name in ["a\"; DROP SCHEMA public; --", "a`b", "a{table}", "pg_shop", " a"] {
        let program = program("postgres://nobody@127.0.0.1:1/shop", &format!("schema = '{name}'"));
        let ran = program.run(&["config", "check"]);
        assert_eq!(ran.exit, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("cannot be the name of a schema or a table"), "{ran:?}");
    }
}
