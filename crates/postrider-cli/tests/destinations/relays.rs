//! Relays as processes of the real program.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::shop::Shop;
use postrider_testkit::eventually_blocking;

/// Several relays that share the subscriptions of one configuration.
pub(crate) struct Relays<'a> {
    shop: &'a Shop,
    config: PathBuf,
    running: BTreeMap<String, Relay>,
    started: usize,
}

/// One process. Killed when dropped.
pub(crate) struct Relay {
    process: Child,
    log: PathBuf,
}

impl Relay {
    /// Starts it under its own name. Its log goes to a file of that name.
    pub(crate) fn start(folder: &Path, config: &Path, name: &str) -> Self {
        let log = folder.join(format!("{name}.log"));
        let process = Command::new(env!("CARGO_BIN_EXE_postrider"))
            .args(["relay", "--config"])
            .arg(config)
            .args(["--set", &format!("relay.name={name}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn();
        Self { process: process.unwrap(), log }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success(), "kill -s {signal}");
    }

    /// Waits until its log contains this text.
    pub(crate) fn wait_until_it_says(&self, what: &str) {
        eventually_blocking(&format!("{what:?} in {:?}", self.log), || self.times(what) > 0);
    }

    /// How often its log contains this text.
    pub(crate) fn times(&self, what: &str) -> usize {
        std::fs::read_to_string(&self.log).unwrap().matches(what).count()
    }

    /// Kills it with `kill -9`. Returns when it has ended.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops it cleanly.
    pub(crate) fn shut_down(mut self) {
        self.signal("TERM");
        assert!(self.process.wait().unwrap().success(), "a relay ended with an error");
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(8).collect();
            println!("{}: {last:#?}", self.log.display());
        }
    }
}

impl<'a> Relays<'a> {
    /// Starts this many relays with this configuration.
    pub(crate) fn start(shop: &'a Shop, config: &str, count: usize) -> Self {
        let file = shop.folder.path().join("postrider.toml");
        std::fs::write(&file, config).unwrap();
        let mut relays = Self { shop, config: file, running: BTreeMap::new(), started: 0 };
        (0..count).for_each(|_| relays.start_one());
        relays
    }

    fn start_one(&mut self) {
        let name = format!("relay-{}", self.started);
        self.started += 1;
        let relay = Relay::start(self.shop.folder.path(), &self.config, &name);
        self.running.insert(name, relay);
    }

    /// The running relay that holds the lease.
    pub(crate) fn leader(&self) -> String {
        let mut leader = None;
        eventually_blocking("a leader", || {
            let holder = self.shop.text("SELECT holder FROM postrider.leases ORDER BY name LIMIT 1");
            // The name is followed by a unique part.
            let name = holder.map(|holder| holder.split('#').next().unwrap_or_default().to_owned());
            leader = name.filter(|name| self.running.contains_key(name));
            leader.is_some()
        });
        leader.unwrap()
    }

    /// Kills the leader with `kill -9` and starts another relay.
    pub(crate) fn kill_leader(&mut self) {
        let leader = self.leader();
        self.running.remove(&leader).unwrap().kill();
        self.start_one();
    }

    /// Kills all relays with `kill -9` and starts as many.
    pub(crate) fn kill_all(&mut self) {
        let all = std::mem::take(&mut self.running);
        let count = all.len();
        all.into_values().for_each(Relay::kill);
        (0..count).for_each(|_| self.start_one());
    }

    /// How often the log of a relay contains this text.
    pub(crate) fn times(&self, relay: &str, what: &str) -> usize {
        self.running[relay].times(what)
    }

    pub(crate) fn shut_down(self) {
        self.running.into_values().for_each(Relay::shut_down);
    }
}
