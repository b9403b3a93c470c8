//! Later layers override earlier ones, and `config show --origin` prints which layer set a key.

use serde_json::{Value, json};

use crate::program::Program;

const FILE: &str = "[relay]\nlog = 'warn'\nlog_format = 'json'\nname = 'from-file'\n\
    [outbox.shop]\nurl = 'sqlite:shop.db'\n[sink.Out-1]\ntype = 'null'\n[subscription.s]\nsink = 'Out-1'\n";

/// Value and origin of a key.
fn shown(program: &Program, flags: &[&str], key: &str) -> (Value, Value) {
    let args = [&["config", "show", "--origin", "--json"], flags].concat();
    let ran = program.run(&args);
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let row =
        rows.into_iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("no {key}: {}", ran.stdout));
    (row["value"].clone(), row["origin"].clone())
}

#[test]
fn flags_override_variables_which_override_the_file_which_overrides_defaults() {
    let program = Program::with_config(FILE)
        .variable("POSTRIDER__RELAY__NAME", "from-env")
        .variable("POSTRIDER__RELAY__LOG", "debug");
    let flags = ["--set", "relay.name=from-flag", "--set", "subscription.s.only=a,b"];
    let layers = [
        ("subscription.s.flush_interval", json!("50ms"), "default"),
        ("relay.log_format", json!("json"), "postrider.toml:3:1"),
        ("relay.log", json!("debug"), "env POSTRIDER__RELAY__LOG"),
        ("relay.name", json!("from-flag"), "flag --set"),
        ("subscription.s.only", json!(["a", "b"]), "flag --set"),
        ("subscription.s.outbox", json!("shop"), "default"),
    ];
    for (key, value, origin) in layers {
        assert_eq!(shown(&program, &flags, key), (value, json!(origin)), "{key}");
    }
}

#[test]
fn of_two_flags_for_one_key_the_last_wins() {
    let flags = ["--set", "relay.log=debug", "--set", "relay.log=error"];
    assert_eq!(shown(&Program::new(), &flags, "relay.log").0, "error");
}

#[test]
fn a_flag_that_changes_the_type_disables_the_keys_of_the_old_type() {
    let program = Program::new();
    program.run(&["config", "init"]);
    assert_eq!(shown(&program, &["--set", "sink.out.type=stdout"], "sink.out.type").0, "stdout");
    let ran = program.run(&["config", "show", "--set", "sink.out.type=stdout", "--set", "sink.out.path=x"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("flag --set: \"path\" is a key of type \"file\""), "{ran:?}");
}

#[test]
fn a_variable_matches_a_name_with_characters_that_variables_cannot_contain() {
    let program = Program::with_config(FILE).variable("POSTRIDER__SINK__OUT_1__ENCODER", "plain");
    let plain = (json!("plain"), json!("env POSTRIDER__SINK__OUT_1__ENCODER"));
    assert_eq!(shown(&program, &[], "sink.Out-1.encoder"), plain);
}

#[test]
fn without_a_file_variables_and_flags_are_enough() {
    let program = Program::new().variable("POSTRIDER__OUTBOX__SHOP__URL", "sqlite:shop.db");
    let flags = ["--set", "sink.out.type=null", "--set", "subscription.a.b.sink=out"];
    assert_eq!(shown(&program, &flags, "subscription.a.b.sink").0, "out");
    assert_eq!(shown(&program, &flags, "outbox.shop.url").0, "sqlite:shop.db");
}

#[test]
fn another_file_can_be_named_by_variable_and_by_flag() {
    let program = Program::new()
        .file("a.toml", "relay.name = 'a'")
        .file("b.toml", "relay.name = 'b'")
        .variable("POSTRIDER_CONFIG", "a.toml");
    assert_eq!(shown(&program, &[], "relay.name"), (json!("a"), json!("a.toml:1:7")));
    assert_eq!(shown(&program, &["--config", "b.toml"], "relay.name"), (json!("b"), json!("b.toml:1:7")));
}

#[test]
fn text_output_is_a_table_with_origins_only_on_request() {
    let program = Program::with_config(FILE);
    let plain = program.run(&["config", "show"]).stdout;
    let row = |text: &str| text.lines().find(|line| line.starts_with("relay.name")).map(str::to_owned);
    assert!(plain.starts_with("key ") && !plain.contains("origin"), "{plain}");
    assert!(row(&plain).is_some_and(|row| row.ends_with("from-file")), "{plain}");
    let with_origin = program.run(&["config", "show", "--origin"]).stdout;
    assert!(row(&with_origin).is_some_and(|row| row.ends_with("postrider.toml:4:1")), "{with_origin}");
}
