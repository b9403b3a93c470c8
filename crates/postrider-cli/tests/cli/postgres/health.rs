//! The findings of `doctor` on a server.

use super::Shop;
use crate::program::Program;
use crate::story::found;

#[test]
fn the_doctor_checks_server_rights_and_tables() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    assert_eq!(program.run(&["relay", "--drain"]).exit, Some(0));
    for code in [
        "PD-0101", "PD-0103", "PD-0121", "PD-0122", "PD-0123", "PD-0125", "PD-0126", "PD-0127", "PD-0128",
        "PD-0129", "PD-0131", "PD-0164",
    ] {
        assert_eq!(found(&program, code).0, "ok", "{code}: {}", found(&program, code).1);
    }
    assert_eq!(found(&program, "PD-0124"), ("warn".into(), "postgres is a superuser".into()));

    shop.sql(
        "INSERT INTO postrider.inbox (consumer_group, event_id, processed_at, expires_at)
         SELECT 'mail', gen_random_uuid(), now() - interval '40 days', now() - hours * interval '1 hour'
         FROM unnest(ARRAY[1, 25, 26]) AS hours",
    );
    let (outcome, what) = found(&program, "PD-0164");
    assert!(outcome == "warn" && what.starts_with("2 row(s) expired"), "{what}");

    shop.sql("CREATE ROLE IF_ANY_WRITER_X NOLOGIN; GRANT UPDATE ON postrider.events TO IF_ANY_WRITER_X");
    let (outcome, what) = found(&program, "PD-0125");
    assert_eq!((outcome.as_str(), what.as_str()), ("warn", "if_any_writer_x may UPDATE events"));
    shop.sql("REVOKE UPDATE ON postrider.events FROM if_any_writer_x; DROP ROLE if_any_writer_x");

    let name = shop.url.rsplit_once('/').unwrap().1;
    shop.sql(&format!("ALTER DATABASE {name} SET synchronous_commit = off"));
    let (outcome, what) = found(&program, "PD-0130");
    assert!(outcome == "warn" && what.contains("synchronous_commit = off"), "{what}");

    shop.sql("ALTER TABLE postrider.events ALTER COLUMN position SET CACHE 10");
    let ran = program.run(&["doctor"]);
    assert_eq!(ran.exit, Some(5), "{ran:?}");
    assert!(ran.stdout.contains("differs from what the migrations created"), "{ran:?}");
}

#[test]
fn the_doctor_reports_a_server_that_is_down_and_one_without_tables() {
    let nowhere = Program::with_config(&super::config("postgres://127.0.0.1:1/shop"));
    assert_eq!(found(&nowhere, "PD-0101").0, "fail");
    let Some(shop) = Shop::new() else { return };
    assert_eq!(found(&shop.program(), "PD-0103").0, "fail");
}
