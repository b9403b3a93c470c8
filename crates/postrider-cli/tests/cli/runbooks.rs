//! Each runbook is followed as an operator would: the fault is created, the commands of the page are run, and the outbox is
//! healthy afterwards.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cleanup::json;
use crate::dead::give_two_events_up;
use crate::program::{Program, Ran};
use crate::shop::{self, Running, number, run_sql, status, until};
use crate::story::{found, start_relay, write_order};
use crate::webhook::endpoint_on;

/// Pages that no test here follows, and why.
const NOT_FOLLOWED: &[(&str, &str)] = &[
    ("README", "the list of the pages"),
    ("clocks", "a test cannot change the clock of the machine"),
    ("database-settings", "the commands of the database are not Postrider's"),
    ("layout", "the table belongs to another program; tests/cli/eventlog.rs has the findings"),
    ("no-progress", "a relay that leads and does not deliver is a defect"),
    (
        "open-transaction-old",
        "tests/cli/postgres/checks.rs has the finding, the rest are commands of the database",
    ),
    ("target-missing", "it is about Prometheus"),
    ("undelivered-too-old", "it leads to the other pages"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/runbooks")
}

/// A page, and the words of its commands that stand for something.
pub(crate) struct Runbook<'a> {
    commands: Vec<Vec<String>>,
    words: Vec<(&'a str, &'a str)>,
}

impl<'a> Runbook<'a> {
    pub(crate) fn open(name: &str, words: &[(&'a str, &'a str)]) -> Self {
        assert!(NOT_FOLLOWED.iter().all(|(page, _)| *page != name), "{name} is followed");
        let page = std::fs::read_to_string(folder().join(format!("{name}.md"))).unwrap();
        let indented = page.lines().filter(|line| line.starts_with("    ")).map(str::trim);
        let commands = indented.chain(page.split('`')).filter_map(|text| text.strip_prefix("postrider "));
        let commands = commands.map(words_of).collect();
        Self { commands, words: [&[("NAME", "orders")], words].concat() }
    }

    /// The first command of the page that begins like this.
    fn command(&self, begin: &str) -> Vec<String> {
        let begin: Vec<&str> = begin.split(' ').collect();
        let found = self
            .commands
            .iter()
            .find(|command| command.iter().map(String::as_str).take(begin.len()).eq(begin.iter().copied()));
        let found = found.unwrap_or_else(|| panic!("the page has no command {begin:?}: {:?}", self.commands));
        let word = |word: &String| {
            self.words.iter().fold(word.clone(), |word, (name, value)| match word.as_str() == *name {
                true => (*value).to_owned(),
                false => word.replace(&format!(":{name}"), &format!(":{value}")),
            })
        };
        found.iter().map(word).collect()
    }

    /// Runs it, with further arguments, and expects that it works.
    pub(crate) fn run(&self, program: &Program, begin: &str, more: &[&str]) -> String {
        let command = self.command(begin);
        let args: Vec<&str> = command.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let ran = program.run(&args);
        assert_eq!(ran.exit, Some(0), "{args:?} {ran:?}");
        ran.stdout + &ran.stderr
    }

    /// Runs `doctor`, which finds something: it names this page.
    fn doctor_finds(&self, program: &Program, code: &str, page: &str) {
        let ran = program.run(&["doctor", "--json"]);
        let findings: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
        let finding = findings.iter().find(|finding| finding["code"] == code && finding["outcome"] != "ok");
        let finding = finding.unwrap_or_else(|| panic!("no {code} in {}", ran.stdout));
        assert_eq!(finding["runbook"], format!("docs/src/runbooks/{page}.md"), "{finding}");
    }
}

/// The words of a command line. Quotes keep words together.
fn words_of(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for char in line.chars() {
        match char {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            char => words.last_mut().unwrap().push(char),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn drain(program: &Program) -> Ran {
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    ran
}

/// Nothing waits, and the doctor is content. The disk of the test machine may be nearly full.
pub(crate) fn healthy(program: &Program) {
    let now = status(program);
    assert_eq!((&now["backlog"]["events"], &now["halted"]), (&0.into(), &Value::Null), "{now}");
    assert_eq!(json(&program.run(&["parked", "list", "--json"])), Value::Array(Vec::new()));
    let ran = program.run(&["doctor", "--json"]);
    let findings: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    for finding in findings.iter().filter(|finding| finding["code"] != "PD-0108") {
        assert_eq!(finding["outcome"], "ok", "{finding}");
    }
}

/// A shop whose relay has delivered this many orders of customer 42.
fn delivered(orders: usize) -> Program {
    let program = Program::with_config(shop::GOOD);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    for _ in 0..orders {
        assert_eq!(write_order(&program, "{}").exit, Some(0));
    }
    drain(&program);
    program
}

fn lines(program: &Program) -> usize {
    std::fs::read_to_string(program.path().join("events.jsonl")).unwrap().lines().count()
}

#[test]
fn every_runbook_is_followed_by_a_test_or_says_why_not() {
    let followed =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/runbooks.rs"));
    let postgres = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/postgres/roles.rs");
    let followed = followed.unwrap() + &std::fs::read_to_string(postgres).unwrap();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
        let is_followed = followed.contains(&format!("Runbook::open(\"{name}\""));
        let is_listed = NOT_FOLLOWED.iter().any(|(page, _)| *page == name);
        assert!(is_followed != is_listed, "{name}");
    }
}

#[test]
fn a_stuck_key_is_freed() {
    let book = Runbook::open("stuck-key", &[("KEY", "Order/42"), ("EVENT", "2")]);
    let program = delivered(1);
    let config = program.path().join("postrider.toml");
    std::fs::write(&config, format!("{}[[subscription.orders.rule]]\ntypes = ['other']\n", shop::GOOD))
        .unwrap();
    write_order(&program, "{}");
    write_order(&program, "{}");
    assert_eq!(program.run(&["relay", "--drain"]).exit, Some(1));
    assert!(book.run(&program, "explain --key", &[]).contains("no routing rule matches it"));
    book.run(&program, "parked kill", &[]);
    assert!(book.run(&program, "explain --key", &[]).contains("event 2 dead: given up"));
    std::fs::write(&config, shop::GOOD).unwrap();
    book.run(&program, "parked retry --key", &[]);
    drain(&program);
    assert_eq!(program.run(&["dead", "retry", "--all", "--out-of-order", "--yes"]).exit, Some(0));
    drain(&program);
    assert!(book.run(&program, "explain --key", &[]).contains("no event with this key waits"));
    assert_eq!(lines(&program), 3);
    healthy(&program);
}

#[test]
fn a_poison_event_is_found_and_decided_about() {
    let program = Program::with_config(shop::GOOD);
    give_two_events_up(&program);
    let book = Runbook::open("poison-event", &[("EVENT", "2")]);
    assert!(book.run(&program, "dead list", &[]).contains("order.placed"));
    book.run(&program, "parked list", &[]);
    assert!(book.run(&program, "dead show", &[]).contains("line break"));
    assert!(book.run(&program, "events show EVENT --payload", &[]).contains("payload"));
    book.doctor_finds(&program, "PD-0208", "dead-events");
    book.run(&program, "dead retry", &[]);
    Runbook::open("poison-event", &[("EVENT", "3")]).run(&program, "dead discard", &[]);
    drain(&program);
    assert_eq!(lines(&program), 2);
    healthy(&program);
}

#[test]
fn dead_events_are_retried_after_the_consumer_is_fixed() {
    let program = Program::with_config(shop::GOOD);
    give_two_events_up(&program);
    let book = Runbook::open("dead-events", &[("ID", "2")]);
    assert!(book.run(&program, "dead list --subscription", &[]).contains("order.placed"));
    book.run(&program, "dead show", &[]);
    book.run(&program, "dead retry --subscription", &["--type", "order.placed", "--yes"]);
    drain(&program);
    assert_eq!(lines(&program), 3);
    healthy(&program);
}

#[test]
fn the_limit_of_parked_events_is_left() {
    let limit = shop::GOOD.to_owned() + "parked_max = 2\n";
    let program = Program::with_config(&limit);
    give_two_events_up(&program);
    let book = Runbook::open("parking-nearly-full", &[]);
    book.doctor_finds(&program, "PD-0207", "parking-nearly-full");
    book.run(&program, "status", &[]);
    book.run(&program, "dead list --subscription", &[]);
    book.run(&program, "dead discard", &["--type", "order.placed", "--reason", "test data", "--yes"]);
    healthy(&program);
}

#[test]
fn a_paused_subscription_continues() {
    let program = delivered(1);
    assert_eq!(program.run(&["pause", "orders", "--reason", "moving house"]).exit, Some(0));
    write_order(&program, "{}");
    let book = Runbook::open("paused-for-long", &[]);
    book.doctor_finds(&program, "PD-0205", "paused-for-long");
    assert!(book.run(&program, "status", &[]).contains("moving house"));
    assert!(book.run(&program, "audit list --subscription", &[]).contains("moving house"));
    book.run(&program, "resume", &[]);
    drain(&program);
    healthy(&program);
}

#[test]
fn a_relay_is_started_where_none_runs() {
    let program = delivered(1);
    write_order(&program, "{}");
    let book = Runbook::open("no-relay", &[]);
    book.doctor_finds(&program, "PD-0203", "no-relay");
    book.run(&program, "status", &[]);
    let relay = start_relay(&program);
    until(|| (status(&program)["backlog"]["events"] == 0).then_some(()));
    assert!(book.run(&program, "status", &[]).contains("led by"));
    healthy(&program);
    relay.signal("TERM");
    assert_eq!(relay.end().0, Some(0));
}

/// The log of the relay that takes over names the one that died.
#[test]
fn a_takeover_after_a_crash_names_the_relay_that_died() {
    let program = Program::with_config(&(shop::GOOD.to_owned() + "lease = '1s'\n"));
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let died = start_relay(&program);
    let name = status(&program)["lease"]["holder"].as_str().unwrap().to_owned();
    drop(died);
    write_order(&program, "{}");
    let mut command = program.command(&["relay"]);
    command.stderr(std::process::Stdio::piped());
    let mut relay = Running::start(command);
    let line = relay.until_it_says("leading");
    assert!(line.contains(&format!("{name} did not release its lease")), "{line}");
    let book = Runbook::open("takeovers-often", &[]);
    until(|| book.run(&program, "status", &[]).contains("LOST").then_some(()));
    until(|| (status(&program)["floor"] == 1).then_some(()));
    relay.signal("TERM");
    relay.end();
    healthy(&program);
}

/// The relay is not restarted for it.
#[test]
fn a_destination_that_was_down_receives_everything() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let program = Program::with_config(&format!(
        "[outbox.shop]\nurl = 'sqlite:shop.db'\n[sink.hook]\ntype = 'webhook'\nurl = 'http://{address}/'\n\
         allow_private = true\n[subscription.orders]\nsink = 'hook'\nstart = 'beginning'\nprobe_min = '50ms'\n\
         probe_max = '100ms'\n"
    ));
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    write_order(&program, "{}");
    let relay = start_relay(&program);
    let book = Runbook::open("destination-down", &[]);
    until(|| book.run(&program, "status", &[]).contains("is DOWN since").then_some(()));
    book.doctor_finds(&program, "PD-0220", "destination-down");
    book.doctor_finds(&program, "PD-0210", "destination-down");
    let (_, requests) = endpoint_on(TcpListener::bind(address).unwrap(), 204);
    requests.recv().unwrap();
    until(|| (status(&program)["floor"] == 1 && found(&program, "PD-0220").0 == "ok").then_some(()));
    assert!(!book.run(&program, "status", &[]).contains("DOWN"));
    relay.signal("TERM");
    assert_eq!(relay.end().0, Some(0));
    book.run(&program, "doctor", &[]);
    healthy(&program);
}

/// Positions are assigned again, as on a replica that lacked the last commits.
fn halted() -> Program {
    let program = delivered(3);
    run_sql(
        &program,
        "DELETE FROM postrider_events; DELETE FROM sqlite_sequence WHERE name = 'postrider_events'",
    );
    write_order(&program, "{}");
    assert_ne!(program.run(&["relay", "--drain"]).exit, Some(0));
    assert!(status(&program)["reason"].as_str().is_some(), "{}", status(&program));
    program
}

#[test]
fn a_halted_subscription_continues_with_the_history_that_was_accepted() {
    for (name, from) in [
        ("halted", "accept-history NAME --from beginning"),
        ("database-failed-over", "accept-history NAME --from position:POSITION"),
    ] {
        let program = halted();
        let book = match name {
            "halted" => Runbook::open("halted", &[("beginning|now|position:N|time:T", "beginning")]),
            _ => Runbook::open("database-failed-over", &[("POSITION", "1")]),
        };
        book.doctor_finds(&program, "PD-0206", "halted");
        book.run(&program, "status", &[]);
        match name {
            "halted" => {
                drop(book.run(&program, "accept-history NAME --from beginning|now|position:N|time:T", &[]))
            }
            _ => drop(book.run(&program, from, &[])),
        }
        write_order(&program, "{}");
        drain(&program);
        healthy(&program);
        let audit = json(&program.run(&["audit", "list", "--json"]));
        assert_eq!(audit[0]["action"], "accept-history", "{name}: {audit}");
    }
}

#[test]
fn a_restored_file_continues_with_its_own_progress() {
    let program = delivered(1);
    let file = |name: &str| program.path().join(name);
    run_sql(
        &program,
        "VACUUM INTO 'backup.db'".replace("backup.db", file("backup.db").to_str().unwrap()).as_str(),
    );
    write_order(&program, "{}");
    drain(&program);
    for name in ["shop.db", "shop.db-wal", "shop.db-shm"] {
        let _ = std::fs::remove_file(file(name));
    }
    std::fs::rename(file("backup.db"), file("shop.db")).unwrap();
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let book = Runbook::open("restored-from-backup", &[]);
    book.run(&program, "status", &[]);
    assert!(book.run(&program, "subscriptions list", &[]).contains("orders"));
    book.run(&program, "accept-history NAME --from floor", &[]);
    write_order(&program, "{}");
    drain(&program);
    assert_eq!(lines(&program), 3, "one before the backup, one that was lost, one after it");
    healthy(&program);
}

#[test]
fn a_subscription_is_moved_back() {
    let program = delivered(3);
    let book = Runbook::open("moving-a-subscription", &[("POSITION", "2")]);
    book.run(&program, "subscriptions list", &[]);
    let asked = program.run(&["subscriptions", "move", "orders", "--to", "position:2"]);
    assert!(asked.exit == Some(2) && asked.stderr.contains("2 event(s) are delivered again"), "{asked:?}");
    book.run(&program, "subscriptions move NAME --to position:POSITION --reason", &[]);
    drain(&program);
    assert_eq!(lines(&program), 5);
    healthy(&program);
}

#[test]
fn a_consumer_with_a_bug_gets_its_events_again() {
    let program = delivered(3);
    let times = [("2026-01-31T12:00:00Z", "1h"), ("2026-01-31T13:00:00Z", "0s")];
    let book = Runbook::open("consumer-bug", &times);
    let counted = book.run(&program, "replay NAME --since", &[]);
    assert!(counted.contains("3 finished event(s)"), "{counted}");
    assert_eq!(number(&program, "SELECT count(*) FROM postrider_parked"), 0);
    let replay = book.command("replay NAME --since");
    let replay: Vec<&str> = replay.iter().map(String::as_str).filter(|word| *word != "--dry-run").collect();
    let ran = program.run(&[&replay[..], &["--reason", "bug 4711", "--yes"]].concat());
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    drain(&program);
    assert_eq!(lines(&program), 6);
    assert!(!book.run(&program, "parked list", &[]).contains("replay"));
    assert!(book.run(&program, "audit list", &[]).contains("bug 4711"));
    healthy(&program);
}

#[test]
fn a_table_that_grows_is_cleaned_up_and_a_forgotten_subscription_is_removed() {
    let program = delivered(3);
    assert_eq!(program.run(&["subscriptions", "add", "slow", "--start", "beginning"]).exit, Some(0));
    let table = Runbook::open("table-growing", &[("AGE", "7d")]);
    run_sql(&program, "UPDATE postrider_events SET time = 1500000000000000");
    let behind = Runbook::open("retention-behind", &[("SUBSCRIPTION", "slow")]);
    assert!(behind.run(&program, "status", &[]).contains("blocks retention"));
    behind.doctor_finds(&program, "PD-0003", "configuration");
    let counted = table.run(&program, "cleanup --before AGE --dry-run", &[]);
    assert!(counted.contains("subscription slow still needs events"), "{counted}");
    behind.run(&program, "subscriptions remove", &["--yes"]);
    table.run(&program, "cleanup --before AGE --reason", &[]);
    assert_eq!(
        shop::events(&program),
        1,
        "the newest event stays, so that a restored database is recognised"
    );
    table.run(&program, "doctor", &[]);
    healthy(&program);
}

#[test]
fn a_configuration_that_does_not_fit_is_found() {
    let program = delivered(1);
    let book = Runbook::open("configuration", &[]);
    let relay = start_relay(&program);
    let toml = program.path().join("postrider.toml");
    std::fs::write(&toml, shop::GOOD.to_owned() + "max_attempts = 3\n").unwrap();
    book.doctor_finds(&program, "PD-0211", "configuration");
    book.run(&program, "config show", &[]);
    book.run(&program, "config check", &[]);
    relay.signal("TERM");
    assert_eq!(relay.end().0, Some(0));
    let relay = start_relay(&program);
    assert_eq!(found(&program, "PD-0211"), ("ok".to_owned(), "relays with the same settings: 1".to_owned()));
    healthy(&program);
    drop(relay);
}

#[test]
fn missing_tables_and_a_missing_database_are_found() {
    let program = Program::with_config(shop::GOOD);
    let reachable = Runbook::open("database-unreachable", &[]);
    reachable.doctor_finds(&program, "PD-0101", "database-unreachable");
    let book = Runbook::open("schema", &[]);
    assert!(book.run(&program, "migrate print", &[]).contains("CREATE TABLE"));
    book.run(&program, "migrate up", &[]);
    book.run(&program, "migrate status", &[]);
    drain(&program);
    reachable.run(&program, "doctor", &[]);
    healthy(&program);
}

#[test]
fn an_inbox_with_expired_rows_and_without_its_key_is_found() {
    let program = delivered(1);
    let book = Runbook::open("inbox", &[]);
    let table = "CREATE TABLE postrider_inbox (consumer_group TEXT NOT NULL, event_id TEXT NOT NULL,
                 processed_at INTEGER NOT NULL, expires_at INTEGER NOT NULL";
    run_sql(
        &program,
        &format!(
            "DROP TABLE postrider_inbox; {table});
             INSERT INTO postrider_inbox VALUES ('mail', '019a0000-0000-7000-8000-000000000000', 0, 1)"
        ),
    );
    book.doctor_finds(&program, "PD-0165", "inbox");
    book.doctor_finds(&program, "PD-0164", "inbox");
    assert!(book.run(&program, "inbox list", &[]).contains("mail"));
    book.run(&program, "inbox clean", &[]);
    run_sql(
        &program,
        &format!("DROP TABLE postrider_inbox; {table}, PRIMARY KEY (consumer_group, event_id))"),
    );
    healthy(&program);
}
