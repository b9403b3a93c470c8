//! An outbox with several shards: one database each, and one relay for all.

use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStderr, Stdio};

use postrider_testkit::eventually_blocking;
use serde_json::Value;

use crate::program::{Program, Ran};
use crate::shop::Running;

const DESTINATION: &str =
    "[sink.out]\ntype = 'file'\npath = 'events.jsonl'\n[subscription.orders]\nsink = 'out'\nlease = '1s'\n";

/// An outbox with these shards besides the first.
fn config(shards: &str) -> String {
    format!("[outbox.shop]\nurl = 'sqlite:shop.db'\n[outbox.shop.shards]\n{shards}\n{DESTINATION}")
}

fn ok(ran: Ran) -> Ran {
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    ran
}

fn write(program: &Program, outbox: &str, event_type: &str) {
    ok(program.run(&["write", "--outbox", outbox, "--type", event_type]));
}

/// The delivered types, sorted.
fn delivered(program: &Program) -> Vec<String> {
    let text = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap_or_default();
    let event_type =
        |line: &str| serde_json::from_str::<Value>(line).ok()?["type"].as_str().map(str::to_owned);
    let mut types: Vec<String> = text.lines().filter_map(event_type).collect();
    types.sort();
    types
}

fn until_delivered(program: &Program, types: &[&str]) {
    eventually_blocking(&format!("{types:?} are delivered"), || delivered(program) == types);
}

/// A relay, and its log.
struct Relay(Running, Lines<BufReader<ChildStderr>>);

impl Relay {
    fn start(program: &Program) -> Self {
        let mut command = program.command(&["relay"]);
        let mut running = Running::start({
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            command
        });
        let log = BufReader::new(running.0.stderr.take().unwrap()).lines();
        Self(running, log)
    }

    /// Reads the log until a line contains this text, and returns the line.
    fn until_it_says(&mut self, words: &str) -> String {
        let line = self.1.by_ref().map(Result::unwrap).find(|line| line.contains(words));
        line.unwrap_or_else(|| panic!("it ended without saying {words:?}"))
    }

    fn stop(self) {
        self.0.signal("TERM");
        assert_eq!(self.0.end().0, Some(0));
    }
}

#[test]
fn shards_share_the_subscriptions_of_their_outbox_and_every_command_names_them() {
    let program = Program::with_config(&config("1.0 = 'sqlite:shop-1-0.db'\n'1.1' = 'env:SHOP_1_1'"))
        .variable("SHOP_1_1", "sqlite:shop-1-1.db");
    let up = ok(program.run(&["migrate", "up"]));
    for shard in ["shop:0.0: created", "shop:1.0: created", "shop:1.1: created"] {
        assert!(up.stderr.contains(shard), "{up:?}");
    }
    write(&program, "shop:0.0", "first");
    write(&program, "shop:1.0", "second");
    write(&program, "shop:1.1", "third");
    ok(program.run(&["relay", "--drain", "--timeout", "1m"]));
    assert_eq!(delivered(&program), ["first", "second", "third"]);

    let status = ok(program.run(&["status", "--json"]));
    let rows: Value = serde_json::from_str(&status.stdout).unwrap();
    let outboxes: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| row["outbox"].as_str().unwrap()).collect();
    assert_eq!(outboxes, ["shop:0.0", "shop:1.0", "shop:1.1"]);
    assert!(rows.as_array().unwrap().iter().all(|row| row["configured"] == true), "{rows}");
    let one = ok(program.run(&["status", "--json", "--outbox", "shop:1.1"]));
    assert!(one.stdout.contains("shop:1.1") && !one.stdout.contains("shop:1.0"), "{one:?}");
    let listed = ok(program.run(&["events", "list", "--outbox", "shop:1.0"]));
    assert!(listed.stdout.contains("second") && !listed.stdout.contains("third"), "{listed:?}");
    let doctor = program.run(&["doctor"]);
    assert!(doctor.stdout.contains("outbox shop:1.1"), "{doctor:?}");

    // A decision about a subscription is for all shards, unless one is selected.
    let paused = ok(program.run(&["pause", "orders"]));
    assert!(paused.stderr.contains("paused orders on shop:0.0, shop:1.0, shop:1.1"), "{paused:?}");
    ok(program.run(&["resume", "orders", "--outbox", "shop:1.0"]));
    let states: Value = serde_json::from_str(&ok(program.run(&["status", "--json"])).stdout).unwrap();
    let states: Vec<_> = states.as_array().unwrap().iter().map(|row| row["state"] == "paused").collect();
    assert_eq!(states, [true, false, true]);

    // A command about one database must know which.
    let several = program.run(&["write", "--outbox", "shop", "--type", "a"]);
    assert_eq!(several.exit, Some(2), "{several:?}");
    assert!(
        several.stderr.contains("the outbox has several shards: shop:0.0, shop:1.0, shop:1.1"),
        "{several:?}"
    );
    let unknown = program.run(&["status", "--outbox", "shop:7.7"]);
    assert!(unknown.stderr.contains("there is no outbox \"shop:7.7\""), "{unknown:?}");
}

#[test]
#[cfg(unix)]
fn a_running_relay_serves_a_new_shard_after_sighup_and_refuses_other_changes() {
    let program = Program::with_config(&format!("[outbox.shop]\nurl = 'sqlite:shop.db'\n{DESTINATION}"));
    ok(program.run(&["migrate", "up"]));
    write(&program, "shop", "first");
    let mut relay = Relay::start(&program);
    until_delivered(&program, &["first"]);
    let change = |text: &str| std::fs::write(program.path().join("postrider.toml"), text).unwrap();

    // The first shard besides the database that is served; its tables do not exist yet.
    change(&config("'1.0' = 'sqlite:shop-1-0.db'"));
    relay.0.signal("HUP");
    relay.until_it_says("added=\"shop:1.0\"");
    let refused = relay.until_it_says("the outbox is not served yet");
    assert!(refused.contains("shop:1.0"), "{refused}");
    ok(program.run(&["migrate", "up"]));
    write(&program, "shop:1.0", "second");
    write(&program, "shop:0.0", "third");
    until_delivered(&program, &["first", "second", "third"]);

    // A changed key, a removed shard, a new subscription of a served outbox, and a mistake: nothing is applied.
    for (text, says) in [
        (config("'1.0' = 'sqlite:other.db'\n'1.1' = 'sqlite:shop-1-1.db'"), "outbox.shop.shards"),
        (config("'1.1' = 'sqlite:shop-1-1.db'"), "outbox.shop.shards"),
        (
            config("'1.0' = 'sqlite:shop-1-0.db'") + "[subscription.more]\nsink = 'out'\n",
            "[subscription.more] (new, for an outbox that is served)",
        ),
        (config("'1.0' = 'sqlite:shop-1-0.db'").replace("'1s'", "'2s'"), "subscription.orders.lease"),
        (config("'1.0' = 'sqlite:shop-1-0.db'\n'1.64' = 'sqlite:x.db'"), "\"1.64\" is not a shard"),
    ] {
        change(&text);
        relay.0.signal("HUP");
        relay.until_it_says(says);
    }
    change(&config("'1.0' = 'sqlite:shop-1-0.db'"));
    relay.0.signal("HUP");
    relay.until_it_says("no outbox or shard is new");

    // Another outbox, with its own subscription.
    let audit =
        "[outbox.audit]\nurl = 'sqlite:audit.db'\n[subscription.audit]\noutbox = 'audit'\nsink = 'out'\n";
    let named =
        config("'1.0' = 'sqlite:shop-1-0.db'").replace("sink = 'out'", "sink = 'out'\noutbox = 'shop'");
    change(&(named.clone() + audit));
    ok(program.run(&["migrate", "up", "--outbox", "audit"]));
    write(&program, "audit", "fourth");
    relay.0.signal("HUP");
    until_delivered(&program, &["first", "fourth", "second", "third"]);
    write(&program, "shop:0.0", "zeroth");
    until_delivered(&program, &["first", "fourth", "second", "third", "zeroth"]);
    relay.stop();
}

#[test]
#[cfg(all(unix, feature = "postgres"))]
fn a_shard_that_is_down_delays_only_itself() {
    // Nothing listens on this port.
    let down = "'1.0' = 'postgres://relay@127.0.0.1:1/shop'\n'1.1' = 'sqlite:shop-1-1.db'";
    let program = Program::with_config(&config(down));
    for shard in ["shop:0.0", "shop:1.1"] {
        ok(program.run(&["migrate", "up", "--outbox", shard]));
        write(&program, shard, shard);
    }
    let mut relay = Relay::start(&program);
    relay.until_it_says("shop:1.0");
    until_delivered(&program, &["shop:0.0", "shop:1.1"]);
    relay.stop();

    let status = program.run(&["status"]);
    assert_eq!(status.exit, Some(3), "{status:?}");
    assert!(
        status.stdout.contains("shop:0.0/orders") && status.stdout.contains("shop:1.1/orders"),
        "{status:?}"
    );
    assert!(status.stderr.contains("shop:1.0: "), "{status:?}");
    // A drain is complete only with all shards.
    let drain = program.run(&["relay", "--drain", "--timeout", "1s"]);
    assert_eq!(drain.exit, Some(1), "{drain:?}");
    let fast = program.run(&["relay", "--fail-fast"]);
    assert_eq!(fast.exit, Some(3), "{fast:?}");
}

/// A process with a terminal stops when the terminal is closed, although it gets the same signal.
#[test]
#[cfg(target_os = "linux")]
fn a_relay_stops_when_its_terminal_is_closed() {
    use rustix::pty::OpenptFlags;
    let program = Program::with_config(&format!("[outbox.shop]\nurl = 'sqlite:shop.db'\n{DESTINATION}"));
    ok(program.run(&["migrate", "up"]));
    write(&program, "shop", "first");
    // Otherwise every program that is started meanwhile keeps it open.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&terminal).unwrap();
    rustix::pty::unlockpt(&terminal).unwrap();
    let name = rustix::pty::ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    // `setsid --ctty` makes the terminal that of the program.
    let relay = program.command(&["relay"]);
    let mut command = std::process::Command::new("setsid");
    command.arg("--ctty").arg(relay.get_program()).args(relay.get_args()).current_dir(program.path());
    let stream = || std::fs::OpenOptions::new().read(true).write(true).open(&name).unwrap();
    command.stdin(stream()).stdout(stream()).stderr(stream());
    let relay = Running::start(command);
    until_delivered(&program, &["first"]);
    drop(terminal);
    assert_eq!(relay.end().0, Some(0));
}
