//! A PostgreSQL database.

use postrider::store::admin::PostgresAdmin;
use postrider::store::postgres::{Pooler, PostgresConfig};

use super::{Address, Connection, Database, PoolerChoice, Refused};
use crate::config::url;

/// `postgres://user@host:5432/database`, with libpq's parameters as far as the driver knows them.
pub(super) fn read(address: &Address) -> Result<Database, Refused> {
    let url = address.url.expose_secret();
    let schema = address.schema()?;
    let config = PostgresConfig::new(url).map_err(|error| Refused::url(error.message()))?;
    let mut config =
        config.schema(schema.clone()).after_failover(address.after_failover).listen(address.listen).pooler(
            match address.pooler {
                PoolerChoice::Detect => Pooler::Detect,
                PoolerChoice::Transaction => Pooler::Transaction,
                PoolerChoice::None => Pooler::None,
            },
        );
    if let Some(password) = &address.password {
        config = config.password(password.expose_secret());
    }
    if let Some(file) = &address.tls_root_cert {
        config = config.tls_root(file);
    }
    if let Some((certificate, key)) = address.tls_client()? {
        config = config.tls_client(certificate, key);
    }
    let shown = url::masked(url);
    let admin = PostgresAdmin::new(config.clone(), address.rows.clone(), &shown);
    Ok(Database { admin: Box::new(admin), connection: Connection::Postgres(Box::new(config), schema), shown })
}
