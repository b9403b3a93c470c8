//! The same program on MySQL and MariaDB: a new database for every case, on one server of each kind.

use std::sync::atomic::{AtomicU32, Ordering};

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider_testkit::servers::mysql::{Kind, Options, own};
use serde_json::Value;

use crate::adopt::{both, three_rows_move_forth_and_back};
use crate::event_counts::{
    CountCase, event_outbox_is_counted, outbox_events_is_counted, the_default_layout_is_counted,
};
use crate::program::Program;
use crate::shop::{Running, status, until};
use crate::story::{
    assert_printed_id, assert_unfit_event_is_refused, delivered, drain_rows, found, found_with,
    migrate_twice, start_relay, stop_after, write_four_events, write_order,
};

/// The name of a database for an outbox, which does not exist yet.
pub(crate) struct Shop {
    pub(crate) url: String,
    pub(crate) schema: String,
}

impl Shop {
    /// On every available server. Prints a line for each that is not available.
    pub(crate) fn all() -> Vec<Self> {
        Kind::ALL.into_iter().filter_map(Self::on).collect()
    }

    /// `None` without such a server. Prints the reason.
    pub(crate) fn on(kind: Kind) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = format!("cli_{}_{number}", std::process::id());
        kind.url().map(|url| Self { url: url.replace("mysql://", &format!("{}://", kind.name())), schema })
    }

    pub(crate) fn config(&self, url: &str) -> String {
        format!(
            "[outbox.shop]\nurl = '{url}'\nschema = '{}'\n[sink.out]\ntype = 'file'\npath = 'events.jsonl'\n\
             [subscription.orders]\nsink = 'out'\nstart = 'beginning'\n",
            self.schema
        )
    }

    pub(crate) fn program(&self) -> Program {
        Program::with_config(&self.config(&self.url))
    }

    /// The first column of the first row.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = self.url.replace("mariadb://", "mysql://");
        runtime.block_on(async {
            let mut client = Conn::from_url(&url).await.unwrap();
            let number = client.query_first(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
            client.disconnect().await.unwrap();
            number.unwrap()
        })
    }

    /// A transaction with this statement, which is open until the value is dropped.
    pub(crate) fn open(&self, sql: &str) -> Box<dyn std::any::Any> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = self.url.replace("mariadb://", "mysql://");
        let client = runtime.block_on(async {
            let mut client = Conn::from_url(&url).await.unwrap();
            client.query_drop("START TRANSACTION").await.unwrap();
            client.query_drop(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
            client
        });
        Box::new((client, runtime))
    }

    pub(crate) fn sql(&self, sql: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = self.url.replace("mariadb://", "mysql://");
        let sql = sql.replace("{schema}", &self.schema);
        runtime.block_on(async {
            let mut client = Conn::from_url(&url).await.unwrap();
            client.query_drop(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
            client.disconnect().await.unwrap();
        });
    }
}

#[test]
fn an_event_is_written_delivered_and_listed() {
    for shop in Shop::all() {
        let program = shop.program();
        assert_eq!(found(&program, "PD-0103").0, "fail", "there are no tables yet");
        migrate_twice(&program, "shop: created the tables in ", "");
        let relay = start_relay(&program);
        write_four_events(&program);
        stop_after(&program, relay, 4);
    }
}

#[test]
fn the_printed_migrations_and_roles_run_unchanged() {
    for shop in Shop::all() {
        let program = shop.program();
        let printed = program.run(&["migrate", "print"]);
        assert_eq!(printed.exit, Some(0), "{printed:?}");
        shop.sql(&printed.stdout);
        let reported: Value =
            serde_json::from_str(&program.run(&["migrate", "status", "--json"]).stdout).unwrap();
        assert_eq!(reported[0]["state"], "ready");
        let roles = program.run(&["migrate", "roles"]);
        assert_eq!(roles.exit, Some(0), "{roles:?}");
        shop.sql(&roles.stdout);
        shop.sql(&roles.stdout);
    }
}

#[test]
fn the_doctor_checks_server_rights_and_tables() {
    for shop in Shop::all() {
        let program = shop.program();
        for args in [&["migrate", "up"][..], &["write", "--type", "shop.opened"], &["relay", "--drain"]] {
            let ran = program.run(args);
            assert_eq!(ran.exit, Some(0), "{ran:?}");
        }
        for code in [
            "PD-0101", "PD-0103", "PD-0141", "PD-0142", "PD-0143", "PD-0146", "PD-0147", "PD-0148",
            "PD-0164", "PD-0165",
        ] {
            assert_eq!(found(&program, code).0, "ok", "{code}: {}", found(&program, code).1);
        }
        shop.sql(
            "INSERT INTO {schema}.inbox (consumer_group, event_id, processed_at, expires_at)
                  VALUES ('mail', UNHEX(REPLACE(UUID(), '-', '')), UTC_TIMESTAMP(6) - INTERVAL 40 DAY,
                          UTC_TIMESTAMP(6) - INTERVAL 25 HOUR),
                         ('mail', UNHEX(REPLACE(UUID(), '-', '')), UTC_TIMESTAMP(6) - INTERVAL 40 DAY,
                          UTC_TIMESTAMP(6) - INTERVAL 1 HOUR)",
        );
        let (outcome, what) = found(&program, "PD-0164");
        assert!(outcome == "warn" && what.starts_with("1 row(s) expired"), "{what}");
        let (outcome, what) = found(&program, "PD-0144");
        assert!(outcome == "warn" && what.contains("root"), "{what}");
        // The servers of the tests are configured for speed, not for durability.
        let (outcome, what) = found(&program, "PD-0150");
        assert!(outcome == "warn" && what.contains("innodb_flush_log_at_trx_commit = 2"), "{what}");

        shop.sql(
            "XA START '{schema}'; INSERT INTO {schema}.events (type, payload) VALUES ('x', '');
                  XA END '{schema}'; XA PREPARE '{schema}'",
        );
        let (outcome, what) = found(&program, "PD-0148");
        assert!(outcome == "warn" && what.contains(&format!("XA '{}','',1", shop.schema)), "{what}");
        let reported = program.run(&["status"]);
        assert!(
            reported.stderr.contains(&format!("XA '{}','',1 is not finished", shop.schema)),
            "{reported:?}"
        );
        shop.sql("XA ROLLBACK '{schema}'");

        let elsewhere = shop.url.replace("127.0.0.1", "127.1");
        let exposed = Program::with_config(&shop.config(&format!("{elsewhere}?ssl-mode=disabled")));
        assert_eq!(found(&exposed, "PD-0142").0, "warn");
    }
}

/// The time zone of the server differs from that of its machine, in which the engine reports when a transaction began.
#[test]
fn the_doctor_does_not_report_a_transaction_that_has_just_begun() {
    for shop in Shop::all() {
        let program = shop.program();
        assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let open = runtime.block_on(async {
            let mut client = Conn::from_url(&shop.url.replace("mariadb://", "mysql://")).await.unwrap();
            let sql = format!(
                "START TRANSACTION; INSERT INTO {}.events (type, payload) VALUES ('x', '')",
                shop.schema
            );
            client.query_drop(sql).await.unwrap();
            client
        });
        let (outcome, what) = found(&program, "PD-0147");
        assert_eq!(outcome, "ok", "{what}");
        let at_once = ["--transaction-age", "0s"];
        // Transactions of other tests are shown, too. MariaDB shows the statements of MySQL only if it collects them.
        let said = match shop.url.starts_with("mariadb") {
            true => ": open for ".to_owned(),
            false => {
                format!("s, last statement: INSERT INTO {}.events (type, payload) VALUES (?, ?)", shop.schema)
            }
        };
        until(|| found_with(&program, &at_once, "PD-0147").1.contains(&said).then_some(()));
        runtime.block_on(open.disconnect()).unwrap();
    }
}

#[test]
fn a_server_that_reports_no_locks_is_used_and_the_doctor_reports_the_cost() {
    for kind in Kind::ALL {
        let Some(server) = own(Options::of(kind).setting("performance_schema=OFF")) else { continue };
        let shop = Shop { url: server.url().to_owned(), schema: "postrider".to_owned() };
        let program = shop.program();
        assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
        let ran = program.run(&["relay", "--drain"]);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        let (outcome, what) = found(&program, "PD-0141");
        assert!(outcome == "warn" && what.contains("does not report all metadata locks"), "{what}");
    }
}

#[test]
fn a_wrong_password_is_refused_and_not_printed() {
    for shop in Shop::all() {
        let url = shop.url.replace("root@", "stranger:hush-hush@");
        let ran = Program::with_config(&shop.config(&url)).run(&["status"]);
        assert!(ran.exit != Some(0) && ran.stderr.contains("PR-0308"), "{ran:?}");
        assert!(!format!("{ran:?}").contains("hush-hush"), "{ran:?}");
    }
}

#[test]
fn settings_without_effect_on_mysql_are_refused() {
    let shop = Shop { url: "mysql://h/db".to_owned(), schema: "shop".to_owned() };
    for key in ["listen = true", "pooler = 'transaction'", "layout = 'outbox'"] {
        let config = shop.config(&shop.url).replace("schema", &format!("{key}\nschema"));
        let ran = Program::with_config(&config).run(&["status"]);
        assert!(ran.exit != Some(0) && ran.stderr.contains(key.split_once(' ').unwrap().0), "{ran:?}");
    }
}

/// A table of another layout in the database `{schema}_shop`, which the URL names.
pub(crate) fn rows(shop: &Shop, layout: &str) -> Program {
    shop.sql("CREATE DATABASE IF NOT EXISTS {schema}_shop");
    let url = format!("{}/{}_shop", shop.url.trim_end_matches("/test"), shop.schema);
    let config = shop.config(&url).replace("\nschema", &format!("\nlayout = '{layout}'\nschema"));
    Program::with_config(&config)
}

#[test]
fn rows_written_by_another_program_are_delivered_and_listed() {
    let inserts = [
        (
            "event_outbox",
            "INSERT INTO {schema}_shop.event_outbox (event_key, entity_table, entity_pk, event_type, payload)
             VALUES (UUID(), 'orders', '1', 'order.placed', '{}'), (UUID(), 'orders', '2', 'order.placed', '{}')",
        ),
        (
            "outbox_events",
            "INSERT INTO {schema}_shop.outbox_events (aggregate_type, aggregate_id, event_type, payload)
             VALUES ('Order', '1', 'order.placed', '{}'), ('Order', '2', 'order.placed', '{}')",
        ),
    ];
    for (layout, insert) in inserts {
        for shop in Shop::all() {
            let program = rows(&shop, layout);
            migrate_twice(&program, "", "6");
            shop.sql(insert);
            drain_rows(&program, 2);
            let doctor = program.run(&["doctor"]);
            assert!(doctor.stdout.contains(&format!("matches layout {layout}")), "{layout}: {doctor:?}");
        }
    }
}

#[test]
fn an_event_written_to_another_layout_arrives_with_the_printed_id() {
    for shop in Shop::all() {
        let program = rows(&shop, "outbox_events");
        assert_eq!(program.run(&["migrate", "up", "--with", "aggregate-index"]).exit, Some(0));
        let written = write_order(&program, "{}");
        assert_eq!(written.exit, Some(0), "{written:?}");
        assert_unfit_event_is_refused(&program);
        drain_rows(&program, 1);
        assert_printed_id(&written, &delivered(&program));
        shop.sql("ALTER TABLE {schema}_shop.outbox_events DROP COLUMN attempt_count");
        let refused = program.run(&["relay", "--drain", "--fail-fast"]);
        assert!(refused.stderr.contains("has no column \"attempt_count\""), "{refused:?}");
    }
}

#[test]
fn a_table_moves_into_the_layout_postrider_and_back() {
    let inserts = [
        (
            "event_outbox",
            "INSERT INTO {schema}_shop.event_outbox (event_key, entity_table, entity_pk, event_type, payload)
             VALUES (UUID(), 'orders', '1', 'order.placed', '{}')",
        ),
        (
            "outbox_events",
            "INSERT INTO {schema}_shop.outbox_events (aggregate_type, aggregate_id, event_type, payload)
             VALUES ('Order', '1', 'order.placed', '{}')",
        ),
    ];
    for (layout, insert) in inserts {
        for shop in Shop::all() {
            shop.sql("CREATE DATABASE {schema}_shop");
            let (server, schema) = (shop.url.trim_end_matches("/test"), &shop.schema);
            let old =
                format!("url = '{server}/{schema}_shop'\nlayout = '{layout}'\nschema = '{schema}_rows'");
            let program = both(&old, &format!("url = '{server}'\nschema = '{schema}'"));
            (0..3).for_each(|_| shop.sql(insert));
            three_rows_move_forth_and_back(&program, layout);
        }
    }
}

/// Checks on every server, of a layout or of the default one.
fn on_each(layout: Option<&str>, check: impl Fn(&CountCase<'_>)) {
    let own_ago = |seconds: i32| format!("UTC_TIMESTAMP(6) - INTERVAL {seconds} SECOND");
    // A TIMESTAMP is given in the zone of the session, which is not UTC here.
    let zoned = |seconds: i32| format!("NOW(6) - INTERVAL {seconds} SECOND");
    for shop in Shop::all() {
        let program = layout.map_or_else(|| shop.program(), |layout| rows(&shop, layout));
        assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
        let theirs = layout.unwrap_or_default();
        let placed = |sql: &str| {
            let table = format!("INSERT INTO {theirs} ");
            sql.replace(&table, &format!("INSERT INTO {}_shop.{theirs} ", shop.schema))
        };
        check(&CountCase {
            program: &program,
            own: &format!("{}.", shop.schema),
            run: &|sql| shop.sql(&placed(sql)),
            number: &|sql| shop.number(sql),
            ago: if theirs == "outbox_events" { &zoned } else { &own_ago },
            own_ago: &own_ago,
            at: &|time| format!("'{time}'"),
        });
    }
}

#[test]
fn events_are_counted_by_type_hour_and_producer() {
    on_each(None, the_default_layout_is_counted);
}

#[test]
fn rows_of_event_outbox_are_counted_by_type_hour_and_producer() {
    on_each(Some("event_outbox"), event_outbox_is_counted);
}

#[test]
fn rows_of_outbox_events_are_counted_by_type_hour_and_producer() {
    on_each(Some("outbox_events"), outbox_events_is_counted);
}

/// Without that the event would never be delivered: its position was settled as empty.
#[test]
fn an_event_at_a_position_chosen_by_its_writer_is_reported_by_the_doctor_and_parked_by_the_relay() {
    for shop in Shop::all() {
        let program = shop.program();
        assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
        shop.sql("INSERT INTO {schema}.events (type, payload) VALUES ('a', ''), ('b', '')");
        shop.sql(
            "START TRANSACTION; INSERT INTO {schema}.events (type, payload) VALUES ('gone', ''); ROLLBACK",
        );
        shop.sql("INSERT INTO {schema}.events (type, payload) VALUES ('c', '')");
        let relay = Running::start(program.command(&["relay"]));
        until(|| Some(status(&program)).filter(|status| status["floor"] == 4));
        relay.signal("TERM");
        assert_eq!(relay.end().0, Some(0));
        assert_eq!(found(&program, "PD-0160").0, "ok");
        assert_eq!(found(&program, "PD-0161").0, "ok");
        assert_eq!(found(&program, "PD-0162").0, "ok");
        shop.sql("SET insert_id = 3; INSERT INTO {schema}.events (type, payload) VALUES ('chosen', '')");
        let (outcome, what) = found(&program, "PD-0160");
        assert!(outcome == "warn" && what.contains("1 of orders (position 3)"), "{what}");
        let relay = Running::start(program.command(&["relay"]));
        let reported = until(|| Some(status(&program)).filter(|status| status["parked"]["dead"] == 1));
        assert!(reported["last_error"].as_str().unwrap().contains("insert_id"), "{reported}");
        assert_eq!(found(&program, "PD-0160").0, "ok");
        // An operator wants it delivered.
        shop.sql("UPDATE {schema}.parked SET state = 'retry'");
        until(|| Some(status(&program)).filter(|status| status["parked"]["dead"].is_null()));
        until(|| Some(status(&program)).filter(|status| status["parked"]["retry"].is_null()));
        relay.signal("TERM");
        assert_eq!(relay.end().0, Some(0));
        let file = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
        assert_eq!(file.lines().filter(|line| line.contains("chosen")).count(), 1, "{file}");
        assert_eq!(file.lines().count(), 4, "{file}");
    }
}

#[test]
fn the_doctor_checks_server_rights_triggers_and_the_inbox_next_to_a_table_with_a_state_per_row() {
    for shop in Shop::all() {
        let program = rows(&shop, "outbox_events");
        assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
        for code in ["PD-0141", "PD-0143", "PD-0162", "PD-0164", "PD-0165"] {
            assert_eq!(found(&program, code).0, "ok", "{code}: {}", found(&program, code).1);
        }
        let (outcome, what) = found(&program, "PD-0144");
        assert!(outcome == "warn" && what.contains("root"), "{what}");
        shop.sql("CREATE TRIGGER {schema}_shop.watch BEFORE UPDATE ON {schema}_shop.outbox_events FOR EACH ROW SET @a = 1");
        let (outcome, what) = found(&program, "PD-0162");
        assert!(outcome == "warn" && what.contains("watch on outbox_events by "), "{what}");
        shop.sql("ALTER TABLE {schema}.inbox DROP PRIMARY KEY");
        assert_eq!(found(&program, "PD-0165").0, "fail");
    }
}
