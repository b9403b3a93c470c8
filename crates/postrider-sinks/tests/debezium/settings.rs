//! The files of `docs/src/debezium`, as they are published.

use serde_json::Value;

pub(crate) const POSTGRES: &str = include_str!("../../../../docs/src/debezium/postgres.json");
pub(crate) const MYSQL: &str = include_str!("../../../../docs/src/debezium/mysql.json");
pub(crate) const MARIADB: &str = include_str!("../../../../docs/src/debezium/mariadb.json");

pub(crate) const POSTGRES_SQL: &str = include_str!("../../../../docs/src/debezium/postgres.sql");
pub(crate) const POSTGRES_14_SQL: &str = include_str!("../../../../docs/src/debezium/postgres-14.sql");
pub(crate) const MYSQL_SQL: &str = include_str!("../../../../docs/src/debezium/mysql.sql");
pub(crate) const MARIADB_SQL: &str = include_str!("../../../../docs/src/debezium/mariadb.sql");

/// Replaces the values that the page lists: the name `shop` and the addresses.
pub(crate) fn connector(text: &str, name: &str, port: u16, brokers: &str) -> String {
    let mut connector: Value = serde_json::from_str(&text.replace("shop", name)).unwrap();
    let config = connector["config"].as_object_mut().unwrap();
    config["database.port"] = port.to_string().into();
    if let Some(history) = config.get_mut("schema.history.internal.kafka.bootstrap.servers") {
        *history = brokers.into();
    }
    connector.to_string()
}

/// The page shows these lines once.
#[test]
fn the_settings_of_all_databases_differ_only_in_the_connection() {
    let shared = |text: &'static str| text.split_once("    \"topic.prefix\"").unwrap().1;
    assert_eq!(shared(MYSQL), shared(POSTGRES));
    assert_eq!(shared(MARIADB), shared(POSTGRES));
    let class = |text: &str| text.replace("mariadb.MariaDb", "mysql.MySql");
    assert_eq!(class(MARIADB), MYSQL);
    assert_eq!(MARIADB_SQL, MYSQL_SQL);
    assert_eq!(POSTGRES_SQL.replace("\n    WHERE (event_type IS NOT NULL)", ""), POSTGRES_14_SQL);
}
