//! The output of `write` for a transaction that the server does not commit.

use super::Shop;
use crate::program::Ran;

/// Runs this at the end of a transaction that wrote an event of that type.
fn at_commit(shop: &Shop, event: &str, does: &str) {
    shop.sql(&format!(
        "CREATE FUNCTION at_commit_of_{event}() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN {does} RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER at_commit_of_{event} AFTER INSERT ON postrider.events
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.type = '{event}')
             EXECUTE FUNCTION at_commit_of_{event}()"
    ));
}

fn says(ran: &Ran, code: &str, said: &[&str]) {
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(3), ""), "{ran:?}");
    assert!(ran.stderr.contains(&format!("error[{code}]: ")), "{ran:?} is not {code}");
    for said in said {
        assert!(ran.stderr.contains(said), "{ran:?}\nwithout {said}");
    }
}

#[test]
fn a_refused_commit_is_reported_as_nothing_written() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    at_commit(&shop, "unwanted", "RAISE 'not this one' USING ERRCODE = 'check_violation';");
    at_commit(&shop, "unlucky", "RAISE 'try again' USING ERRCODE = 'serialization_failure';");
    shop.sql("ALTER TABLE postrider.events ADD CONSTRAINT known CHECK (type <> 'unknown')");
    let write = |event: &str| program.run(&["write", "--type", event]);
    says(&write("unwanted"), "PR-0302", &["not this one (SQLSTATE 23514)\n  nothing was written\n"]);
    says(
        &write("unlucky"),
        "PR-0301",
        &["try again (SQLSTATE 40001)\n  nothing was written\n  write the events again"],
    );
    says(&write("unknown"), "PR-0302", &["violates check constraint \"known\"", "\n  nothing was written\n"]);
    let lines = "{\"type\":\"a\",\"payload\":1}\n{\"type\":\"unlucky\",\"payload\":1}\n";
    let ran = program.run_with(&["write", "--lines"], lines.as_bytes());
    let what = "the batch of lines 1 to 2 was not written: ";
    says(&ran, "PR-0301", &[what, "try again", "\n  nothing was written\n  write the events again"]);
    assert_eq!(shop.number("SELECT count(*) FROM postrider.events"), 1);
}

#[test]
fn a_commit_without_a_response_is_reported_as_of_unknown_outcome() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    at_commit(&shop, "fatal", "PERFORM pg_terminate_backend(pg_backend_pid());");
    let ran = program.run(&["write", "--type", "fatal"]);
    says(&ran, "PR-0303", &["either all of the events were written or none", "check the outbox before"]);
    let ran = program.run_with(&["write", "--lines"], b"{\"type\":\"fatal\",\"payload\":1}\n");
    says(&ran, "PR-0303", &["the batch of lines 1 to 1: ", "no earlier batch was committed"]);
}
