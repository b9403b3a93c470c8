//! The server faults on MySQL and MariaDB.

mod replica;

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::store::Store;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::{Event, Ident, Outbox, Result};
use postrider_testkit::servers::Controlled;
use postrider_testkit::servers::mysql::{Kind, Options, Server, own};
use postrider_testkit::verify::Sighting;
use tokio::sync::{Mutex, MutexGuard};
use uuid::Uuid;

use super::case::{ServerKind, failed};
use crate::server_faults::{Change, POLL_EVERY, RELAY, Setup, Target, WRITER};

mod mysql {
    use super::MySqlServer;
    use crate::mysql::log::case::MySql;

    crate::server_faults::server_fault_tests!(MySqlServer<MySql>);
}

mod mariadb {
    use super::MySqlServer;
    use crate::mysql::log::case::MariaDb;

    crate::server_faults::server_fault_tests!(MySqlServer<MariaDb>);
}

/// A server with an outbox, and its users.
struct MySqlServer<W> {
    server: Arc<Server>,
    /// A connection of the administrator, which exists even if all others are taken.
    administrator: Mutex<Conn>,
    _which: PhantomData<W>,
}

impl<W: ServerKind> MySqlServer<W> {
    async fn administrator(&self) -> Result<MutexGuard<'_, Conn>> {
        let mut client = self.administrator.lock().await;
        if client.ping().await.is_err() {
            *client = MySqlConfig::new(self.server.url())?.client().await?;
        }
        Ok(client)
    }

    async fn run(&self, sql: &str) -> Result<()> {
        self.administrator().await?.query_drop(sql).await.map_err(failed)
    }

    fn at(&self, to: Target) -> Result<MySqlConfig> {
        let url = self.server.url_of(to.user.unwrap_or(RELAY)).replace("/test", "");
        let url = match to.port {
            Some(port) => url.replace(&format!(":{}", self.server.port()), &format!(":{port}")),
            None => url,
        };
        let mut config = MySqlConfig::new(&url)?;
        if let Some(schema) = to.schema {
            config = config.schema(schema);
        }
        if let Some(limit) = to.answer_within {
            config = config.answer_within(limit);
        }
        Ok(config)
    }

    /// A user with a password and, if given, a role.
    async fn user(&self, name: &str, role: Option<&str>, with: &str) -> Result<()> {
        let mut sql = format!("CREATE USER '{name}'@'127.0.0.1' IDENTIFIED BY 'secret' {with};");
        if let Some(role) = role {
            let keyword = if W::KIND == Kind::MariaDb { "FOR" } else { "TO" };
            sql += &format!(
                "GRANT '{role}' TO '{name}'@'127.0.0.1'; SET DEFAULT ROLE '{role}' {keyword} '{name}'@'127.0.0.1'"
            );
        }
        self.run(&sql).await
    }
}

impl<W: ServerKind> crate::server_faults::TestServer for MySqlServer<W> {
    const NO_CONNECTION: [&'static str; 2] = ["max_user_connections", "Too many connections"];
    const WRONG_PASSWORD: &'static str = "Access denied";

    async fn new(setup: Setup) -> Result<Option<Self>> {
        let options = Options::of(W::KIND);
        let options = match setup {
            // The server always checks passwords; users may have an empty one.
            Setup::Plain | Setup::Passwords => options,
            Setup::FewConnections => options.setting("max_connections=12"),
            Setup::SmallDisk => options.small_disk(),
        };
        let Some(server) = tokio::task::block_in_place(|| own(options)) else { return Ok(None) };
        let config = MySqlConfig::new(server.url())?;
        MySqlStore::migrate(&config).await?;
        let administrator = Mutex::new(config.client().await?);
        let test_server = Self { server: Arc::new(server), administrator, _which: PhantomData };
        test_server.run(&MySqlStore::roles(&Ident::default())?).await?;
        test_server.user("faults_relay", Some("postrider_relay"), "").await?;
        test_server.user("faults_writer", Some("postrider_writer"), "").await?;
        test_server.user("others", None, "").await?;
        Ok(Some(test_server))
    }

    fn process(&self) -> Arc<dyn Controlled> {
        self.server.clone()
    }

    async fn change(&self, change: Change) -> Result<()> {
        let sql = match (change, W::KIND) {
            (Change::ReadOnly, Kind::MySql) => "SET GLOBAL super_read_only = ON",
            (Change::ReadOnly, Kind::MariaDb) => "SET GLOBAL read_only = ON",
            // The first of the two also ends the other.
            (Change::Writable, _) => "SET GLOBAL read_only = OFF",
            (Change::LastEventsGone, _) => {
                "DELETE FROM postrider.events WHERE position > 5; ALTER TABLE postrider.events AUTO_INCREMENT = 6"
            }
            (Change::CounterReset, _) => {
                "TRUNCATE TABLE postrider.events; ALTER TABLE postrider.events AUTO_INCREMENT = 6"
            }
            (Change::OneConnection, _) => {
                return self.user("single", Some("postrider_relay"), "WITH MAX_USER_CONNECTIONS 1").await;
            }
            // The server keeps the old limit until it is reloaded.
            (Change::MoreConnections, _) => {
                "ALTER USER 'single'@'127.0.0.1' WITH MAX_USER_CONNECTIONS 10; FLUSH PRIVILEGES"
            }
            (Change::SettlingDenied, _) => "REVOKE UPDATE ON postrider.subscriptions FROM 'postrider_relay'",
            (Change::SettlingAllowed, _) => "GRANT UPDATE ON postrider.subscriptions TO 'postrider_relay'",
            (Change::PasswordChanged, _) => "ALTER USER 'faults_relay'@'127.0.0.1' IDENTIFIED BY 'another'",
            (Change::PasswordAsBefore, _) => "ALTER USER 'faults_relay'@'127.0.0.1' IDENTIFIED BY 'secret'",
            (Change::RelayCut, _) => {
                let mut client = self.administrator().await?;
                let sql = "SELECT id FROM information_schema.processlist WHERE user = 'faults_relay'";
                let connections: Vec<u64> = client.query(sql).await.map_err(failed)?;
                for id in connections {
                    // It may have ended by now.
                    _ = client.query_drop(format!("KILL {id}")).await;
                }
                return Ok(());
            }
        };
        self.run(sql).await
    }

    fn store(&self, to: Target) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(MySqlStore::unconnected(&self.at(to)?)))
    }

    async fn connect(&self, to: Target) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(MySqlStore::connect(&self.at(to)?).await?))
    }

    async fn commit(&self, events: Vec<Event>) -> Result<()> {
        let mut client = MySqlConfig::new(&self.server.url_of(WRITER).replace("/test", ""))?.client().await?;
        commit(&mut client, events).await
    }

    async fn commit_as_administrator(&self, events: Vec<Event>) -> Result<()> {
        commit(&mut *self.administrator().await?, events).await
    }

    fn write_on(&self, stop: Arc<AtomicBool>) -> impl Future<Output = ()> + Send + 'static {
        let url = self.server.url_of(WRITER).replace("/test", "");
        async move {
            while !stop.load(Ordering::Relaxed) {
                if let Ok(mut client) = MySqlConfig::new(&url).unwrap().client().await {
                    while !stop.load(Ordering::Relaxed)
                        && commit(&mut client, crate::server_faults::some(1)).await.is_ok()
                    {
                    }
                }
                tokio::time::sleep(POLL_EVERY).await;
            }
        }
    }

    async fn committed(&self) -> Result<Vec<Sighting>> {
        let sql = "SELECT id, `key`, ROW_NUMBER() OVER (PARTITION BY `key` ORDER BY position)
                   FROM postrider.events ORDER BY position";
        let rows: Vec<(Vec<u8>, String, u64)> =
            self.administrator().await?.query(sql).await.map_err(failed)?;
        let sighting = |(id, key, version): (Vec<u8>, String, u64)| {
            Ok(Sighting { id: Uuid::from_slice(&id).map_err(failed)?, key, version })
        };
        rows.into_iter().map(sighting).collect()
    }

    async fn take_all_connections(&self) -> Vec<Box<dyn Any>> {
        let mut taken: Vec<Box<dyn Any>> = Vec::new();
        let config = MySqlConfig::new(&self.server.url_of("others:secret").replace("/test", "")).unwrap();
        while let Ok(client) = config.client().await {
            taken.push(Box::new(client));
        }
        taken
    }
}

async fn commit(client: &mut Conn, events: Vec<Event>) -> Result<()> {
    for event in events {
        Outbox::anonymous().write(&mut *client, event).await?;
    }
    Ok(())
}
