//! A database full of events, for all contenders.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, TxOpts};
use postrider::Ident;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::write::Outbox;

use crate::Error;
use crate::workload::Workload;

/// Events per transaction while filling.
const FILL_BATCH: u64 = 5_000;

/// A new database, dropped by [`Fixture::close`].
pub(crate) struct Fixture {
    url: String,
    pub(crate) schema: Ident,
}

impl Fixture {
    /// Creates a database with this name and writes events with the library.
    pub(crate) async fn fill(url: &str, name: &str, workload: &Workload) -> Result<Self, Error> {
        let fixture = Self { url: url.to_owned(), schema: Ident::new(&format!("postrider_bench_{name}"))? };
        let mut connection = fixture.connect().await?;
        connection.query_drop(fixture.sql("DROP DATABASE IF EXISTS {schema}")).await?;
        MySqlStore::migrate(&fixture.config()?).await?;
        let outbox = Outbox::new().schema(fixture.schema.clone());
        let mut next = 0;
        while next < workload.events {
            let until = (next + FILL_BATCH).min(workload.events);
            let mut tx = connection.start_transaction(TxOpts::default()).await?;
            outbox.write_all(&mut tx, (next..until).map(|number| workload.event(number))).await?;
            tx.commit().await?;
            next = until;
        }
        connection.query_drop(fixture.sql("ANALYZE TABLE {schema}.events")).await?;
        connection.disconnect().await?;
        Ok(fixture)
    }

    /// A statement with the name of the database inserted.
    pub(crate) fn sql(&self, statement: &str) -> String {
        statement.replace("{schema}", self.schema.as_str())
    }

    fn config(&self) -> Result<MySqlConfig, Error> {
        Ok(MySqlConfig::new(&self.url)?.schema(self.schema.clone()))
    }

    pub(crate) async fn store(&self) -> Result<Arc<MySqlStore>, Error> {
        Ok(Arc::new(MySqlStore::connect(&self.config()?).await?))
    }

    /// Another connection, over TCP like the relay's. By default the driver would use a socket file, which is faster.
    pub(crate) async fn connect(&self) -> Result<Conn, Error> {
        let opts = OptsBuilder::from_opts(Opts::from_url(&self.url)?).prefer_socket(false);
        Ok(Conn::new(opts).await?)
    }

    pub(crate) async fn close(self) -> Result<(), Error> {
        let mut connection = self.connect().await?;
        connection.query_drop(self.sql("DROP DATABASE {schema}")).await?;
        Ok(connection.disconnect().await?)
    }
}
