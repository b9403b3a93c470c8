//! `xtask soak`: runs the long programs and stores their output in `docs/figures/NAME.txt`.

use crate::{machine, process};

/// A long-running program that ends with figures.
struct Soak {
    /// The name of its file of figures.
    name: &'static str,
    /// The arguments of cargo, separated by blanks.
    cargo: &'static str,
    /// Variables that make it large; the caller's environment takes precedence.
    environment: &'static [(&'static str, &'static str)],
}

const SOAKS: &[Soak] = &[
    Soak {
        name: "sim",
        cargo: "run --release -q -p postrider-testkit --features sim --bin sim -- --seeds 0..100000",
        environment: &[],
    },
    Soak {
        name: "kill",
        cargo: "test --release -q -p postrider-sinks -- killed --nocapture",
        environment: &[("KILLS", "200")],
    },
    Soak {
        name: "storm-postgres",
        cargo: "test --release -q -p postrider --features postgres --test storm -- --nocapture",
        environment: &[("STORM_SECONDS", "600")],
    },
    // With the packages and features of `xtask test`, so that nothing is rebuilt; these programs verify and do not
    // measure.
    Soak {
        name: "soak-kafka",
        cargo: "test -q --workspace --all-features --test destinations -- soak::kafka --nocapture --test-threads 1",
        environment: &[("SOAK_EVENTS", "100000")],
    },
    Soak {
        name: "soak-mqtt",
        cargo: "test -q --workspace --all-features --test destinations -- soak::mqtt --nocapture",
        environment: &[("SOAK_EVENTS", "100000")],
    },
    Soak {
        name: "soak-redis",
        cargo: "test -q --workspace --all-features --test destinations -- soak::redis --nocapture --test-threads 1",
        environment: &[("SOAK_EVENTS", "100000")],
    },
    Soak {
        name: "soak-webhook",
        cargo: "test -q --workspace --all-features --test destinations -- soak::a_webhook --nocapture",
        environment: &[("SOAK_EVENTS", "100000")],
    },
    Soak {
        name: "storm-mysql",
        cargo: "test -q --workspace --all-features --test storm -- mysql_storm --nocapture --test-threads 1",
        environment: &[("STORM_SECONDS", "600")],
    },
    Soak {
        name: "inbox",
        cargo: "test -q --workspace --all-features --test stores -- an_effect_happens_once --nocapture --test-threads 1",
        environment: &[("INBOX_IDS", "10000")],
    },
    Soak {
        name: "handlers",
        cargo: "test -q --workspace --all-features --test stores -- a_slow_handler_and_a_failing_one --nocapture --test-threads 1",
        environment: &[("HANDLER_EVENTS", "100000")],
    },
    Soak {
        name: "outage-kafka",
        cargo: "test -q --workspace --all-features --test cli -- kafka_is_killed_under_load --nocapture",
        environment: &[("OUTAGE_SECONDS", "60")],
    },
    Soak {
        name: "operate-postgres",
        cargo: "test -q --workspace --all-features --test cli -- every_command_of_an_operator --nocapture",
        environment: &[("LARGE_DELIVERED", "10000000"), ("LARGE_PARKED", "1000000")],
    },
    Soak {
        name: "drain-sqlite",
        cargo: "run --release -q -p postrider-cli --features bench -- bench drain --events 1000000",
        environment: &[],
    },
    Soak {
        name: "drain-sqlite-20-keys",
        cargo: "run --release -q -p postrider-cli --features bench -- bench drain --events 1000000 --keys 20",
        environment: &[],
    },
    Soak {
        name: "drain-postgres",
        cargo: "run --release -q -p postrider-cli --features bench -- bench drain --db postgres --events 1000000",
        environment: &[],
    },
    Soak {
        name: "drain-postgres-20-keys",
        cargo: "run --release -q -p postrider-cli --features bench -- bench drain --db postgres --events 1000000 --keys 20",
        environment: &[],
    },
    Soak {
        name: "write-postgres",
        cargo: "run --release -q -p postrider-cli --features bench -- bench write --db postgres --transactions 1500",
        environment: &[],
    },
    Soak {
        name: "growth-postgres",
        cargo: "run --release -q -p postrider-cli --features bench -- bench growth --db postgres --many 5000000",
        environment: &[],
    },
    Soak {
        name: "latency-postgres",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench latency --db postgres --rate 1000 --seconds 10",
        environment: &[],
    },
    Soak {
        name: "publish-kafka",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench publish --db postgres",
        environment: &[],
    },
    Soak {
        name: "publish-kafka-20-keys",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench publish --db postgres --keys 20",
        environment: &[],
    },
    Soak {
        name: "publish-mqtt",
        cargo: "run --release -q -p postrider-cli --features bench,mqtt -- bench publish --db postgres --sink mqtt \
                --events 50000",
        environment: &[],
    },
    Soak {
        name: "publish-mqtt-20-keys",
        cargo: "run --release -q -p postrider-cli --features bench,mqtt -- bench publish --db postgres --sink mqtt \
                --events 50000 --keys 20",
        environment: &[],
    },
    Soak {
        name: "publish-redis",
        cargo: "run --release -q -p postrider-cli --features bench,redis -- bench publish --db postgres --sink redis",
        environment: &[],
    },
    Soak {
        name: "publish-redis-20-keys",
        cargo: "run --release -q -p postrider-cli --features bench,redis -- bench publish --db postgres --sink redis \
                --keys 20",
        environment: &[],
    },
    Soak {
        name: "latency-kafka",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench latency --db postgres --sink kafka \
                --rate 1000 --seconds 10",
        environment: &[],
    },
    Soak {
        name: "drain-mysql",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench drain --db mysql --events 500000",
        environment: &[],
    },
    Soak {
        name: "latency-mysql",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench latency --db mysql --rate 1000 --seconds 10",
        environment: &[],
    },
    Soak {
        name: "growth-mysql",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench growth --db mysql",
        environment: &[],
    },
    Soak {
        name: "write-mysql",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench write --db mysql --transactions 1500",
        environment: &[],
    },
    Soak {
        name: "drain-mariadb",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench drain --db mariadb --events 500000",
        environment: &[],
    },
    Soak {
        name: "latency-mariadb",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench latency --db mariadb --rate 1000 --seconds 10",
        environment: &[],
    },
    Soak {
        name: "growth-mariadb",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench growth --db mariadb",
        environment: &[],
    },
    Soak {
        name: "write-mariadb",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench write --db mariadb --transactions 1500",
        environment: &[],
    },
    Soak {
        name: "actions-sqlite",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench actions --db sqlite",
        environment: &[],
    },
    Soak {
        name: "actions-postgres",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench actions --db postgres",
        environment: &[],
    },
    Soak {
        name: "actions-mysql",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench actions --db mysql",
        environment: &[],
    },
    Soak {
        name: "actions-mariadb",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench actions --db mariadb",
        environment: &[],
    },
    Soak {
        name: "layouts-sqlite",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench layouts",
        environment: &[],
    },
    Soak {
        name: "layouts-postgres",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench layouts --db postgres",
        environment: &[],
    },
    Soak {
        name: "layouts-mysql",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench layouts --db mysql",
        environment: &[],
    },
    Soak {
        name: "layouts-mariadb",
        cargo: "run --release -q -p postrider-cli --features bench,kafka -- bench layouts --db mariadb",
        environment: &[],
    },
];

/// Runs all programs, or the named ones. Returns whether all passed.
pub(crate) fn run(names: &[String]) -> Result<bool, String> {
    if let Some(unknown) = names.iter().find(|name| !SOAKS.iter().any(|soak| soak.name == **name)) {
        let known: Vec<&str> = SOAKS.iter().map(|soak| soak.name).collect();
        return Err(format!("no soak program is called {unknown}; there are: {}", known.join(", ")));
    }
    let wanted = |soak: &&Soak| names.is_empty() || names.iter().any(|name| name == soak.name);
    let mut failed = Vec::new();
    for soak in SOAKS.iter().filter(wanted) {
        if !soak.run()? {
            failed.push(soak.name);
        }
    }
    for name in &failed {
        println!("failed: {name}");
    }
    Ok(failed.is_empty())
}

impl Soak {
    fn environment(&self) -> Vec<(&'static str, String)> {
        let value = |name, large: &str| std::env::var(name).unwrap_or_else(|_| large.to_owned());
        self.environment.iter().map(|(name, large)| (*name, value(name, large))).collect()
    }

    /// Returns whether it passed. Figures of a failed run are printed but not stored.
    fn run(&self) -> Result<bool, String> {
        let environment = self.environment();
        let settings: String = environment.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        let mut figures = format!("{settings}cargo {}\n{}\n", self.cargo, machine::stamp());
        print!("{figures}");
        let status =
            process::stream(process::cargo().args(self.cargo.split(' ')).envs(environment), |line| {
                println!("{line}");
                figures.push_str(line);
                figures.push('\n');
            })?;
        if !status.success() {
            return Ok(false);
        }
        let folder = process::root().join("docs/figures");
        let file = folder.join(format!("{}.txt", self.name));
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&file, figures))
            .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        println!("kept in docs/figures/{}.txt", self.name);
        Ok(true)
    }
}
