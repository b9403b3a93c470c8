//! The inbox on MySQL and MariaDB, with mysql_async.

use std::sync::Arc;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::Result;
use postrider::inbox::{Inbox, Once, Received};
use postrider::store::Store;
use postrider::store::mysql::MySqlConfig;
use postrider_testkit::servers::mysql::Kind;
use uuid::Uuid;

use super::case::{Consumer, Delivery, End, InboxCase, in_schema};
use crate::failed;
use crate::mysql::log::case::{Case, MariaDb, MySql, ServerKind};

mod on_mysql {
    use super::*;
    crate::inbox::cases::inbox_tests!(MySqlInbox<MySql>);
}

mod on_mariadb {
    use super::*;
    crate::inbox::cases::inbox_tests!(MySqlInbox<MariaDb>);
}

pub(crate) struct MySqlInbox<W>(Case<W>);

pub(crate) struct MySqlConsumer {
    config: MySqlConfig,
    schema: String,
    conn: Conn,
}

impl<W: ServerKind> InboxCase for MySqlInbox<W> {
    type Consumer = MySqlConsumer;

    const NAME: &'static str = W::NAME;
    /// Counts the statements of all tests on the server: the text of a statement with a binary id cannot be compared.
    // `innodb_trx` is a buffer that the server does not refresh while it is read more often than every 0.1 s, which
    // tests on the same server do.
    const WAITING: Option<&'static str> = Some(match W::KIND {
        Kind::MySql => {
            "SELECT COUNT(*) FROM performance_schema.data_lock_waits AS w
             JOIN performance_schema.data_locks AS l ON l.engine_lock_id = w.requesting_engine_lock_id
             WHERE l.object_schema = REPLACE('{schema}', '`', '')"
        }
        Kind::MariaDb => {
            "SELECT COUNT(*) FROM information_schema.processlist
             WHERE command IN ('Query', 'Execute') AND info LIKE 'INSERT INTO%{schema}%inbox%'"
        }
    });

    async fn new() -> Option<Self> {
        if !Case::<W>::is_available() {
            return None;
        }
        let case = Case::new().await.unwrap();
        let effects = "CREATE TABLE {schema}.effects (number BIGINT AUTO_INCREMENT PRIMARY KEY,
                           consumer_group VARCHAR(255) NOT NULL, event_id VARCHAR(36) NOT NULL)
                       CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
        case.run(effects).await.unwrap();
        Some(Self(case))
    }

    fn inbox(&self) -> Inbox {
        Inbox::new().schema(self.0.schema.clone())
    }

    async fn consumer(&self) -> MySqlConsumer {
        let (config, schema) = (self.0.config.clone(), self.0.schema.as_str().to_owned());
        let mut conn = config.client().await.unwrap();
        conn.query_drop("SET time_zone = '+05:30'").await.unwrap();
        MySqlConsumer { config, schema, conn }
    }

    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.store().await.unwrap())
    }

    async fn run(&self, sql: &str) {
        self.0.run(&in_schema(sql)).await.unwrap();
    }

    async fn number(&self, sql: &str) -> i64 {
        self.0.one(&in_schema(sql)).await.unwrap()
    }

    fn days_from_now(days: i32) -> String {
        format!("TIMESTAMPADD(DAY, {days}, UTC_TIMESTAMP(6))")
    }

    fn id(id: Uuid) -> String {
        format!("UNHEX('{}')", id.simple())
    }
}

impl Consumer for MySqlConsumer {
    async fn begin(&mut self) -> Result<()> {
        self.conn.query_drop("START TRANSACTION").await.map_err(failed)
    }

    async fn end(&mut self, is_committed: bool) -> Result<()> {
        let end = if is_committed { "COMMIT" } else { "ROLLBACK" };
        self.conn.query_drop(end).await.map_err(failed)
    }

    async fn reconnect(&mut self) -> Result<()> {
        let conn = std::mem::replace(&mut self.conn, self.config.client().await?);
        conn.disconnect().await.map_err(failed)
    }

    async fn receive(&mut self, inbox: &Inbox, Delivery { group, id, .. }: Delivery) -> Result<Received> {
        inbox.receive(&mut self.conn, group, id).await
    }

    async fn once(&mut self, inbox: &Inbox, delivery: Delivery, end: End) -> Result<Once<()>> {
        let (schema, Delivery { group, id, .. }) = (self.schema.as_str(), delivery);
        let effect = async |conn: &mut Conn| effect(conn, schema, delivery, end).await;
        inbox.once(&mut self.conn, group, id, effect).await
    }

    async fn effect(&mut self, delivery: Delivery, end: End) -> Result<()> {
        effect(&mut self.conn, &self.schema, delivery, end).await
    }

    async fn has_row(&mut self, Delivery { group, id, .. }: Delivery) -> Result<bool> {
        let sql = format!("SELECT 1 FROM {}.inbox WHERE consumer_group = ? AND event_id = ?", self.schema);
        let found: Option<i64> = self.conn.exec_first(&sql, (group, id.as_bytes())).await.map_err(failed)?;
        Ok(found.is_some())
    }

    async fn delete_expired(&mut self, inbox: &Inbox, rows_max: usize) -> Result<u64> {
        let mut tx = self.conn.start_transaction(mysql_async::TxOpts::default()).await.map_err(failed)?;
        let deleted = inbox.delete_expired(&mut tx, rows_max).await?;
        tx.commit().await.map_err(failed).map(|()| deleted)
    }
}

async fn effect(conn: &mut Conn, schema: &str, Delivery { group, id, .. }: Delivery, end: End) -> Result<()> {
    let insert = format!("INSERT INTO {schema}.effects (consumer_group, event_id) VALUES (?, ?)");
    conn.exec_drop(&insert, (group, id.to_string())).await.map_err(failed)?;
    end.of_effect()
}
