//! A secret placed in any setting appears in no output, error or `Debug`.

use postrider_cli::config::kind::Kind;
use postrider_cli::config::layer::{ConfigFile, Sources};
use postrider_cli::config::schema::{IfUnset, KeySpec, Schema, Section};
use postrider_cli::config::{Effective, Environment, Secret, Value};

use crate::program::Program;
use crate::worker::{self, CommandLine};

const CANARY: &str = "tweet-tweet";

/// The ways to write a value that contains the canary.
fn disguises() -> Vec<String> {
    [
        "postgres://u:CANARY@h/db",
        "postgres://u:x/CANARY@y@h/db",
        "postgres://CANARY@h/db",
        "postgres://h/db?password=CANARY",
        "postgres://h/db#CANARY",
        "redis:CANARY",
        "CANARY",
        "host=h password=CANARY",
        "env:CANARY",
        "env:KEPT",
        "file:kept.txt",
        "file:word.txt",
        "https://h/CANARY",
        "https://h/?CANARY",
    ]
    .map(|text| text.replace("CANARY", CANARY))
    .to_vec()
}

/// The keys of the schema that may hold a secret.
fn protected() -> impl Iterator<Item = String> {
    let entries = Schema::postrider().0.iter().filter(|entry| entry.kind.is_sensitive());
    entries.map(|entry| format!("{}.x.{}", entry.section.word(), entry.name))
}

/// Runs many commands with each program and these arguments. None of them prints the canary.
fn assert_silent(cases: &[(Program, Vec<String>)]) {
    let commands = [
        &["config", "show", "--origin"][..],
        &["config", "show", "--json"],
        &["config", "check"],
        &["config", "check", "--json"],
        &["config", "schema"],
        &["migrate", "up"],
        &["migrate", "status"],
        &["write", "--type", "a"],
        &["relay", "--migrate", "--drain", "--fail-fast"],
        &["status"],
        &["status", "--json"],
        &["doctor", "--deep"],
        &["doctor", "--json"],
    ];
    let line = |program, command: &[&'static str], args: &[String]| {
        let args = args.iter().map(String::as_str);
        let all: Vec<&str> =
            ["--color=always", "-vv"].into_iter().chain(command.iter().copied()).chain(args).collect();
        CommandLine::new(program, &all)
    };
    let lines: Vec<CommandLine> = cases
        .iter()
        .flat_map(|(program, args)| commands.iter().map(move |command| line(program, command, args)))
        .collect();
    worker::run_all(&lines, |line, ran| {
        assert!(!ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY), "{line:?}: {ran:?}");
    });
}

fn program() -> Program {
    let word = format!("{CANARY}:and more");
    Program::new().file("kept.txt", CANARY).file("word.txt", &word).variable("KEPT", CANARY)
}

/// The program with this file, without further arguments.
fn with_file(toml: &str) -> (Program, Vec<String>) {
    (program().file("postrider.toml", toml), Vec::new())
}

#[test]
fn a_secret_in_the_file_is_never_shown() {
    for key in protected() {
        let files = disguises().into_iter().flat_map(|text| {
            // In a correct file, in a key with a typo, and in TOML with a typo.
            [
                format!("{key} = '{text}'\n"),
                format!("{key}x = '{text}'\n"),
                format!("{key} = ['{text}']\n"),
                format!("{key} = {{ a = '{text}' }}\n"),
                format!("{key} = {text}\n"),
                format!("{key} = '{text}\n"),
                format!("{key} = \"\\q{text}\"\n"),
                format!("{key} = '{text}' '{text}'\n"),
                format!("{key} = '{text}'\n{key} = '{text}'\n"),
            ]
        });
        assert_silent(&files.map(|toml| with_file(&toml)).collect::<Vec<_>>());
    }
}

#[test]
fn a_secret_in_a_variable_is_never_shown() {
    for key in protected() {
        let name = format!("POSTRIDER__{}", key.to_uppercase().replace('.', "__"));
        let names = [name.clone(), format!("{name}X")];
        let cases = disguises()
            .into_iter()
            .flat_map(|text| names.each_ref().map(|name| (program().variable(name, &text), Vec::new())));
        assert_silent(&cases.collect::<Vec<_>>());
    }
}

#[test]
fn a_secret_in_a_flag_is_never_shown() {
    for key in protected() {
        let flags = disguises()
            .into_iter()
            .flat_map(|text| [format!("{key}={text}"), format!("{key}x={text}"), text]);
        let cases = flags.map(|flag| (program(), vec!["--set".to_owned(), flag]));
        assert_silent(&cases.collect::<Vec<_>>());
    }
}

#[test]
fn a_password_in_a_url_is_masked_in_every_key() {
    let url = format!("https://u:{CANARY}@h/");
    let least =
        "outbox.x.url = 'sqlite:a'\nsink.x.type = 'file'\nsink.x.path = 'p'\nsubscription.x.sink = 'x'\n";
    let mut cases = Vec::new();
    for KeySpec { section, name, .. } in Schema::postrider().0 {
        for value in [format!("'{url}'"), format!("['{url}']"), format!("{{ a = '{url}' }}")] {
            let line = match section {
                Section::Relay => format!("relay.{name} = {value}"),
                Section::Rule => format!("subscription.x.rule = [{{ {name} = {value} }}]"),
                section => format!("{}.x.{name} = {value}", section.word()),
            };
            cases.push(with_file(&format!("{least}{line}\n")));
        }
    }
    assert_silent(&cases);
}

#[test]
fn values_that_are_not_secret_stay_readable() {
    let text = format!("outbox.x.url = 'postgres://u:{CANARY}@h/db'\noutbox.y.url = 'env:KEPT'\n");
    let shown = program().file("postrider.toml", &text).run(&["config", "show"]).stdout;
    assert!(shown.contains(" postgres://***@h/db\n") && shown.contains(" env:KEPT\n"), "{shown}");
}

#[test]
fn a_url_with_a_password_is_refused_anywhere_on_the_command_line() {
    let url = format!("postgres://u:{CANARY}@h/db");
    for args in
        [&["relay", &url][..], &["--config", &url, "relay"], &["write", &format!("--outbox={url}")], &[&url]]
    {
        let ran = Program::new().run(args);
        assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""));
        assert!(ran.stderr.starts_with("error[PR-0608]") && !ran.stderr.contains(CANARY), "{ran:?}");
    }
}

/// A small schema with a plain secret.
const WITH_PASSWORD: Schema = Schema(&[KeySpec {
    section: Section::Sink,
    name: "password",
    kind: Kind::Secret,
    if_unset: IfUnset::Nothing,
    default_on_eventlog: None,
    of_type: None,
    doc: "A password.",
    example: "\"env:NAME\"",
}]);

#[test]
fn a_plain_secret_is_masked_in_the_file_and_refused_in_flags() {
    let environment: Environment = [("KEPT", CANARY)].into_iter().collect();
    let file = ConfigFile::new("test.toml", format!("sink.x.password = '{CANARY}'"));
    let flags = [format!("sink.x.password={CANARY}"), "sink.y.password=env:KEPT".to_owned()];
    let sources = Sources { file: Some(&file), environment: &environment, flags: &flags };
    let (effective, problems) = Effective::merge(WITH_PASSWORD, &sources);
    assert_eq!(problems.iter().map(|problem| problem.code.to_string()).collect::<Vec<_>>(), ["PR-0608"]);
    let seen: Vec<String> =
        effective.settings().iter().filter_map(|s| s.value.as_ref().map(Value::to_string)).collect();
    assert_eq!(seen, ["***", "env:KEPT"]);
    let errors: Vec<_> = problems.into_iter().map(postrider::Error::from).collect();
    assert!(!format!("{effective:?} {errors:?}").contains(CANARY));
    let Some(Value::Secret(kept)) = &effective.settings()[1].value else { panic!("{effective:?}") };
    assert_eq!(kept.resolve(&environment).unwrap().expose_secret(), CANARY);
}

#[test]
fn the_path_of_an_endpoint_is_masked_and_refused_in_flags() {
    let rule = format!("subscription.s.rule = [{{ destination = 'https://h/{CANARY}/{{id}}' }}]\n");
    let text = format!(
        "outbox.x.url = 'sqlite:a'\nsink.x.type = 'webhook'\nsink.x.url = 'https://h:8443/{CANARY}'\n\
         sink.y.type = 'webhook'\nsubscription.s.sink = 'y'\n{rule}"
    );
    for flags in [&[][..], &["--json"]] {
        let ran = program().file("postrider.toml", &text).run(&[&["config", "show"], flags].concat());
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        assert!(ran.stdout.contains("https://h:8443/***") && !ran.stdout.contains(CANARY), "{ran:?}");
        assert!(ran.stdout.contains("https://h/***"), "{ran:?}");
    }
    for url in ["https://h/CANARY", "http://h/?CANARY", "https://h/#CANARY"] {
        let flag = format!("sink.x.url={}", url.replace("CANARY", CANARY));
        let ran = program().file("postrider.toml", &text).run(&["config", "show", "--set", &flag]);
        assert_eq!(ran.exit, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("PR-0608") && !ran.stderr.contains(CANARY), "{ran:?}");
    }
    for url in ["https://h:8443/", "env:KEPT", "file:kept.txt"] {
        let flag = format!("sink.x.url={url}");
        let ran = program().file("postrider.toml", &text).run(&["config", "show", "--set", &flag]);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
}

#[test]
fn a_secret_prints_as_a_mask() {
    let secret = Secret::new(CANARY);
    assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
}
