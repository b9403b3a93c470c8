//! The operations of a shop that the cases use, on any server.

use std::path::Path;

use postrider::Event;
use postrider_testkit::verify::{Sighting, Verdict};

use super::books::Books;
use crate::shop::wait_for;

pub(crate) const KEYS: u64 = 20;

/// An outbox in the schema `postrider`, a table `stock` with a version per key, and a table `changes` in which triggers
/// record every change of progress, parked rows and leases under the name of the relay.
pub(crate) trait Shop: Sized {
    /// If there is no server, prints why and returns `None`.
    fn open() -> Option<Self>;

    fn books(&self) -> &Books;

    /// The URL for a relay whose changes are recorded under this name.
    fn url_for(&self, relay: &str) -> String;

    /// One transaction that increments the version of each key and writes an event about it.
    fn transaction(&self, keys: &[u64]) -> Vec<Sighting>;

    fn run(&self, sql: &str);

    fn number(&self, sql: &str) -> i64;

    /// Makes the lease expire by the server's clock.
    fn end_lease(&self);

    /// A number that grows with every statement of this relay.
    fn heard_of(&self, relay: &str) -> i64;

    /// The server's clock.
    fn now_ms(&self) -> i64;

    /// When the lease was taken, on the same clock.
    fn lease_taken_ms(&self) -> i64;

    fn output(&self) -> &Path {
        &self.books().output
    }

    /// Writes this many transactions of two events each.
    fn write(&self, transactions: u64) {
        for number in 0..transactions {
            self.books().commit(self.transaction(&[number % KEYS, (number * 7 + 3) % KEYS]));
        }
    }

    fn floor(&self) -> i64 {
        self.number("SELECT coalesce(max(floor), 0) FROM postrider.subscriptions")
    }

    fn epoch(&self) -> i64 {
        self.number("SELECT epoch FROM postrider.subscriptions")
    }

    fn last_position(&self) -> i64 {
        self.number("SELECT max(position) FROM postrider.events")
    }

    /// The number of changes recorded under a name.
    fn changes_of(&self, relay: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM changes WHERE relay = '{relay}'"))
    }

    /// Whether this relay made the last change.
    fn is_led_by(&self, relay: &str) -> bool {
        let latest = "SELECT relay FROM changes ORDER BY number DESC LIMIT 1";
        self.number(&format!("SELECT count(*) FROM ({latest}) AS latest WHERE relay = '{relay}'")) == 1
    }

    fn verdict(&self) -> Verdict {
        self.books().verdict()
    }

    /// Waits until everything committed so far is delivered, for at most a minute.
    fn wait_until_delivered(&self) -> Verdict {
        wait_for(|| self.verdict().lost == 0);
        self.verdict()
    }
}

/// The event about a key's new version.
pub(crate) fn changed(key: u64, version: i64) -> Event {
    Event::new("stock.changed", format!("{{\"version\":{version}}}")).with_aggregate("Stock", key.to_string())
}

/// A test on each kind of server. Without a server, its test passes.
macro_rules! case {
    (fn $name:ident($shop:pat) $body:block) => {
        mod $name {
            use super::*;
            use crate::servers::{mysql, postgres};

            fn on<S: Shop>() {
                let Some($shop) = S::open() else { return };
                $body
            }

            #[test]
            fn on_postgres() {
                on::<postgres::PostgresShop>();
            }

            #[test]
            fn on_mysql() {
                on::<mysql::MySqlShop<mysql::MySql>>();
            }

            #[test]
            fn on_mariadb() {
                on::<mysql::MySqlShop<mysql::MariaDb>>();
            }
        }
    };
}
pub(crate) use case;
