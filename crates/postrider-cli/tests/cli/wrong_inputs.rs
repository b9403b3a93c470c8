//! Every wrong input to every command is reported with a clear error, ends with the documented exit code, prints no
//! data and changes no file. Wrong configurations are in a separate table.

use crate::program::Program;
use crate::shop::{self, GOOD};

/// The folder in which the command runs.
#[derive(Debug, Clone, Copy)]
enum Scene {
    /// An empty folder.
    Empty,
    /// A configuration, and no database.
    Configured,
    /// A configuration and its database, with one event.
    Ready,
    /// The database was migrated by a later version.
    Newer,
    /// A SQLite file of another program.
    Foreign,
    /// A file that is not a database.
    Garbage,
    /// A folder with the name of the database.
    Folder,
    /// Two outboxes.
    Two,
}
use Scene::{Configured, Empty, Folder, Foreign, Garbage, Newer, Ready, Two};

impl Scene {
    fn program(self) -> Program {
        let configured = || Program::with_config(GOOD);
        match self {
            Empty => Program::new(),
            Configured => configured(),
            Ready => shop::ready(),
            Newer => {
                let program = shop::ready();
                shop::run_sql(&program, "INSERT INTO postrider_migrations VALUES (99, 0)");
                program
            }
            Foreign => {
                let program = configured();
                shop::run_sql(&program, "CREATE TABLE orders (id INTEGER)");
                program
            }
            Garbage => configured().file("shop.db", &"this is no database ".repeat(100)),
            Folder => {
                let program = configured();
                std::fs::create_dir(program.path().join("shop.db")).unwrap();
                program
            }
            Two => Program::with_config(
                &format!("{GOOD}[outbox.other]\nurl = 'sqlite:b.db'\n")
                    .replace("sink = 'out'", "sink = 'out'\noutbox = 'shop'"),
            ),
        }
    }
}

struct Wrong {
    scene: Scene,
    args: &'static [&'static str],
    input: &'static [u8],
    exit: i32,
    /// The message contains all of these; the code first, if there is one.
    says: &'static [&'static str],
}

const fn run(scene: Scene, args: &'static [&'static str], exit: i32, says: &'static [&'static str]) -> Wrong {
    Wrong { scene, args, input: b"", exit, says }
}

const fn lines(input: &'static [u8], exit: i32, says: &'static [&'static str]) -> Wrong {
    Wrong { scene: Ready, args: &["write", "--lines"], input, exit, says }
}

#[rustfmt::skip]
const ALL: &[Wrong] = &[
    // Commands and flags that do not exist or do not go together
    run(Ready, &["rellay"], 2, &["unrecognized subcommand 'rellay'", "'relay'"]),
    run(Ready, &["relay", "--darin"], 2, &["unexpected argument '--darin'", "'--drain'"]),
    run(Ready, &["relay", "now"], 2, &["unexpected argument 'now'"]),
    run(Ready, &["status", "-v", "-q"], 2, &["'--verbose...' cannot be used with '--quiet'"]),
    run(Ready, &["migrate"], 2, &["migrate up"]),
    run(Ready, &["migrate", "upp"], 2, &["unrecognized subcommand 'upp'", "'up'"]),
    run(Ready, &["write"], 2, &["--type <TYPE>"]),
    run(Ready, &["write", "--lines", "--type", "a"], 2, &["cannot be used with"]),
    run(Ready, &["write", "--lines", "--key", "a"], 2, &["cannot be used with"]),
    run(Ready, &["write", "--type", "a", "--batch", "5"], 2, &["cannot be used with"]),
    run(Ready, &["write", "--lines", "--batch", "0"], 2, &["invalid value '0' for '--batch <N>'", "1..=10000"]),
    run(Ready, &["write", "--lines", "--batch", "many"], 2, &["invalid value 'many'"]),
    run(Ready, &["completions", "tcsh"], 2, &["invalid value 'tcsh'", "bash"]),
    run(Ready, &["status", "--config", "nowhere.toml"], 2, &["PR-0601", "nowhere.toml"]),
    run(Ready, &["write", "--type", "a", "--payload", "postgres://u:pw@h/db"], 2, &["PR-0608", "standard input"]),
    // Configurations that do not fit the command
    run(Empty, &["relay"], 2, &["PR-0605", "no subscription is configured", "config init"]),
    run(Empty, &["migrate", "up"], 2, &["PR-0605", "no outbox is configured"]),
    run(Empty, &["migrate", "print"], 2, &["PR-0605", "no outbox is configured"]),
    run(Empty, &["status"], 2, &["PR-0605", "no outbox is configured"]),
    run(Empty, &["write", "--type", "a"], 2, &["PR-0605", "no outbox is configured"]),
    run(Ready, &["migrate", "up", "--outbox", "shpo"], 2, &["PR-0606", "no outbox \"shpo\"", "did you mean \"shop\"?"]),
    run(Ready, &["status", "--outbox", "qqq"], 2, &["PR-0606", "no outbox \"qqq\"", "there is \"shop\""]),
    run(Ready, &["write", "--outbox", "qqq", "--type", "a"], 2, &["PR-0606", "no outbox \"qqq\""]),
    run(Two, &["write", "--type", "a"], 2, &["PR-0606", "several outboxes are configured: other, shop", "--outbox NAME"]),
    run(Ready, &["relay", "--set", "relay.lgo=info"], 2, &["PR-0603", "did you mean \"log\"?"]),
    run(Ready, &["doctor", "--set", "subscription.orders.lease=1"], 2, &["PR-0604", "a duration"]),
    run(Ready, &["relay", "--set", "subscription.orders.lease=1ms"], 2, &["PR-0401", "lease is 1ms"]),
    run(Ready, &["relay", "--set", "outbox.shop.url=env:NOWHERE"], 2, &["PR-0607", "NOWHERE is not set"]),
    // Databases that cannot be reached
    run(Garbage, &["relay"], 3, &["PR-0302", "file is not a database"]),
    run(Garbage, &["migrate", "up"], 3, &["PR-0302", "file is not a database"]),
    run(Garbage, &["migrate", "status"], 3, &["PR-0302", "file is not a database"]),
    run(Garbage, &["status"], 3, &["PR-0302", "file is not a database"]),
    run(Garbage, &["write", "--type", "a"], 3, &["PR-0302", "file is not a database"]),
    run(Folder, &["relay"], 3, &["PR-0302", "cannot open shop.db", "nothing was read or changed"]),
    run(Folder, &["migrate", "up"], 3, &["PR-0302", "cannot open shop.db"]),
    run(Folder, &["status"], 3, &["PR-0302", "cannot open shop.db"]),
    run(Ready, &["migrate", "up", "--set", "outbox.shop.url=sqlite:no/shop.db"], 3, &["PR-0302", "cannot open no/shop.db"]),
    run(Ready, &["migrate", "up", "--set", "outbox.shop.url=sqlite:postrider.toml/shop.db"], 3, &["PR-0302", "cannot open"]),
    run(Ready, &["relay", "--migrate", "--set", "outbox.shop.url=sqlite:no/shop.db"], 3, &["PR-0302", "cannot open no/shop.db"]),
    // Schemas that are missing, newer, or of another program
    run(Configured, &["relay"], 4, &["PR-0201", "no file shop.db", "postrider migrate up"]),
    run(Configured, &["status"], 4, &["PR-0201", "no file shop.db"]),
    run(Configured, &["write", "--type", "a"], 4, &["PR-0201", "no file shop.db"]),
    run(Configured, &["write", "--lines"], 4, &["PR-0201", "no file shop.db"]),
    run(Foreign, &["relay"], 4, &["PR-0201", "has schema 0, this program needs 5"]),
    run(Foreign, &["status"], 4, &["PR-0201", "has schema 0"]),
    run(Foreign, &["write", "--type", "a"], 4, &["PR-0201", "has schema 0"]),
    run(Newer, &["relay"], 4, &["PR-0202", "has schema 99, this program knows 5", "upgrade this program"]),
    run(Newer, &["relay", "--migrate"], 4, &["PR-0202", "has schema 99"]),
    run(Newer, &["migrate", "up"], 4, &["PR-0202", "has schema 99"]),
    run(Newer, &["status"], 4, &["PR-0202", "has schema 99"]),
    run(Newer, &["write", "--type", "a"], 4, &["PR-0202", "has schema 99"]),
    // Destinations that cannot be opened
    run(Ready, &["relay", "--set", "sink.out.path=no/events.jsonl"], 7, &["PR-0501", "no/events.jsonl", "nothing was published"]),
    run(Ready, &["relay", "--set", "sink.out.path=postrider.toml/a"], 7, &["PR-0501", "postrider.toml/a"]),
    // Flags that describe no event
    run(Ready, &["write", "--type", ""], 6, &["PR-0101", "the event: the type is empty"]),
    run(Ready, &["write", "--type", "a\u{7}b"], 6, &["PR-0103", "U+0007"]),
    run(Ready, &["write", "--type", "abc", "--set", "outbox.shop.text_max=2B"], 6, &["PR-0102", "3 bytes; the limit is 2"]),
    run(Ready, &["write", "--type", "a", "--payload", "abc", "--set", "outbox.shop.payload_max=2B"], 6, &["PR-0106", "3 bytes; the limit is 2"]),
    run(Ready, &["write", "--type", "a", "--payload", "@nowhere.json"], 6, &["PR-0116", "nowhere.json", "--payload -"]),
    run(Ready, &["write", "--type", "a", "--header", "a b=1"], 6, &["PR-0104", "\"a b\""]),
    run(Ready, &["write", "--type", "a", "--header", "postrider-id=1"], 6, &["PR-0113", "reserved"]),
    run(Ready, &["write", "--type", "a", "--header", "tenant"], 2, &["invalid value 'tenant'", "NAME=VALUE"]),
    run(Ready, &["write", "--type", "a", "--aggregate", "Order"], 2, &["invalid value 'Order'", "Order:42"]),
    run(Ready, &["write", "--type", "a", "--aggregate", ":42"], 6, &["PR-0109", "aggregate type is empty"]),
    run(Ready, &["write", "--type", "a", "--id", "42"], 2, &["invalid value '42' for '--id <UUID>'"]),
    run(Ready, &["write", "--type", "a", "--time", "noon"], 2, &["invalid value 'noon' for '--time"]),
    run(Ready, &["write", "--type", "a", "--max-attempts", "0"], 6, &["PR-0111", "at least 1"]),
    // Lines that are no events
    lines(b"", 6, &["PR-0116", "standard input is empty", "write --lines < events.jsonl"]),
    lines(b"\n  \n", 6, &["PR-0116", "standard input is empty"]),
    lines(b"{\"type\":\"a\",\"payload\":1}\n{\"type\":\"a\",\"payload\":2}\n{\"type\":\n{\"type\":\"a\",\"payload\":4}\n{\"type\":\"a\",\"payload\":5}\n",
        6, &["PR-0115", "line 3, column 8", "nothing was written"]),
    lines(b"{\"type\":\"a\",\"payload\":1}\n\n{\"tipe\":\"a\",\"payload\":2}\n", 6, &["PR-0115", "line 3, column 7: unknown field `tipe`", "`type`"]),
    lines(b"{\"type\":\"a\",\"payload\":1}\n{\"type\":\"a\"}\n", 6, &["PR-0115", "line 2: neither payload nor payload_base64 is set"]),
    lines(b"{\"type\":\"a\",\"payload\":1}\n{\"type\":\"\",\"payload\":1}\n", 6, &["PR-0101", "line 2: the type is empty", "nothing was written"]),
    lines(b"{\"type\":\"a\",\"payload\":\"\xff\"}\n", 6, &["PR-0115", "line 1, column 24: invalid unicode"]),
    lines(b"[1, 2]\n", 6, &["PR-0115", "line 1"]),
    lines(b"{\"type\":\"a\",\"payload\":1,\"id\":\"01980b7c-5a00-7000-8000-000000000001\"}\n{\"type\":\"a\",\"payload\":1,\"id\":\"01980b7c-5a00-7000-8000-000000000001\"}\n",
        6, &["PR-0108", "the batch of lines 1 to 2 was not written", "occurs twice", "nothing was written"]),
];

#[test]
fn every_invalid_input_is_reported_and_changes_nothing() {
    assert!(ALL.len() >= 40);
    for Wrong { scene, args, input, exit, says } in ALL {
        let program = scene.program();
        let before = program.files();
        let ran = program.run_with(args, input);
        assert_eq!((ran.exit, ran.stdout.as_str()), (Some(*exit), ""), "{scene:?} {args:?}: {ran:?}");
        for text in *says {
            assert!(ran.stderr.contains(text), "{scene:?} {args:?}: no {text} in\n{}", ran.stderr);
        }
        assert!(ran.stderr.matches("error[").count() <= 1, "one mistake, one error: {}", ran.stderr);
        assert!(program.files() == before, "{scene:?} {args:?} changed something");
    }
}

#[test]
fn batches_before_an_invalid_line_stay_committed_and_are_reported() {
    let program = shop::ready();
    let input = "{\"type\":\"a\",\"payload\":1}\n".repeat(5) + "{\n";
    let ran = program.run_with(&["write", "--lines", "--batch", "2"], input.as_bytes());
    assert_eq!((ran.exit, ran.stdout.lines().count()), (Some(6), 4), "{ran:?}");
    assert!(ran.stderr.contains("line 6, column 1"), "{ran:?}");
    assert!(ran.stderr.contains("lines 1 to 4 are committed (4 events); later lines are not"), "{ran:?}");
    assert_eq!(shop::events(&program), 1 + 4);
}

#[test]
fn the_doctor_reports_what_it_cannot_check_and_changes_nothing() {
    for (scene, code) in [
        (Configured, "PD-0101"),
        (Garbage, "PD-0101"),
        (Folder, "PD-0101"),
        (Foreign, "PD-0103"),
        (Newer, "PD-0103"),
    ] {
        let program = scene.program();
        let before = program.files();
        let ran = program.run(&["doctor"]);
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(5), ""), "{scene:?}: {ran:?}");
        let failed: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("FAIL")).collect();
        assert!(failed.iter().any(|line| line.contains(code)), "{scene:?}: {}", ran.stdout);
        assert!(program.files() == before, "{scene:?}");
    }
}
