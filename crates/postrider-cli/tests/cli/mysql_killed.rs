//! Relays on MySQL and MariaDB as real processes, killed while they deliver.

use std::fmt::Write as _;
use std::process::Stdio;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider_testkit::verify::{Sighting, verify};
use serde_json::Value;

use crate::mysql::Shop;
use crate::program::Program;
use crate::shop::{Running, until};

const KEYS: usize = 5;
const ROUNDS: usize = 6;
const EVENTS: usize = 60;
const WINDOW: usize = 100;

/// Another version of every key in turn, as lines for `write`.
fn lines(round: usize) -> String {
    let mut lines = String::new();
    for number in round * EVENTS..(round + 1) * EVENTS {
        let (key, version) = (number % KEYS, number / KEYS + 1);
        writeln!(
            lines,
            "{{\"type\":\"stock.changed\",\"key\":\"k{key}\",\"payload\":{{\"version\":{version}}}}}"
        )
        .unwrap();
    }
    lines
}

/// All events in the file, in order. The last line may be incomplete; after an incomplete line of a killed relay, the
/// next event begins on the same line.
fn delivered(program: &Program) -> Vec<Sighting> {
    let files = program.files();
    let text = files.get("events.jsonl").map(|bytes| String::from_utf8_lossy(bytes)).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let sighting = |line: &str| {
        let envelope: Value = serde_json::from_str(line).ok()?;
        Some(Sighting {
            id: envelope["id"].as_str()?.parse().ok()?,
            key: envelope["key"].as_str()?.to_owned(),
            version: envelope["payload"]["version"].as_u64()?,
        })
    };
    whole.lines().filter_map(sighting).collect()
}

/// All events in the table, in order.
fn committed(shop: &Shop) -> Vec<Sighting> {
    let sql = format!(
        "SELECT LOWER(HEX(id)), `key`, ROW_NUMBER() OVER (PARTITION BY `key` ORDER BY position)
         FROM {}.events ORDER BY position",
        shop.schema
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = Conn::from_url(shop.url.replace("mariadb://", "mysql://")).await.unwrap();
        let rows: Vec<(String, String, u64)> = client.query(sql).await.unwrap();
        client.disconnect().await.unwrap();
        rows.into_iter()
            .map(|(id, key, version)| Sighting { id: id.parse().unwrap(), key, version })
            .collect()
    })
}

#[test]
fn either_of_two_relays_may_be_killed_and_nothing_is_lost_invented_or_reordered() {
    for shop in Shop::all() {
        let limits = format!("lease = '500ms'\nwindow_events_max = {WINDOW}\n");
        let program = Program::with_config(&format!("{}{limits}", shop.config(&shop.url)));
        let made = program.run(&["migrate", "up"]);
        assert_eq!(made.exit, Some(0), "{made:?}");
        let start = || {
            let mut command = program.command(&["relay"]);
            command.stderr(Stdio::null());
            Running::start(command)
        };
        let mut relays = vec![start(), start()];
        for round in 0..ROUNDS {
            let half = round * EVENTS + EVENTS / 2;
            let written = program.run_with(&["write", "--lines", "--batch", "7"], lines(round).as_bytes());
            assert_eq!(written.exit, Some(0), "{written:?}");
            until(|| (delivered(&program).len() >= half).then_some(()));
            // One after the other, so that both the leader and the standby are killed.
            drop(relays.remove(0));
            relays.push(start());
        }
        let all = committed(&shop);
        assert_eq!(all.len(), ROUNDS * EVENTS);
        until(|| (verify(&all, &delivered(&program)).lost == 0).then_some(()));
        let verdict = verify(&all, &delivered(&program));
        println!("{ROUNDS} kills at {}: {verdict}", shop.url.split(':').next().unwrap());
        assert!(verdict.is_clean(), "{verdict}");
        assert!(verdict.duplicates <= ROUNDS * WINDOW, "{verdict}");
    }
}

#[test]
fn a_killed_relay_is_replaced_at_once() {
    for shop in Shop::all() {
        crate::restarted::a_killed_relay_is_replaced_at_once(&shop.config(&shop.url));
    }
}
