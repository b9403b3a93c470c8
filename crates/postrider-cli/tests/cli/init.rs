//! `config init` writes a valid file, and replaces an existing one only on request.

use crate::program::Program;

#[test]
fn the_starter_file_works_as_it_is_and_names_every_key() {
    let program = Program::new();
    let ran = program.run(&["config", "init"]);
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stderr.contains("wrote postrider.toml"), "{ran:?}");
    let checked = program.run(&["config", "check"]);
    assert_eq!(
        checked.stdout, "postrider.toml: ok (outboxes: 1, sinks: 1, subscriptions: 1)\n",
        "{checked:?}"
    );
}

#[test]
fn the_starter_file_still_works_with_every_key_set() {
    let program = Program::new().variable("SHOP_PASSWORD", "secret").variable("OTLP_AUTHORIZATION", "secret");
    program.run(&["config", "init"]);
    let path = program.path().join("postrider.toml");
    // Some keys are only for servers, some only for tables with a state per row, some only for layouts with a column map,
    // and some only for layout eventlog.
    let starter = std::fs::read_to_string(&path).unwrap();
    let starter = starter.replace("sqlite:shop.db\"\n", "postgres://h/db\"\n");
    let starter = starter.replace("\"sqlite:shop-1.db\"", "\"postgres://h/db1\"");
    let starter = starter.replace("layout = \"postrider\"\n", "layout = \"custom\"\n");
    let starter = starter.replace("# foreign_claim_timeout = ", "# not here: ");
    let starter = starter
        .replace("# type_header = ", "# a column has it: ")
        .replace("# event_type = ", "# a column has it: ");
    let starter = ["handle_within", "fan_out_events_max", "fan_out_poll", "search_missed_every", "aliases"]
        .iter()
        .fold(starter, |text, key| text.replace(&format!("# {key} = "), "# only for eventlog: "));
    // A sink has either an encoder with schemas or one without.
    let starter = ["schemas", "envelope", "framing", "unknown_fields", "unions", "unbound", "registry"]
        .iter()
        .fold(starter, |text, key| text.replace(&format!("# {key} = "), "# only with schemas: "));
    let is_key = |line: &str| {
        line.starts_with("# [[") || line.split_once(" = ").is_some_and(|(key, _)| !key[2..].contains(' '))
    };
    let uncommented =
        starter.lines().map(|line| line.strip_prefix("# ").filter(|_| is_key(line)).unwrap_or(line));
    std::fs::write(&path, uncommented.collect::<Vec<_>>().join("\n")).unwrap();
    let ran = program.run(&["config", "show", "--origin"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(!ran.stdout.contains("default"), "{}", ran.stdout);
    let checked = program.run(&["config", "check"]);
    assert_eq!(checked.exit, Some(0), "{checked:?}");
}

#[test]
fn an_existing_file_is_replaced_only_with_force() {
    let program = Program::with_config("# mine\n");
    let text = || std::fs::read_to_string(program.path().join("postrider.toml")).unwrap();
    let ran = program.run(&["config", "init"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert!(ran.stderr.starts_with("error[PR-0609]: postrider.toml"), "{ran:?}");
    assert_eq!(text(), "# mine\n");
    assert_eq!(program.run(&["config", "init", "--force", "--quiet"]).stderr, "");
    assert!(text().contains("[outbox.shop]"));
}

#[test]
fn a_missing_folder_is_an_error() {
    let program = Program::new();
    let ran = program.run(&["config", "init", "--config", "nowhere/postrider.toml"]);
    assert_eq!(ran.exit, Some(2));
    assert!(ran.stderr.starts_with("error[PR-0601]: cannot write nowhere/postrider.toml"), "{ran:?}");
}

#[test]
fn the_starter_file_of_a_layout_works_and_sets_the_retention_of_its_document() {
    for layout in ["event_outbox", "outbox", "outbox_events"] {
        let program = Program::new();
        assert_eq!(program.run(&["config", "init", "--layout", layout]).exit, Some(0));
        let shown = program.run(&["config", "show"]);
        assert!(shown.exit == Some(0) && shown.stdout.contains(layout), "{shown:?}");
        assert_eq!(shown.stdout.contains("expires_at"), layout == "outbox", "{shown:?}");
        assert_eq!(program.run(&["config", "check"]).exit, Some(0), "{layout}");
    }
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_starter_file() {
    use std::os::unix::fs::PermissionsExt;
    let program = Program::new();
    assert_eq!(program.run(&["config", "init"]).exit, Some(0));
    let mode = std::fs::metadata(program.path().join("postrider.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
