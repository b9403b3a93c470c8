//! A PostgreSQL database.

use postrider::store::admin::PostgresAdmin;
use postrider::store::postgres::{Pooler, PostgresConfig};

use super::server::with_credentials;
use super::{Address, Connection, Database, PoolerChoice, Refused};
use crate::config::url;

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
    Ok(Database { admin: Box::new(admin), connection: Connection::Postgres(Box::new(config), schema), shown })
}
