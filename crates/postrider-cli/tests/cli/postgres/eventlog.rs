//! Layout `eventlog` on PostgreSQL.

use super::{Shop, on};
use crate::eventlog::{self, EventlogCase};
use crate::program::Program;

fn with_case(test: impl FnOnce(&EventlogCase<'_>)) {
    let Some(shop) = Shop::new() else { return };
    with_case_in(&shop, test);
}

fn with_case_in(shop: &Shop, test: impl FnOnce(&EventlogCase<'_>)) {
    test(&case(shop, &|sql| shop.sql(sql), &|sql| shop.number(sql)));
}

fn case<'a>(shop: &Shop, sql: &'a dyn Fn(&str), number: &'a dyn Fn(&str) -> i64) -> EventlogCase<'a> {
    // Roles belong to the whole server, so their names must differ between databases.
    let name = shop.url.rsplit_once('/').unwrap().1;
    EventlogCase {
        outbox: format!("url = '{}'\nlayout = 'eventlog'\nschema = '{name}'", shop.url),
        events: "eventlog.events".to_owned(),
        notifications: "eventlog.event_notifications".to_owned(),
        index: "idx_events_action_id",
        sql,
        number,
    }
}

#[test]
fn the_base_alone_is_written_to_and_listed() {
    with_case(eventlog::the_base_alone_is_written_to_and_listed);
}

#[test]
fn events_are_fanned_out_listed_and_counted() {
    with_case(eventlog::events_are_fanned_out_listed_and_counted);
}

#[test]
fn an_event_that_does_not_fit_is_refused() {
    with_case(eventlog::an_event_that_does_not_fit_is_refused);
}

#[test]
fn the_printed_scripts_run() {
    with_case(eventlog::the_printed_scripts_run);
}

#[test]
fn times_are_utc_in_another_time_zone() {
    with_case(|case| {
        (case.sql)(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Kolkata''', current_database()); END $$",
        );
        eventlog::times_are_utc_in_another_time_zone(case, |column| {
            format!("abs(extract(epoch FROM {column} - (now() AT TIME ZONE 'UTC'))) < 600")
        });
    });
}

#[test]
fn the_doctor_reports_other_handlers_aliases_and_a_missing_index() {
    with_case(|case| {
        let drop_index = "DROP INDEX eventlog.events_undelivered";
        eventlog::the_doctor_reports_other_handlers_aliases_and_a_missing_index(case, drop_index);
    });
}

#[test]
fn roles_are_granted_what_exists() {
    let granted = "SELECT count(*) FROM information_schema.role_table_grants
                   WHERE table_name = 'event_notifications' AND grantee LIKE '%_relay'";
    with_case(|case| eventlog::roles_are_granted_what_exists(case, granted));
}

#[test]
fn each_role_of_eventlog_allows_its_own_work_and_nothing_else() {
    let Some(shop) = Shop::new() else { return };
    let schema = shop.url.rsplit_once('/').unwrap().1.to_owned();
    let (sql, number) = (|sql: &str| shop.sql(sql), |sql: &str| shop.number(sql));
    let case = case(&shop, &sql, &number);
    let owner = case.program();
    for args in [&["migrate", "up", "--with", "handlers"][..], &["migrate", "roles"]] {
        let ran = owner.run(args);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        if args[1] == "roles" {
            shop.sql(&ran.stdout);
        }
    }
    let program = |role: &str| -> Program {
        shop.sql(&format!("CREATE ROLE {schema}_{role}_user LOGIN IN ROLE {schema}_{role}"));
        let url = shop.url_as(&format!("{schema}_{role}_user"));
        case.program().variable("POSTRIDER__OUTBOX__SHOP__URL", &url)
    };
    let programs = ["writer", "relay", "viewer", "migrator"].map(program);
    eventlog::each_role_allows_its_own_work_and_nothing_else(programs.each_ref(), "permission denied");
    let status = programs[0].run(&["status"]);
    assert!(status.exit == Some(3) && status.stderr.contains("permission denied"), "a writer: {status:?}");
    for (role, sql) in [
        ("writer", "UPDATE eventlog.events SET delivered = TRUE"),
        ("writer", "SELECT payload FROM eventlog.events"),
        ("writer", "SELECT 1 FROM eventlog.event_notifications"),
        ("relay", "UPDATE eventlog.events SET payload = '{}'"),
        ("relay", "INSERT INTO eventlog.events SELECT * FROM eventlog.events"),
        ("viewer", "DELETE FROM eventlog.event_notifications"),
    ] {
        let state = on(&shop.url_as(&format!("{schema}_{role}_user")), async |client| {
            client.batch_execute(sql).await.err().and_then(|error| Some(error.code()?.code().to_owned()))
        });
        assert_eq!(state.as_deref(), Some("42501"), "{role}: {sql}");
    }
}

#[test]
fn events_move_from_postrider_to_eventlog_and_back() {
    let Some(shop) = Shop::new() else { return };
    let old = format!("url = '{}'", shop.url);
    with_case_in(&shop, |case| eventlog::events_move_from_postrider_to_eventlog_and_back(case, &old));
}
