//! Failures of a server, and the errors for them.

use super::{PASSWORD, Shop, config, secured};
use crate::program::{Program, Ran};

fn refused(ran: &Ran, exit: i32, said: &str) {
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(exit), ""), "{ran:?}");
    assert!(ran.stderr.contains(said), "{ran:?}\nwithout {said}");
    assert!(!ran.stderr.contains(PASSWORD), "{ran:?}");
}

#[test]
fn a_database_without_tables_is_reported_with_the_command_that_creates_them() {
    let Some(shop) = Shop::new() else { return };
    for args in [&["relay"][..], &["status"], &["pause", "orders"], &["write", "--type", "a"]] {
        let ran = shop.program().run(args);
        refused(&ran, 4, "error[PR-0201]: ");
        assert!(ran.stderr.contains("postrider migrate up"), "{ran:?}");
    }
}

#[test]
fn an_unreachable_server_is_named() {
    let program = Program::with_config(&config("postgres://127.0.0.1:1/shop"));
    for args in [&["relay", "--fail-fast"][..], &["status"], &["migrate", "up"], &["write", "--type", "a"]] {
        let said = "error[PR-0302]: postgres://127.0.0.1:1/shop: PostgreSQL cannot be reached: \
                    error connecting to server: Connection refused";
        refused(&program.run(args), 3, said);
    }
    let unknown = Program::with_config(&config("postgres://nobody.invalid/shop?sslmode=disable"));
    refused(
        &unknown.run(&["status"]),
        3,
        "error[PR-0302]: postgres://nobody.invalid/shop?***: PostgreSQL cannot be reached",
    );
}

#[test]
fn a_wrong_login_fails_at_once() {
    let Some(shop) = Shop::new() else { return };
    let said = "PostgreSQL cannot be reached: role \"stranger\" does not exist (SQLSTATE 28000)";
    refused(&Program::with_config(&config(&shop.url_as("stranger"))).run(&["relay"]), 3, said);
    let elsewhere = format!("{}_not", shop.url);
    let ran = Program::with_config(&config(&elsewhere)).run(&["relay"]);
    refused(&ran, 3, "does not exist (SQLSTATE 3D000)");
    assert!(ran.stderr.starts_with("error[PR-0308]"), "{ran:?}");
}

#[test]
fn a_password_is_read_from_a_variable_or_file_and_never_printed() {
    let (Some(shop), Some(_)) = (Shop::new(), secured()) else { return };
    shop.ready();
    let url = shop.url_as("password_user");
    let program = Program::with_config(&config(&url)).variable("KEPT", PASSWORD).file("kept", PASSWORD);
    refused(&program.run(&["status"]), 3, "error[PR-0308]: ");
    let wrong = program.run(&["relay", "--set", "outbox.shop.password=file:postrider.toml"]);
    refused(&wrong, 3, "password authentication failed for user \"password_user\" (SQLSTATE 28P01)");
    let with = url.replace("password_user@", &format!("password_user:{PASSWORD}@"));
    let in_url = Program::with_config(&config(&with));
    for from in ["env:KEPT", "file:kept"] {
        let set = format!("outbox.shop.password={from}");
        for args in [
            &["config", "show", "--origin"][..],
            &["config", "check"],
            &["migrate", "up"],
            &["migrate", "status"],
            &["migrate", "roles"],
            &["write", "--type", "a"],
            &["relay", "--drain", "-vv"],
            &["status", "--json"],
            &["doctor"],
            &["pause", "orders"],
            &["resume", "orders"],
        ] {
            for ran in [program.run(&[args, &["--set", &set]].concat()), in_url.run(args)] {
                assert_eq!(ran.exit, Some(0), "{args:?} {ran:?}");
                assert!(!ran.stdout.contains(PASSWORD) && !ran.stderr.contains(PASSWORD), "{args:?} {ran:?}");
            }
        }
    }
}

#[test]
fn an_altered_outbox_is_refused() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    shop.sql("ALTER TABLE postrider.events ALTER COLUMN position SET CACHE 10");
    refused(&program.run(&["relay"]), 4, "error[PR-0205]: ");
}

#[test]
fn a_read_only_database_is_reported_by_commands_that_write() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    let name = shop.url.rsplit_once('/').unwrap().1;
    shop.sql(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    assert_eq!(program.run(&["status"]).exit, Some(0));
    refused(&program.run(&["write", "--type", "a"]), 3, "error[PR-0304]: ");
    refused(&program.run(&["migrate", "roles", "--outbox", "x"]), 2, "there is no outbox \"x\"");
}
