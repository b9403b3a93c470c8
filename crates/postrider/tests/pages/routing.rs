//! The page `docs/src/routing.md` describes the router correctly.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeMap;

use postrider::Event;
use postrider::route::{Route, Router, Rule};
use serde::Deserialize;

const PAGE: &str = include_str!("../../../../docs/src/routing.md");

#[derive(Deserialize)]
struct File {
    subscription: BTreeMap<String, Subscription>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscription {
    #[serde(rename = "match", default)]
    mode: Match,
    rule: Vec<RuleTable>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum Match {
    #[default]
    First,
    All,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    types: Option<Vec<String>>,
    aggregates: Option<Vec<String>>,
    destination: Option<String>,
    key: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

impl From<RuleTable> for Rule {
    fn from(table: RuleTable) -> Self {
        let mut rule = table.destination.map_or_else(Self::new, Self::to);
        rule = table.types.map_or(rule.clone(), |types| rule.types(types));
        rule = table.aggregates.map_or(rule.clone(), |kinds| rule.aggregates(kinds));
        rule = table.key.map_or(rule.clone(), |key| rule.key(key));
        table.headers.into_iter().fold(rule, |rule, (name, template)| rule.header(name, template))
    }
}

/// An example: the file, and the rows of the table after it.
fn example(name: &str) -> (Router, Vec<Vec<&'static str>>) {
    let (_, rest) = PAGE.split_once(&format!("```toml {name}\n")).unwrap();
    let (file, rest) = rest.split_once("```").unwrap();
    let file: File = toml::from_str(file).unwrap();
    let (name, Subscription { mode, rule }) = file.subscription.into_iter().next().unwrap();
    let (router, rules) = (Router::to(name), rule.into_iter().map(Rule::from));
    let router = match mode {
        Match::First => router.first_match(rules),
        Match::All => router.every_match(rules),
    };
    (router.unwrap(), rows(rest))
}

/// The cells of the first table in a text, without its head.
fn rows(text: &'static str) -> Vec<Vec<&'static str>> {
    let table = text.lines().skip_while(|line| !line.starts_with("| ")).skip(2);
    let cells = |line: &'static str| {
        let inner = line.strip_prefix('|')?.strip_suffix('|')?;
        Some(inner.split(" |").map(|cell| cell.trim_matches([' ', '|', '`'])).collect())
    };
    table.map_while(cells).collect()
}

fn pairs(cell: &str) -> Vec<(String, String)> {
    let pair = |text: &str| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    cell.split_whitespace().map(|text| pair(text).unwrap()).collect()
}

fn event(row: &[&str]) -> Event {
    let mut event = Event::new(row[0], "{}");
    if let Some((kind, id)) = row[1].split_once('/') {
        event = event.with_aggregate(kind, id);
    }
    if !row[2].is_empty() {
        event = event.with_topic(row[2]);
    }
    pairs(row[3]).into_iter().fold(event, |event, (name, value)| event.with_header(name, value))
}

#[test]
fn every_event_on_the_page_is_routed_as_the_page_states() {
    for (name, events) in [("first", 8), ("catch-all", 3), ("all", 2)] {
        let (router, rows) = example(name);
        assert_eq!(rows.len(), events, "{name}");
        for row in rows {
            let event = event(&row);
            let route = router.route(&event);
            assert_eq!(route.message_key(&event).unwrap_or_default(), row[5], "{row:?}");
            let Route::To { name, delivery } = route else {
                assert_eq!((route, row[4]), (Route::Unrouted, "unrouted"));
                continue;
            };
            assert_eq!(&*name, row[4], "{row:?}");
            let added = delivery
                .iter()
                .flat_map(|delivery| &delivery.copies)
                .flat_map(|parcel| parcel.headers.iter());
            let added: Vec<_> = added.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            assert_eq!(added, pairs(row[6]), "{row:?}");
        }
    }
}

#[test]
fn every_field_on_the_page_exists() {
    let (_, rest) = PAGE.split_once("## Templates").unwrap();
    let fields = rows(rest);
    assert_eq!(fields.len(), 9);
    for field in fields {
        Router::by_topic().first_match([Rule::to(field[0])]).unwrap();
    }
}

#[test]
fn every_mistake_on_the_page_gives_the_message_shown() {
    let mistakes = rows(&PAGE[PAGE.find("| template | mistake |").unwrap()..]);
    assert_eq!(mistakes.len(), 4);
    for row in mistakes {
        let template = row[0].replace("\\|", "|");
        let error = Router::by_topic().first_match([Rule::to(template)]).unwrap_err().report();
        let (code, what) = row[1].split_once(": ").unwrap();
        assert!(error.contains(code) && error.contains(what), "{row:?}\n{error}");
    }
}
