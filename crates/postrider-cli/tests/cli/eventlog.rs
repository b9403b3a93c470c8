//! Layout `eventlog` from the command line: the steps that PostgreSQL, MySQL and MariaDB share.

use serde_json::Value;

use crate::program::{Program, Ran};
use crate::story::found;

/// A database, and where the tables are in it.
pub(crate) struct EventlogCase<'a> {
    /// The keys of the outbox.
    pub(crate) outbox: String,
    pub(crate) events: String,
    pub(crate) notifications: String,
    /// The key or index name that a plan shows for a search by action.
    pub(crate) index: &'a str,
    pub(crate) sql: &'a dyn Fn(&str),
    pub(crate) number: &'a dyn Fn(&str) -> i64,
}

impl EventlogCase<'_> {
    /// Two handlers, `mail` and `stock`, each with its own file.
    pub(crate) fn program(&self) -> Program {
        Program::with_config(&format!(
            "[outbox.shop]\n{}\n\
             [sink.mail]\ntype = 'file'\npath = 'mail.jsonl'\n[sink.stock]\ntype = 'file'\npath = 'stock.jsonl'\n\
             [subscription.mail]\nsink = 'mail'\n[subscription.stock]\nsink = 'stock'\nonly = ['OrderPlaced']\n",
            self.outbox
        ))
    }

    /// Inserts a row as another program does; `event_type` NULL is an action without events.
    fn insert(&self, id: &str, action: &str, event_type: &str) {
        (self.sql)(&format!(
            "INSERT INTO {} (id, namespace, action_id, action_name, action_params, started_date, completion_date,
                             model_id, model_type, event_type, payload, event_date, delivered)
             VALUES ('{id}', 'shop', '{action}', 'PlaceOrder', '{{}}', '2026-11-18 01:00:00', '2026-11-18 01:00:01',
                     '42', 'Order', {event_type}, '{{\"total\": 12}}', '2026-11-18 01:00:00.5', FALSE)",
            self.events
        ));
    }
}

fn ran(program: &Program, args: &[&str]) -> Ran {
    let ran = program.run(args);
    assert_eq!(ran.exit, Some(0), "{args:?} {ran:?}");
    ran
}

fn json(program: &Program, args: &[&str]) -> Vec<Value> {
    serde_json::from_str(&ran(program, &[args, &["--json"]].concat()).stdout).unwrap()
}

fn lines(program: &Program, file: &str) -> usize {
    std::fs::read_to_string(program.path().join(file)).unwrap_or_default().lines().count()
}

const WRITE: [&str; 11] = [
    "write",
    "--type",
    "OrderPlaced",
    "--aggregate",
    "Order:42",
    "--namespace",
    "shop",
    "--action",
    "PlaceOrder",
    "--params",
    "{\"cart\": 7}",
];

/// Backlog by subscription.
fn backlogs(program: &Program) -> Vec<(String, u64)> {
    let of = |row: &Value| {
        (row["subscription"].as_str().unwrap().to_owned(), row["backlog"]["events"].as_u64().unwrap())
    };
    json(program, &["status"]).iter().map(of).collect()
}

/// What `explain` says about an event of the action, by handler.
fn explained(program: &Program, number: &str) -> Vec<(String, String)> {
    let id = format!("0192d1c0-6a4e-7c3b-9f00-00000000000{number}");
    let explained = json(program, &["explain", &id]);
    let of = |of: &Value| {
        let text = |name: &str| of[name].as_str().unwrap().to_owned();
        (text("subscription"), text("state"))
    };
    explained[0]["subscriptions"].as_array().unwrap().iter().map(of).collect()
}

fn both(mail: &str, stock: &str) -> Vec<(String, String)> {
    [("mail", mail), ("stock", stock)].map(|(name, state)| (name.to_owned(), state.to_owned())).into()
}

/// Without the add-on, events are written and listed, and a relay names the command that creates it.
pub(crate) fn the_base_alone_is_written_to_and_listed(case: &EventlogCase<'_>) {
    let program = case.program();
    let made = ran(&program, &["migrate", "up"]);
    assert!(made.stderr.contains("created events\n"), "{made:?}");
    ran(&program, &WRITE);
    let listed = json(&program, &["events", "list"]);
    assert_eq!((listed.len(), &listed[0]["state"]), (1, &"waiting".into()));
    for args in [&["relay", "--drain", "--fail-fast"][..], &["status"]] {
        let refused = program.run(args);
        assert_ne!(refused.exit, Some(0), "{refused:?}");
        let says = "there is no table \"event_notifications\", which handlers need: \
                    run `postrider migrate up --layout eventlog --with handlers`";
        assert!(refused.stderr.contains(says), "{refused:?}");
    }
    let (outcome, what) = found(&program, "PD-0139");
    assert_eq!((outcome.as_str(), what.contains("there is no table event_notifications")), ("warn", true));

    let made = ran(&program, &["migrate", "up", "--layout", "eventlog", "--with", "handlers"]);
    assert!(made.stderr.contains("created event_notifications\n"), "{made:?}");
    ran(&program, &["relay", "--drain"]);
    assert_eq!((lines(&program, "mail.jsonl"), lines(&program, "stock.jsonl")), (1, 1));
}

/// Events reach both handlers; list, status and doctor show them.
pub(crate) fn events_are_fanned_out_listed_and_counted(case: &EventlogCase<'_>) {
    let program = case.program();
    ran(&program, &["migrate", "up", "--with", "handlers"]);
    ran(&program, &["relay", "--drain"]);
    ran(&program, &WRITE);
    let action = "0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77";
    case.insert("0192d1c0-6a4e-7c3b-9f00-000000000001", action, "'OrderPlaced'");
    case.insert("0192d1c0-6a4e-7c3b-9f00-000000000002", action, "'UserAdded'");
    case.insert("0192d1c0-6a4e-7c3b-9f00-000000000003", action, "NULL");
    let line = r#"{"type": "OrderPlaced", "aggregate": {"type": "Order", "id": "43"}, "payload": {}, "namespace": "shop",
        "action": {"id": "0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c78", "name": "PlaceOrder", "params": {},
                   "started": "2026-11-18T01:00:00Z", "completed": "2026-11-18T01:00:01Z"}}"#;
    let written = program.run_with(&["write", "--lines"], line.replace('\n', " ").as_bytes());
    assert_eq!(written.exit, Some(0), "{written:?}");

    assert_eq!(backlogs(&program), [("mail".to_owned(), 4), ("stock".to_owned(), 3)]);
    let by_type = json(&program, &["status", "--by", "type"]);
    let pending: u64 = by_type.iter().map(|row| row["pending"].as_u64().unwrap()).sum();
    assert_eq!(pending, 4, "an action without events is no backlog: {by_type:?}");
    for by in ["hour", "producer"] {
        assert!(!json(&program, &["status", "--by", by]).is_empty());
    }
    let listed = json(&program, &["events", "list", "--action", action]);
    let states: Vec<&str> = listed.iter().map(|event| event["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["no event", "waiting", "waiting"], "newest first");
    assert_eq!(listed[2]["time"], "2026-11-18T01:00:00.500000Z");
    assert_eq!(json(&program, &["events", "list", "--state", "no event"]).len(), 1);
    let plan = ran(&program, &["events", "list", "--action", action, "--plan"]);
    assert!(plan.stdout.contains(case.index), "{plan:?}");
    assert_eq!(explained(&program, "1"), both("not_fanned_out", "not_fanned_out"));
    let handlers = json(&program, &["handlers", "list"]);
    let handlers: Vec<_> = handlers.iter().map(|of| (of["handler"].clone(), of["type"].clone())).collect();
    assert_eq!(handlers, [("mail".into(), "*".into()), ("stock".into(), "OrderPlaced".into())]);
    assert_eq!(explained(&program, "2"), both("not_fanned_out", "not_wanted"));
    assert_eq!(explained(&program, "3"), both("not_wanted", "not_wanted"));

    ran(&program, &["relay", "--drain"]);
    assert_eq!((lines(&program, "mail.jsonl"), lines(&program, "stock.jsonl")), (4, 3));
    assert_eq!(backlogs(&program), [("mail".to_owned(), 0), ("stock".to_owned(), 0)]);
    assert_eq!(json(&program, &["events", "list", "--state", "fanned out"]).len(), 4);
    assert_eq!(explained(&program, "1"), both("delivered", "delivered"));
    assert_eq!(explained(&program, "2"), both("delivered", "not_wanted"));
    let shown = ran(&program, &["events", "show", "0192d1c0-6a4e-7c3b-9f00-000000000001"]);
    assert!(shown.stdout.contains("OrderPlaced") && !shown.stdout.contains("payload "), "{shown:?}");
    let open = format!("SELECT count(*) FROM {} WHERE state <> 'SUCCEEDED'", case.notifications);
    assert_eq!((case.number)(&open), 0);
    for code in ["PD-0132", "PD-0139", "PD-0140", "PD-0152"] {
        assert_eq!(found(&program, code).0, "ok", "{code}: {}", found(&program, code).1);
    }
}

/// The same in sessions whose time zone is not UTC. `near` is a condition: a column without a zone is within ten minutes of
/// the present in UTC.
pub(crate) fn times_are_utc_in_another_time_zone(case: &EventlogCase<'_>, near: impl Fn(&str) -> String) {
    events_are_fanned_out_listed_and_counted(case);
    let EventlogCase { events, notifications, .. } = case;
    let count = |table: &str, condition: String| {
        (case.number)(&format!("SELECT count(*) FROM {table} WHERE {condition}"))
    };
    assert_eq!(count(events, near("event_date")), 2, "the events that the program wrote");
    assert_eq!(count(notifications, "TRUE".to_owned()), 7);
    for column in ["created_date", "updated_date"] {
        assert_eq!(count(notifications, near(column)), 7, "{column}");
    }
    assert_eq!(count(notifications, near("next_retry_at")), 4, "of the events that the program wrote");

    // Half a day must not be missing or too much: in expiry, in the wait for a retry, in a search, in retention.
    let program = case.program();
    ran(&program, &WRITE);
    let args =
        ["relay", "--drain", "--set", "outbox.shop.handle_within=1h", "--set", "outbox.shop.retention=1h"];
    let args = [&args[..], &["--set", "outbox.shop.search_missed_every=1ms"]].concat();
    ran(&program, &args);
    assert_eq!(count(notifications, "state = 'SUCCEEDED'".to_owned()), 9);
    assert_eq!(count(events, near("event_date")), 3, "retention keeps what is younger");
    let down = ["--set", "sink.stock.path=no/such/folder/stock.jsonl"];
    ran(&program, &WRITE);
    _ = program.run(&[&["relay", "--drain", "--fail-fast"], &down[..]].concat());
    assert_eq!(count(notifications, "state = 'EXPIRED'".to_owned()), 0);
    let listed = json(&program, &["events", "list", "--type", "OrderPlaced", "--since", "10m"]);
    assert_eq!(listed.len(), 4, "{listed:?}");
}

/// The doctor names handlers of another program, open notifications of aliases, and a missing index.
pub(crate) fn the_doctor_reports_other_handlers_aliases_and_a_missing_index(
    case: &EventlogCase<'_>,
    drop_index: &str,
) {
    let program = case.program();
    ran(&program, &["migrate", "up", "--with", "handlers"]);
    ran(&program, &["relay", "--drain"]);
    ran(&program, &WRITE);
    ran(&program, &["relay", "--drain"]);
    let renamed = |from: &str, to: &str| {
        let notifications = &case.notifications;
        (case.sql)(&format!(
            "UPDATE {notifications} SET handler_name = '{to}', state = 'PENDING' WHERE handler_name = '{from}'"
        ));
    };
    renamed("stock", "somebody-else");
    assert_eq!(
        found(&program, "PD-0140"),
        ("warn".to_owned(), "not registered here: somebody-else (1 open)".to_owned())
    );
    renamed("mail", "mail");
    let (outcome, what) = found(&program, "PD-0153");
    assert_eq!(outcome, "warn");
    assert!(what.starts_with("registered, but no relay serves it: mail ("), "{what}");
    // The relay does not touch it.
    ran(&program, &["relay", "--drain"]);
    assert_eq!(found(&program, "PD-0140").0, "warn");
    assert_eq!(found(&program, "PD-0153").0, "ok");

    let alias = ["relay", "--drain", "--set", "subscription.mail.aliases=old-mail"];
    ran(&program, &alias);
    renamed("mail", "old-mail");
    assert_eq!(found(&program, "PD-0152"), ("warn".to_owned(), "old-mail of mail (1 open)".to_owned()));
    ran(&program, &alias);
    assert_eq!(found(&program, "PD-0152").0, "ok");
    assert_eq!(lines(&program, "mail.jsonl"), 3);

    (case.sql)(drop_index);
    let (outcome, what) = found(&program, "PD-0139");
    assert_eq!((outcome.as_str(), what.contains("no index over undelivered events")), ("warn", true));
}

/// An event without a namespace or an action, or with a name that is too long, is refused before any SQL runs.
pub(crate) fn an_event_that_does_not_fit_is_refused(case: &EventlogCase<'_>) {
    let program = case.program();
    ran(&program, &["migrate", "up"]);
    let long = "x".repeat(256);
    let text_max = ["--set", "outbox.shop.text_max=1KiB"];
    let with = |flags: &[&'static str]| [&["write", "--type", "A", "--aggregate", "Order:1"], flags].concat();
    for (args, says) in [
        (with(&["--action", "PlaceOrder"]), "it has no namespace"),
        (with(&["--namespace", "shop"]), "it has no action"),
        (with(&["--namespace", "shop", "--action", "A", "--params", "{"]), "this is not valid JSON"),
        (with(&["--namespace", "shop", "--params", "{}"]), "--action"),
    ] {
        let refused = program.run(&args);
        assert!(refused.exit != Some(0) && refused.stderr.contains(says), "{says}: {refused:?}");
    }
    for (flag, what) in [("--namespace", "namespace"), ("--action", "action")] {
        let other = if flag == "--action" { "--namespace" } else { "--action" };
        let flags =
            [&["write", "--type", "A", "--aggregate", "Order:1", other, "shop", flag, &long], &text_max[..]];
        let refused = program.run(&flags.concat());
        assert!(refused.exit != Some(0) && refused.stderr.contains(what), "{refused:?}");
        assert!(refused.stderr.contains("256"), "{refused:?}");
    }
    assert_eq!((case.number)(&format!("SELECT count(*) FROM {}", case.events)), 0);
}

/// The printed base and the printed whole run unchanged, and so do the roles, twice.
pub(crate) fn the_printed_scripts_run(case: &EventlogCase<'_>) {
    let program = case.program();
    let base = ran(&program, &["migrate", "print"]).stdout;
    assert!(!base.contains("event_notifications") && !base.contains("_undelivered"), "{base}");
    (case.sql)(&ran(&program, &["migrate", "print", "--with", "handlers"]).stdout);
    let made = ran(&program, &["migrate", "up", "--with", "handlers"]);
    assert!(made.stderr.contains("up to date"), "{made:?}");
    assert!(!made.stderr.contains("difference"), "{made:?}");
    ran(&program, &WRITE);
    ran(&program, &["relay", "--drain"]);
    assert_eq!(lines(&program, "mail.jsonl"), 1);
    let refused = program.run(&["migrate", "print", "--with", "views"]);
    assert!(refused.stderr.contains("layout eventlog has no views"), "{refused:?}");
    let roles = ran(&program, &["migrate", "roles"]).stdout;
    (case.sql)(&roles);
    (case.sql)(&roles);
}

/// The roles of a base alone are created; those of its handlers, once these are there. `granted` counts the rights of the
/// relay on the notifications.
pub(crate) fn roles_are_granted_what_exists(case: &EventlogCase<'_>, granted: &str) {
    let program = case.program();
    ran(&program, &["migrate", "up"]);
    let roles = ran(&program, &["migrate", "roles"]).stdout;
    (case.sql)(&roles);
    assert_eq!((case.number)(granted), 0);
    ran(&program, &["migrate", "up", "--with", "handlers"]);
    (case.sql)(&roles);
    assert!((case.number)(granted) > 0, "{granted}");
}

/// Events of a subscription become events of the log, and what is open for a handler becomes events of the default layout
/// again. `old` are the keys of an outbox of that layout.
pub(crate) fn events_move_from_postrider_to_eventlog_and_back(case: &EventlogCase<'_>, old: &str) {
    let config = format!(
        "[outbox.new]\n{}\n[outbox.old]\n{old}\n[sink.out]\ntype = 'file'\npath = 'events.jsonl'\n\
         [subscription.orders]\noutbox = 'old'\nsink = 'out'\n[subscription.mail]\noutbox = 'new'\nsink = 'out'\n",
        case.outbox
    );
    let program = Program::with_config(&config);
    ran(&program, &["migrate", "up", "--outbox", "old"]);
    ran(&program, &["migrate", "up", "--outbox", "new", "--with", "handlers"]);
    ran(&program, &["relay", "--drain"]); // creates the subscriptions
    let bare = ["write", "--outbox", "old", "--type", "A", "--aggregate", "Order:1"];
    let full = [&bare[..], &["--namespace", "shop", "--action", "Act"]].concat();
    ran(&program, &full);
    let forth = ["adopt", "--from", "old", "--to", "new", "--start", "beginning", "--leave-out", "producer"];
    ran(&program, &forth);
    let waiting =
        format!("SELECT count(*) FROM {} WHERE action_name = 'Act' AND delivered = FALSE", case.events);
    assert_eq!((case.number)(&waiting), 1);
    ran(&program, &["relay", "--drain"]);
    let handled = format!(
        "SELECT count(*) FROM {} WHERE handler_name = 'mail' AND state = 'SUCCEEDED'",
        case.notifications
    );
    assert_eq!(((case.number)(&handled), lines(&program, "events.jsonl")), (1, 1));
    ran(&program, &bare);
    let refused = program.run(&forth);
    assert!(refused.exit != Some(0) && refused.stderr.contains("it has no namespace"), "{refused:?}");

    let in_log: Vec<&str> = full.iter().map(|arg| if *arg == "old" { "new" } else { arg }).collect();
    ran(&program, &in_log);
    let back = ["adopt", "--from", "eventlog", "--to", "postrider", "--start", "beginning"];
    let counted = ran(&program, &[&back[..5], &["--dry-run", "--json"]].concat());
    let counted: Value = serde_json::from_str(&counted.stdout).unwrap();
    assert_eq!((&counted["subscription"], &counted["before"]["undelivered"]), (&"mail".into(), &1.into()));
    assert_eq!((case.number)(&waiting), 1, "a dry run changes nothing");
    let moved = ran(&program, &back);
    assert!(moved.stderr.contains("moved 1 event"), "{moved:?}");
    assert_eq!((case.number)(&handled), 2, "the handler has nothing open any more");
    ran(&program, &["relay", "--drain"]);
    assert_eq!(lines(&program, "events.jsonl"), 3, "the moved event, and the one that could not move");

    // Another subscription of the target would receive events that its own handler has had already.
    ran(&program, &in_log);
    let second = format!("{config}[subscription.second]\noutbox = 'old'\nsink = 'out'\n");
    let refused = Program::with_config(&second).run(&back);
    assert_eq!(refused.exit, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("each subscription of outbox \"old\" (orders, second)"), "{refused:?}");
    let unknown = program.run(&[&back[..], &["--subscription", "mial"]].concat());
    assert!(unknown.stderr.contains("registered are: mail"), "{unknown:?}");

    let refused = program.run(&["migrate", "up", "--outbox", "old", "--with", "handlers"]);
    let says = "the layout `postrider` has no optional tables for handlers";
    assert!(refused.stderr.contains(says), "{refused:?}");
    let action = "0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77";
    let by_action = program.run(&["events", "list", "--outbox", "old", "--action", action]);
    assert_eq!((by_action.exit, by_action.stdout.trim()), (Some(0), "no event matches"), "{by_action:?}");
}

/// The program of each role does the work of its role. Everything else is refused with this text.
pub(crate) fn each_role_allows_its_own_work_and_nothing_else(
    [writer, relay, viewer, migrator]: [&Program; 4],
    refusal: &str,
) {
    let write = ["write", "--type", "A", "--aggregate", "Order:1", "--namespace", "shop", "--action", "Act"];
    let drain = ["relay", "--drain", "--fail-fast"];
    for (who, args) in [
        (writer, &write[..]),
        (relay, &drain),
        (relay, &["relay", "--drain", "--set", "outbox.shop.retention=1ms"]),
        (viewer, &["status"]),
        (viewer, &["status", "--by", "type"]),
        (viewer, &["events", "list"]),
        (migrator, &["migrate", "up"]),
    ] {
        ran(who, args);
    }
    for (who, args) in [(writer, &drain[..]), (relay, &write), (viewer, &write), (viewer, &["pause", "mail"])]
    {
        let ran = who.run(args);
        assert!(ran.exit == Some(3) && ran.stderr.contains(refusal), "{args:?} {ran:?}");
    }
}
