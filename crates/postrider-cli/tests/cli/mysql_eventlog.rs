//! Layout `eventlog` on MySQL and MariaDB.

use crate::eventlog::{self, EventlogCase};
use crate::mysql::Shop;

/// On every available server.
fn with_cases(test: impl Fn(&EventlogCase<'_>)) {
    for shop in Shop::all() {
        let (schema, url) = (&shop.schema, &shop.url);
        test(&EventlogCase {
            // One server has one database `eventlog`, so each test uses another name.
            outbox: format!(
                "url = '{url}'\nlayout = 'eventlog'\nschema = '{schema}'\ntable_schema = '{schema}_log'"
            ),
            events: format!("{schema}_log.events"),
            notifications: format!("{schema}_log.event_notifications"),
            index: "key: idx_events_action_id",
            sql: &|sql| shop.sql(sql),
            number: &|sql| shop.number(sql),
        });
    }
}

#[test]
fn the_base_alone_is_written_to_and_listed() {
    with_cases(eventlog::the_base_alone_is_written_to_and_listed);
}

#[test]
fn events_are_fanned_out_listed_and_counted() {
    with_cases(eventlog::events_are_fanned_out_listed_and_counted);
}

#[test]
fn an_event_that_does_not_fit_is_refused() {
    with_cases(eventlog::an_event_that_does_not_fit_is_refused);
}

#[test]
fn the_printed_scripts_run() {
    with_cases(eventlog::the_printed_scripts_run);
}

#[test]
fn times_are_utc_in_another_time_zone() {
    with_cases(|case| {
        assert_eq!((case.number)("SELECT @@time_zone = '+05:30'"), 1, "the default of the server");
        eventlog::times_are_utc_in_another_time_zone(case, |column| {
            format!("ABS(TIMESTAMPDIFF(SECOND, {column}, UTC_TIMESTAMP(6))) < 600")
        });
    });
}

#[test]
fn the_doctor_reports_other_handlers_aliases_and_a_missing_index() {
    with_cases(|case| {
        let drop_index = format!("DROP INDEX events_undelivered ON {}", case.events);
        eventlog::the_doctor_reports_other_handlers_aliases_and_a_missing_index(case, &drop_index);
    });
}

#[test]
fn events_move_from_postrider_to_eventlog_and_back() {
    with_cases(|case| {
        let schema = case.events.strip_suffix("_log.events").unwrap();
        let old = case.outbox.lines().next().unwrap().to_owned() + &format!("\nschema = '{schema}_old'");
        eventlog::events_move_from_postrider_to_eventlog_and_back(case, &old);
    });
}

#[test]
fn roles_are_granted_what_exists() {
    with_cases(|case| {
        let schema = case.events.strip_suffix("_log.events").unwrap();
        let granted = format!(
            "SELECT count(*) FROM mysql.tables_priv
             WHERE Table_name = 'event_notifications' AND User = '{schema}_relay'"
        );
        eventlog::roles_are_granted_what_exists(case, &granted);
    });
}

#[test]
fn each_role_of_eventlog_allows_its_own_work_and_nothing_else() {
    for shop in Shop::all() {
        let (schema, url) = (&shop.schema, &shop.url);
        let outbox = |url: &str| {
            format!("url = '{url}'\nlayout = 'eventlog'\nschema = '{schema}'\ntable_schema = '{schema}_log'")
        };
        let case = |url: &str| EventlogCase {
            outbox: outbox(url),
            events: format!("{schema}_log.events"),
            notifications: format!("{schema}_log.event_notifications"),
            index: "",
            sql: &|_| {},
            number: &|_| 0,
        };
        let owner = case(url).program();
        let made = owner.run(&["migrate", "up", "--with", "handlers"]);
        assert_eq!(made.exit, Some(0), "{made:?}");
        shop.sql(&owner.run(&["migrate", "roles"]).stdout);
        let keyword = if url.starts_with("mariadb") { "FOR" } else { "TO" };
        let programs = ["writer", "relay", "viewer", "migrator"].map(|role| {
            let name = format!("{schema}_{}", &role[..1]);
            for sql in [
                format!("CREATE USER '{name}'@'127.0.0.1'"),
                format!("GRANT '{schema}_{role}' TO '{name}'@'127.0.0.1'"),
                format!("SET DEFAULT ROLE '{schema}_{role}' {keyword} '{name}'@'127.0.0.1'"),
            ] {
                shop.sql(&sql);
            }
            case(&url.replace("root@", &format!("{name}@")).replace("/test", "")).program()
        });
        eventlog::each_role_allows_its_own_work_and_nothing_else(programs.each_ref(), "denied");
    }
}
