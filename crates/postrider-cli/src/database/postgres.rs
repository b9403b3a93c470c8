//! A PostgreSQL database.

use std::time::Duration;

use postrider::Ident;
use postrider::store::admin::PostgresAdmin;
use postrider::store::postgres::{Pooler, PostgresConfig};

use super::server::{ServerBackend, ServerConfig, with_credentials};
use super::{Address, Database, PoolerChoice, Refused};
use crate::config::url;
use crate::doctor::{self, InboxHealth, Server, Subject};

/// `postgres://user@host:5432/database`, with libpq's parameters as far as the driver knows them.
pub(super) fn read(address: &Address) -> Result<Database, Refused> {
    let url = address.url.expose_secret();
    let schema = address.schema()?;
    let config = PostgresConfig::new(url).map_err(|error| Refused::url(error.message()))?;
    let config =
        config.schema(schema.clone()).after_failover(address.after_failover).listen(address.listen).pooler(
            match address.pooler {
                PoolerChoice::Detect => Pooler::Detect,
                PoolerChoice::Transaction => Pooler::Transaction,
                PoolerChoice::None => Pooler::None,
            },
        );
    let config = with_credentials!(config, address);
    let shown = url::masked(url);
    let admin = PostgresAdmin::new(config.clone(), address.rows.clone(), &shown);
    Ok(Database { backend: Box::new(ServerBackend { admin, config, schema }), shown })
}

impl ServerConfig for PostgresConfig {
    const UNENCRYPTED: &'static str = "sslmode=disable";

    fn is_unencrypted(&self) -> bool {
        self.is_exposed()
    }

    fn location(shown: &str) -> &str {
        url::without_scheme_and_user(shown)
    }

    async fn inbox_health(&self, schema: &Ident, kept: Duration) -> Result<InboxHealth, String> {
        doctor::postgres::inbox_health(self, schema, kept).await
    }

    async fn check(server: Server<'_, Self>, options: &doctor::Options, subject: &mut Subject<'_>) -> bool {
        doctor::postgres::check(server, options, subject).await
    }
}
