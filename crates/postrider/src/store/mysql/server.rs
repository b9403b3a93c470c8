//! The identity of the server, and whether positions are reliable on it.

use std::collections::HashMap;
use std::fmt;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::failure::failed;
use super::locks::Locks;
use crate::layout::RowLayout;
use crate::store::Origin;
use crate::{Code, Error, Result};

/// The product: MySQL and MariaDB share a protocol and most of their SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Product {
    /// MySQL, and servers that identify themselves as MySQL.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MySql => "MySQL",
            Self::MariaDb => "MariaDB",
        })
    }
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) product: Product,
    /// Distinguishes it from other copies of its data: MySQL's `server_uuid`. MariaDB has none; there it is
    /// `server_id`, which differs between the servers of a replication.
    pub(super) history: String,
    /// The source of its metadata locks, if it reports them.
    pub(super) locks: Option<Locks>,
    /// Major and minor version.
    version: (u16, u16),
    /// Other primaries accept writes, too.
    has_other_primaries: bool,
    /// `auto_increment_increment`.
    increment: String,
}

/// The oldest supported versions: they have enforced CHECKs, expressions as defaults, and JSON_TABLE.
const MYSQL_MIN: (u16, u16, u16) = (8, 0, 16);
const MARIADB_MIN: (u16, u16, u16) = (10, 6, 0);

impl Server {
    /// Queries the identity and properties of the server, and refuses one that cannot be used.
    pub(super) async fn of(conn: &mut Conn) -> Result<Self> {
        // Reads no table. A server omits variables that it does not have.
        let sql = "SHOW GLOBAL VARIABLES WHERE variable_name IN
                   ('version', 'server_uuid', 'server_id', 'read_only', 'super_read_only', 'performance_schema',
                    'wsrep_on', 'group_replication_group_name', 'group_replication_single_primary_mode',
                    'auto_increment_increment', 'log_bin', 'binlog_format')";
        let rows: Vec<(String, String)> = conn.query(sql).await.map_err(failed)?;
        let known = Variables(rows.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect());
        let version = known.get("version");
        let product = if version.contains("MariaDB") { Product::MariaDb } else { Product::MySql };
        let version = refuse_old(product, version, conn.server_version())?;
        known.refuse()?;
        let history = match product {
            Product::MySql => known.get("server_uuid").to_owned(),
            Product::MariaDb => format!("server_id {}", known.get("server_id")),
        };
        let locks = Locks::of(conn, product, known.is_on("performance_schema")).await?;
        let has_other_primaries = known.has_other_primaries();
        let increment = known.get("auto_increment_increment").to_owned();
        Ok(Self { product, history, locks, version, has_other_primaries, increment })
    }

    /// Refuses a MariaDB without the type UUID for a layout that uses it.
    pub(super) fn refuse_without_uuids(&self, layout: RowLayout) -> Result<()> {
        refuse_without_uuids(self.product, self.version, layout)
    }

    /// Refuses a server on which positions are not reliable.
    pub(super) fn refuse_positions(&self) -> Result<()> {
        if self.has_other_primaries {
            let what = "the server shares writes with other primaries (Galera, or group replication with several primaries)";
            return Err(Error::new(Code::ServerUnfit, what)
                .with_effect(
                    "nothing was read or changed: with several primaries, positions do not show which transactions may still commit",
                )
                .with_hint(
                    "use one primary (wsrep_on=OFF, group_replication_single_primary_mode=ON), or a layout \
                       with a state per row",
                ));
        }
        if self.increment != "1" {
            let what = format!("the server has auto_increment_increment = {}", self.increment);
            return Err(Error::new(Code::ServerUnfit, what)
                .with_effect("nothing was read or changed: the relay would wait for every skipped position")
                .with_hint(
                    "set auto_increment_increment = 1 and auto_increment_offset = 1, for writers too",
                ));
        }
        Ok(())
    }

    /// Its identity, as the public type. The start time does not matter: a restart loses no committed event, and ends
    /// all connections.
    pub(super) fn origin(&self) -> Origin {
        Origin { history: self.history.clone(), started: String::new() }
    }
}

struct Variables(HashMap<String, String>);

impl Variables {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn is_on(&self, name: &str) -> bool {
        // MariaDB 12 has more values for read_only than ON.
        !matches!(self.get(name).to_ascii_uppercase().as_str(), "" | "OFF" | "0" | "NO")
    }

    fn has_other_primaries(&self) -> bool {
        self.is_on("wsrep_on")
            || !self.get("group_replication_group_name").is_empty()
                && !self.is_on("group_replication_single_primary_mode")
    }

    /// Refuses a server that does not accept our writes.
    fn refuse(&self) -> Result<()> {
        if self.is_on("log_bin") && self.get("binlog_format").eq_ignore_ascii_case("STATEMENT") {
            return Err(Error::new(Code::ServerUnfit, "the server has binlog_format = STATEMENT")
                .with_effect("nothing was read or changed: the server would reject every write at READ COMMITTED, which Postrider uses")
                .with_hint("set binlog_format = ROW, the default, or MIXED"));
        }
        if self.is_on("read_only") || self.is_on("super_read_only") {
            return Err(Error::new(Code::StoreReadOnly, "the server is read_only, like a replica")
                .with_hint("connect to the primary"));
        }
        Ok(())
    }
}

/// Returns the major and minor version.
fn refuse_old(product: Product, version: &str, number: (u16, u16, u16)) -> Result<(u16, u16)> {
    // MariaDB may prefix its version with 5.5.5-, for clients that do not know versions above 5.
    let reported = version.trim_start_matches("5.5.5-").split(['-', '+']).next().unwrap_or_default();
    let mut parts = reported.split('.').map(|part| part.parse().unwrap_or(0));
    let mut part = || parts.next().unwrap_or(0);
    let number = if reported.is_empty() { number } else { (part(), part(), part()) };
    let least = if product == Product::MySql { MYSQL_MIN } else { MARIADB_MIN };
    if number >= least {
        return Ok((number.0, number.1));
    }
    let what = format!(
        "the server is {product} {reported}; at least {}.{}.{} is required",
        least.0, least.1, least.2
    );
    Err(Error::new(Code::ServerTooOld, what))
}

/// MariaDB has the type UUID since 10.7.
fn refuse_without_uuids(product: Product, (major, minor): (u16, u16), layout: RowLayout) -> Result<()> {
    if product == Product::MySql || (major, minor) >= (10, 7) {
        return Ok(());
    }
    let what = format!(
        "the server is MariaDB {major}.{minor}; layout {} needs the type UUID, which MariaDB has since 10.7",
        layout.name()
    );
    Err(Error::new(Code::ServerTooOld, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mariadb_without_the_type_uuid_is_refused_for_eventlog() {
        let refused = |product, version| refuse_without_uuids(product, version, RowLayout::Eventlog);
        let error = refused(Product::MariaDb, (10, 6)).unwrap_err();
        assert_eq!(error.code(), Code::ServerTooOld);
        assert!(error.message().contains("MariaDB 10.6; layout eventlog needs the type UUID"), "{error}");
        assert!(refused(Product::MariaDb, (10, 7)).is_ok());
        assert!(refused(Product::MariaDb, (11, 4)).is_ok());
        assert!(refused(Product::MySql, (8, 0)).is_ok());
    }

    fn refused(settings: &[(&str, &str)]) -> Option<Code> {
        let mut known = HashMap::from([("auto_increment_increment".to_owned(), "1".to_owned())]);
        known.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let known = Variables(known);
        let server = Server {
            version: (8, 0),
            product: Product::MySql,
            history: String::new(),
            locks: None,
            has_other_primaries: known.has_other_primaries(),
            increment: known.get("auto_increment_increment").to_owned(),
        };
        known.refuse().and(server.refuse_positions()).err().map(|error| error.code())
    }

    #[test]
    fn a_server_with_other_primaries_or_another_increment_is_refused() {
        assert_eq!(refused(&[("wsrep_on", "OFF"), ("read_only", "OFF")]), None);
        assert_eq!(refused(&[("wsrep_on", "ON")]), Some(Code::ServerUnfit));
        let group = ("group_replication_group_name", "aaaa");
        assert_eq!(refused(&[group, ("group_replication_single_primary_mode", "ON")]), None);
        assert_eq!(
            refused(&[group, ("group_replication_single_primary_mode", "OFF")]),
            Some(Code::ServerUnfit)
        );
        assert_eq!(refused(&[("auto_increment_increment", "2")]), Some(Code::ServerUnfit));
        assert_eq!(refused(&[("read_only", "ON")]), Some(Code::StoreReadOnly));
        assert_eq!(refused(&[("super_read_only", "1")]), Some(Code::StoreReadOnly));
    }

    #[test]
    fn versions_are_parsed_with_any_prefix_and_suffix() {
        let (my, maria) = (Product::MySql, Product::MariaDb);
        for (product, version, fits) in [
            (my, "8.0.16", true),
            (my, "9.7.4-2", true),
            (my, "8.0.15", false),
            (my, "5.7.44-log", false),
            (maria, "10.6.0-MariaDB", true),
            (maria, "5.5.5-10.11.19-MariaDB-0+deb12u1-log", true),
            (maria, "10.5.28-MariaDB", false),
        ] {
            assert_eq!(refuse_old(product, version, (0, 0, 0)).is_ok(), fits, "{version}");
        }
    }
}
