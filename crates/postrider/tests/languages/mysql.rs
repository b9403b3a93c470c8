//! A private MySQL or MariaDB server, with an outbox where the examples expect it, and a user that may only write.

use std::sync::Arc;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::store::Store;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider_testkit::servers::mysql::Server;

/// An application that may insert into the outbox, and work with its own table.
const WRITER: &str = "languages_writer";

pub(crate) struct Database {
    server: Server,
    config: MySqlConfig,
}

impl Database {
    pub(crate) async fn new(server: Server, tables: &str) -> Self {
        let config = MySqlConfig::new(server.url()).unwrap();
        MySqlStore::migrate(&config).await.unwrap();
        let database = Self { server, config };
        let mut connection = database.connect().await;
        for statement in [
            tables,
            &format!("CREATE USER '{WRITER}'@'127.0.0.1'"),
            &format!("GRANT INSERT ON postrider.events TO '{WRITER}'@'127.0.0.1'"),
            &format!("GRANT SELECT, INSERT, UPDATE ON orders TO '{WRITER}'@'127.0.0.1'"),
        ] {
            connection.query_drop(statement).await.unwrap();
        }
        database
    }

    pub(crate) async fn connect(&self) -> Conn {
        Conn::from_url(self.server.url()).await.unwrap()
    }

    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        Arc::new(MySqlStore::connect(&self.config).await.unwrap())
    }

    pub(crate) fn writer_url(&self) -> String {
        self.server.url_of(WRITER)
    }

    /// The number of committed events.
    pub(crate) async fn events(&self) -> i64 {
        let answer = self.connect().await.query_first("SELECT COUNT(*) FROM postrider.events").await;
        answer.unwrap().unwrap()
    }

    /// Id and version of every order.
    pub(crate) async fn orders(&self) -> Vec<(i64, i64)> {
        self.connect().await.query("SELECT id, version FROM orders ORDER BY id").await.unwrap()
    }
}
