//! Every mistake in the configuration is reported with code, key and location, ends with the documented exit
//! code and prints no data.

use crate::program::Program;

struct Wrong {
    file: &'static str,
    variables: &'static [(&'static str, &'static str)],
    flags: &'static [&'static str],
    /// All of these are in the message; the code first.
    says: &'static [&'static str],
}

const fn file(file: &'static str, says: &'static [&'static str]) -> Wrong {
    Wrong { file, variables: &[], flags: &[], says }
}

const fn variable(
    name_and_value: &'static [(&'static str, &'static str)],
    says: &'static [&'static str],
) -> Wrong {
    Wrong { file: GOOD, variables: name_and_value, flags: &[], says }
}

const fn flag(flags: &'static [&'static str], says: &'static [&'static str]) -> Wrong {
    Wrong { file: GOOD, variables: &[], flags, says }
}

const GOOD: &str = "[outbox.shop]\nurl = 'sqlite:shop.db'\n[sink.out]\ntype = 'stdout'\n[subscription.my-orders]\nsink = 'out'\n";

#[rustfmt::skip]
const ALL: &[Wrong] = &[
    // Not TOML
    file("[relay", &["PR-0602", "postrider.toml:1:7"]),
    file("[relay]\nlog = info\n", &["PR-0602", "postrider.toml:2:7"]),
    file("[relay]\nlog = 'info'\nlog = 'warn'\n", &["PR-0602", "postrider.toml:3:1", "duplicate key"]),
    file("[relay]\nlog = 'info\n", &["PR-0602", "postrider.toml:2:"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nretention = 'expires_at'\n", &["PR-0604", "outbox.a.retention", "needs layout outbox"]),
    // Keys that do not exist
    file("[outbux.shop]\n", &["PR-0603", "postrider.toml:1:2", "\"outbux\"", "did you mean \"outbox\"?"]),
    file("[relay]\n  naem = 'x'\n", &["PR-0603", "postrider.toml:2:3", "\"naem\" in [relay]", "did you mean \"name\"?"]),
    file("[relay]\nqqq = 1\n", &["PR-0603", "\"qqq\" in [relay]", "there is \"name\", \"log\", \"log_format\""]),
    file("[outbox.a]\nurl = 'sqlite:a'\npayload_maks = '1MiB'\n", &["PR-0603", "postrider.toml:3:1", "did you mean \"payload_max\"?"]),
    file("[sink.o]\ntype = 'null'\npath = 'x'\n", &["PR-0603", "postrider.toml:3:1", "\"path\" is a key of type \"file\"", "[sink.o] is of type \"null\""]),
    file("[outbox.a]\nurl = 'sqlite:a'\n[sink.o]\ntype = 'null'\n[subscription.s]\nsink = 'o'\n[[subscription.s.rule]]\ndest = 'x'\n",
        &["PR-0603", "postrider.toml:8:1", "\"dest\" in [subscription.s.rule[0]]", "did you mean \"destination\"?"]),
    file("[outbox.a]\nurl = 'sqlite:a'\n[sink.o]\ntype = 'null'\n[subscription.s]\nsink = 'o'\nrules = []\n", &["PR-0603", "postrider.toml:7:1", "did you mean \"rule\"?"]),
    variable(&[("POSTRIDER__RELAY__LOGG", "info")], &["PR-0603", "env POSTRIDER__RELAY__LOGG", "did you mean \"log\"?"]),
    variable(&[("POSTRIDER__RELAI__LOG", "info")], &["PR-0603", "env POSTRIDER__RELAI__LOG", "did you mean \"relay\"?"]),
    variable(&[("POSTRIDER__RELAY", "info")], &["PR-0603", "env POSTRIDER__RELAY: this is not a key"]),
    flag(&["relay.lgo=info"], &["PR-0603", "flag --set", "did you mean \"log\"?"]),
    flag(&["relay.x.log=info"], &["PR-0603", "flag --set", "\"x.log\" in [relay]"]),
    // Values of the wrong type
    file("relay = 5\n", &["PR-0604", "postrider.toml:1:1", "\"relay\" is not a table", "write [relay]"]),
    file("sink = ['out']\n", &["PR-0604", "\"sink\" is not a table", "write [sink.NAME]"]),
    file("[relay]\nlog = 'inf'\n", &["PR-0604", "postrider.toml:2:1", "relay.log takes one of", "the text \"inf\"", "did you mean \"info\"?"]),
    file("[relay]\nname = ''\n", &["PR-0604", "relay.name takes a text, found an empty text"]),
    file("[relay]\nname = 2026-11-15\n", &["PR-0604", "relay.name takes a text, found a date or time without quotes"]),
    // Shards
    file("[outbox.a]\nurl = 'sqlite:a'\nshards = 'sqlite:b'\n", &["PR-0604", "postrider.toml:3:1", "outbox.a.shards takes a table of URLs", "found another text"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nshards = { '1.0' = 'b' }\n", &["PR-0604", "outbox.a.shards takes a table of URLs", "found a table"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nshards = { '256.0' = 'sqlite:b' }\n", &["PR-0604", "outbox.a.shards: \"256.0\" is not a shard", "from \"0.0\" to \"255.63\""]),
    file("[outbox.a]\nurl = 'sqlite:a'\n[outbox.a.shards]\n0.64 = 'sqlite:b'\n", &["PR-0604", "\"0.64\" is not a shard", "GROUP.MEMBER"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nshards = { '01.0' = 'sqlite:b' }\n", &["PR-0604", "\"01.0\" is not a shard"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nshards = { one = 'sqlite:b' }\n", &["PR-0604", "\"one\" is not a shard"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nshards = { '0.0' = 'sqlite:b' }\n", &["PR-0604", "shard 0.0 is the database of `url`"]),
    file("[outbox.a]\nurl = 'sqlite:a'\n[outbox.a.shards]\n'1.0' = 'sqlite:b'\n'1.0' = 'sqlite:c'\n", &["PR-0602", "duplicate key"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nshards = { '1.0' = 'sqlite:a' }\n", &["PR-0604", "shard 1.0 is the same database as a:0.0"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nshards = { '1.0' = 'sqlite:b', '1.1' = 'sqlite:b' }\n", &["PR-0604", "shard 1.1 is the same database as a:1.0"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nshards = { '1.0' = 'redis://h' }\n", &["PR-0604", "outbox.a.shards: the URL must start with", "shard 1.0"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nshards = { '1.0' = 'env:SHARD_URL' }\n", &["PR-0607", "outbox.a.shards: 1.0: the variable SHARD_URL is not set"]),
    flag(&["outbox.shop.shards=sqlite:b"], &["PR-0604", "outbox.shop.shards takes a table of URLs"]),
    file("[outbox.a]\nurl = 5\n", &["PR-0604", "outbox.a.url takes a URL", "found a number", "url = \"sqlite:shop.db\""]),
    file("[outbox.a]\nurl = 'shop.db'\n", &["PR-0604", "outbox.a.url takes a URL", "found another text"]),
    file("[outbox.a]\nurl = 'env:'\n", &["PR-0604", "outbox.a.url takes a URL", "found another text"]),
    file("[outbox.a]\nurl = 'sqlite:a'\npayload_max = 1048576\n", &["PR-0604", "a size such as \"64KiB\"", "the number 1048576", "payload_max = \"256KiB\""]),
    file("[outbox.a]\nurl = 'sqlite:a'\npayload_max = '1MB'\n", &["PR-0604", "a size", "the text \"1MB\""]),
    file("[outbox.a]\nurl = 'sqlite:a'\nheaders_max = -1\n", &["PR-0604", "a whole number, found the number -1"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nheaders_max = 1.5\n", &["PR-0604", "a whole number, found a number with a fraction"]),
    flag(&["subscription.my-orders.lease=15"], &["PR-0604", "flag --set: subscription.my-orders.lease takes a duration", "the text \"15\""]),
    flag(&["subscription.my-orders.batch_events_max=0"], &["PR-0604", "a whole number of at least 1", "the text \"0\""]),
    flag(&["subscription.my-orders.breaker_keys=1"], &["PR-0604", "a whole number of at least 2"]),
    flag(&["subscription.my-orders.several_destinations=yes"], &["PR-0604", "takes true or false, found the text \"yes\""]),
    flag(&["subscription.my-orders.start=yesterday"], &["PR-0604", "\"now\", \"beginning\"", "the text \"yesterday\""]),
    flag(&["subscription.my-orders.start=time:2026-13-01"], &["PR-0604", "subscription.my-orders.start takes"]),
    variable(&[("POSTRIDER__SUBSCRIPTION__MY_ORDERS__ONLY", "a,,b")], &["PR-0604", "env POSTRIDER__SUBSCRIPTION__MY_ORDERS__ONLY: subscription.my-orders.only takes a list"]),
    file("[outbox.a]\nurl = 'sqlite:a'\n[sink.o]\ntype = 'null'\n[subscription.s]\nsink = 'o'\nonly = [1]\n", &["PR-0604", "postrider.toml:7:1", "a list of texts, found a list of something else"]),
    file("[outbox.a]\nurl = 'sqlite:a'\n[sink.o]\ntype = 'null'\n[subscription.s]\nsink = 'o'\nrule = 'x'\n", &["PR-0604", "\"subscription.s.rule\" is not a table", "[[subscription.NAME.rule]]"]),
    file("[outbox.a]\nurl = 'sqlite:a'\n[sink.o]\ntype = 'null'\n[subscription.s]\nsink = 'o'\n[[subscription.s.rule]]\nheaders = { a = 1 }\n", &["PR-0604", "rule[0].headers takes a table of texts"]),
    // Rules and templates
    file("[outbox.a]\nurl = 'sqlite:a'\n[sink.o]\ntype = 'null'\n[subscription.s]\nsink = 'o'\n[[subscription.s.rule]]\ndestination = 'x.{tipe}'\n", &["PR-0412", "[subscription.s]: rule 1", "tipe"]),
    file("[outbox.a]\nurl = 'sqlite:a'\n[sink.o]\ntype = 'null'\n[subscription.s]\nsink = 'o'\n[[subscription.s.rule]]\nkey = '{type'\n", &["PR-0413", "[subscription.s]: rule 1"]),
    file("[outbox.a]\nurl = 'sqlite:a'\n[sink.o]\ntype = 'null'\n[subscription.s]\nsink = 'o'\n[[subscription.s.rule]]\nheaders = { postrider-id = 'x' }\n", &["PR-0414", "[subscription.s]: rule 1", "reserved"]),
    file("[outbox.a]\nurl = 'sqlite:a'\n[sink.o]\ntype = 'null'\n[subscription.s]\nsink = 'o'\nmatch = 'all'\n[[subscription.s.rule]]\nkey = 'a'\n[[subscription.s.rule]]\nkey = 'b'\n", &["PR-0414", "rule 2"]),
    file("[sink.o]\ntype = 'null'\nsource = 'not a uri'\n", &["PR-0415", "postrider.toml:3:1: sink.o.source"]),
    // URLs that cannot be opened
    file("[outbox.a]\nurl = 'postgres://h/db?sslmode=maybe'\n", &["PR-0604", "postrider.toml:2:1: outbox.a.url", "unknown sslmode"]),
    file("[outbox.a]\nurl = 'sqlite:a'\nschema = 'x'\n", &["PR-0604", "postrider.toml:3:1: outbox.a.schema", "for PostgreSQL"]),
    file("[outbox.a]\nurl = 'sqlite::memory:'\n", &["PR-0604", "outbox.a.url", "in-memory database"]),
    // Keys and names that are missing
    file("[outbox.a]\n", &["PR-0605", "postrider.toml:1:9", "[outbox.a] has no key \"url\"", "url = \"sqlite:shop.db\""]),
    file("[sink.o]\ntype = 'file'\n", &["PR-0605", "[sink.o] has no key \"path\""]),
    file("[sink]\ntype = 'file'\n", &["PR-0605", "postrider.toml:2:1", "a sink needs a name", "[sink.main]"]),
    file("[sink.o]\ntype = 'null'\n[subscription.s]\nsink = 'o'\n", &["PR-0605", "[subscription.s] needs an outbox, but none is configured"]),
    flag(&["outbox.other.url=sqlite:b.db"], &["PR-0605", "[subscription.my-orders] does not name its outbox", "\"other\", \"shop\""]),
    flag(&["sink.type=null"], &["PR-0605", "flag --set: a sink needs a name"]),
    variable(&[("POSTRIDER__SINK__NEW__ENCODER", "plain")], &["PR-0605", "[sink.new] has no key \"type\""]),
    // Names
    file("[sink.'a b']\ntype = 'null'\n", &["PR-0204", "postrider.toml:1:7", "\"a b\" cannot be the name of a sink"]),
    // References
    flag(&["subscription.my-orders.sink=oot"], &["PR-0606", "flag --set: subscription.my-orders.sink", "\"oot\"", "did you mean \"out\"?"]),
    flag(&["subscription.my-orders.outbox=qqq"], &["PR-0606", "there is \"shop\""]),
    // Secrets
    flag(&["outbox.shop.url=env:NOWHERE"], &["PR-0607", "outbox.shop.url: the variable NOWHERE is not set"]),
    flag(&["outbox.shop.url=file:nowhere.txt"], &["PR-0607", "outbox.shop.url: cannot read nowhere.txt"]),
    flag(&["outbox.shop.url=postgres://u:pw@h/db"], &["PR-0608", "env:NAME or file:PATH"]),
    // Not key=value
    flag(&["relay.log"], &["PR-0602", "flag --set: this is not section.key=value"]),
    flag(&["=x"], &["PR-0603", "this is not a key"]),
    // Contradictory policies
    flag(&["subscription.my-orders.poll_min=5s"], &["PR-0401", "[subscription.my-orders]", "poll_min is 5s and poll_max is 500ms"]),
    flag(&["subscription.my-orders.lease=10ms"], &["PR-0401", "lease is 10ms"]),
];

#[test]
fn every_invalid_config_is_reported_with_code_key_and_location_and_prints_no_data() {
    assert!(ALL.len() >= 25);
    for Wrong { file, variables, flags, says } in ALL {
        let program = Program::with_config(file);
        let program = variables.iter().fold(program, |program, (name, value)| program.variable(name, value));
        let mut args = vec!["config", "check"];
        args.extend(flags.iter().flat_map(|flag| ["--set", flag]));
        let ran = program.run(&args);
        assert_eq!(ran.exit, Some(2), "{file}{flags:?}: {ran:?}");
        assert_eq!(ran.stdout, "", "{file}{flags:?}");
        for text in *says {
            assert!(ran.stderr.contains(text), "{file}{flags:?}: no {text} in\n{}", ran.stderr);
        }
        let errors = ran.stderr.matches("error[").count();
        assert_eq!(errors, 1, "one mistake, one error: {file}{flags:?}:\n{}", ran.stderr);
    }
}

#[test]
fn the_config_that_the_invalid_ones_differ_from_is_valid() {
    let ran = Program::with_config(GOOD).run(&["config", "check"]);
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.stdout, "postrider.toml: ok (outboxes: 1, sinks: 1, subscriptions: 1)\n");
}

#[test]
fn all_mistakes_are_reported_at_once_in_file_order() {
    let text = "[relay]\nlog = 5\n[sink.out]\ntype = 'fil'\n[subscription.s]\nsink = 'oot'\nleas = '5s'\n";
    let ran = Program::with_config(text).run(&["config", "check"]);
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("error[")).collect();
    let codes: Vec<&str> = errors.iter().map(|line| &line[6..13]).collect();
    assert_eq!(codes, ["PR-0604", "PR-0604", "PR-0605", "PR-0606", "PR-0603"], "{}", ran.stderr);
}

#[test]
fn with_json_output_the_mistakes_are_json() {
    let ran = Program::with_config("[relay]\nlog = 5\n").run(&["config", "check", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(2), ""));
    assert_eq!(report["ok"], false);
    assert_eq!(report["problems"][0]["code"], "PR-0604");
    assert_eq!(report["problems"][0]["key"], "relay.log");
    assert_eq!(report["problems"][0]["origin"], "postrider.toml:2:1");
}

#[test]
fn an_unreadable_config_file_is_an_error() {
    let program = Program::new().variable("POSTRIDER_CONFIG", "named-by-variable.toml");
    for (program, args, name) in [
        (&Program::new(), &["config", "check", "--config", "named.toml"][..], "named.toml"),
        (&program, &["config", "check"][..], "named-by-variable.toml"),
        (&Program::new(), &["config", "show", "--config", "."][..], "cannot read .:"),
    ] {
        let ran = program.run(args);
        assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.starts_with("error[PR-0601]") && ran.stderr.contains(name), "{ran:?}");
    }
}
