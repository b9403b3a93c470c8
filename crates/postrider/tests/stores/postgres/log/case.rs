//! A new schema for every case, on one server per test process.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(crate) use crate::failed;
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::{Code, Error, Event, Ident, Outbox, Result};
use postrider_testkit::servers::postgres;
use tokio_postgres::types::FromSqlOwned;
use tokio_postgres::{Client, NoTls};

/// The login of relays, with the role that the library's script creates for relays, and the role that a comment of the
/// script recommends.
pub(crate) const RELAY: &str = "case_relay";

/// The login of writers.
const WRITER: &str = "case_writer";

pub(crate) struct Case {
    /// The configuration of a relay.
    pub(crate) config: PostgresConfig,
    /// The configuration of the owner of the tables.
    pub(crate) owner: PostgresConfig,
    pub(crate) schema: Ident,
    /// A connection of the superuser, for operations that no application has.
    pub(crate) client: Client,
    /// A connection of the application.
    pub(crate) writer: Client,
}

impl Case {
    pub(crate) fn is_available() -> bool {
        postgres::url().is_some()
    }

    /// An empty outbox. Cases run in parallel on one server, and an open transaction of one case delays the horizon
    /// proof of all others; therefore the writers are listed immediately.
    pub(crate) async fn new() -> Result<Self> {
        let case = Self::without_tables().await?;
        PostgresStore::migrate(&case.owner).await?;
        case.make_roles().await?;
        Ok(case)
    }

    pub(crate) async fn without_tables() -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = Ident::new(&format!("case_{}_{number}", std::process::id()))?;
        let client = connect(url()?).await?;
        for (login, and) in [(RELAY, "IN ROLE pg_read_all_stats"), (WRITER, "")] {
            // Other tests may do the same at this moment.
            let sql = format!(
                "DO $$ BEGIN CREATE ROLE {login} LOGIN {and};
                       EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
            );
            client.batch_execute(&sql).await.map_err(failed)?;
        }
        let (config, owner) = (at(&url_of(RELAY)?, &schema)?, at(url()?, &schema)?);
        let case = Self { config, owner, schema, client, writer: connect(&url_of(WRITER)?).await? };
        case.run("DROP SCHEMA IF EXISTS {schema} CASCADE").await?;
        Ok(case)
    }

    /// The roles of the library's script, for [`RELAY`] and [`WRITER`].
    pub(crate) async fn make_roles(&self) -> Result<()> {
        self.run(&PostgresStore::roles(&self.schema)?).await?;
        self.run(&format!("GRANT {{schema}}_relay TO {RELAY}; GRANT {{schema}}_writer TO {WRITER}")).await
    }

    /// The same outbox at another address of the server.
    pub(crate) fn config_at(&self, url: &str) -> Result<PostgresConfig> {
        at(url, &self.schema)
    }

    /// The same outbox for another user.
    pub(crate) fn config_as(&self, user: &str) -> Result<PostgresConfig> {
        at(&url_of(user)?, &self.schema)
    }

    pub(crate) async fn store(&self) -> Result<PostgresStore> {
        PostgresStore::connect(&self.config).await
    }

    /// Another connection of the application, with a transaction in which an event was written.
    pub(crate) async fn writing(&self, event: &str) -> Result<Client> {
        let client = self.another_writer().await?;
        client.batch_execute("BEGIN").await.map_err(failed)?;
        self.outbox().write(&client, Event::new(event, "")).await?;
        Ok(client)
    }

    /// Writes an event and commits it.
    pub(crate) async fn committed(&self, event: &str) -> Result<i64> {
        Ok(self.outbox().write(&self.writer, Event::new(event, "")).await?.position.get())
    }

    /// Ends every connection of the store, as a failing network or server would.
    pub(crate) async fn cut(&self) -> Result<()> {
        let sql = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
                   WHERE application_name = '{schema}'";
        self.one::<i64>(sql).await.map(|_| ())
    }

    /// Another connection of the superuser.
    pub(crate) async fn another(&self) -> Result<Client> {
        connect(url()?).await
    }

    /// Another connection of the application.
    pub(crate) async fn another_writer(&self) -> Result<Client> {
        connect(&url_of(WRITER)?).await
    }

    pub(crate) fn outbox(&self) -> Outbox {
        Outbox::anonymous().schema(self.schema.clone())
    }

    /// Inserts the name of the schema.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("{schema}", self.schema.as_str())
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<()> {
        self.client.batch_execute(&self.sql(sql)).await.map_err(failed)
    }

    pub(crate) async fn one<T: FromSqlOwned>(&self, sql: &str) -> Result<T> {
        let row = self.client.query_one(&self.sql(sql), &[]).await.map_err(failed)?;
        row.try_get(0).map_err(failed)
    }
}

fn url() -> Result<&'static str> {
    postgres::url().ok_or_else(|| Error::new(Code::StoreFailed, "there is no server for the test"))
}

/// Connections to the store are named after the schema.
fn at(url: &str, schema: &Ident) -> Result<PostgresConfig> {
    let url = format!("{url}?application_name={}", schema.as_str());
    Ok(PostgresConfig::new(&url)?.schema(schema.clone()).check_rollbacks_after(Duration::ZERO))
}

/// The URL of the server for a user.
pub(crate) fn url_of(user: &str) -> Result<String> {
    Ok(url()?.replace("postgres@", &format!("{user}@")))
}

pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    tokio::spawn(connection);
    Ok(client)
}

/// A test that needs the server. Without it, the test passes.
macro_rules! case {
    ($(#[$note:meta])* async fn $name:ident($case:pat) $body:block) => {
        $(#[$note])*
        #[tokio::test]
        async fn $name() -> postrider::Result<()> {
            if !crate::postgres::log::case::Case::is_available() {
                return Ok(());
            }
            let $case = crate::postgres::log::case::Case::new().await?;
            $body
            Ok(())
        }
    };
}
pub(crate) use case;
