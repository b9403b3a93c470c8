//! A MySQL or MariaDB database.

use std::time::Duration;

use postrider::Ident;
use postrider::store::admin::MySqlAdmin;
use postrider::store::mysql::MySqlConfig;

use super::server::{ServerBackend, ServerConfig, with_credentials};
use super::{Address, Database, PoolerChoice, Refused};
use crate::config::url;
use crate::doctor::{self, InboxHealth, Server, Subject};

/// `mysql://user@host:3306/database` or `mariadb://`, with the driver's parameters and MySQL's own for TLS.
pub(super) fn read(address: &Address) -> Result<Database, Refused> {
    let url = address.url.expose_secret();
    let config = MySqlConfig::new(url).map_err(|error| Refused::url(error.message()))?;
    let schema = address.schema()?;
    let config = config.schema(schema.clone()).after_failover(address.after_failover);
    if address.listen {
        return Err(Refused::new("listen", "this database has no notifications for new events"));
    }
    if address.pooler == PoolerChoice::Transaction {
        let why = "a pooler in transaction mode is not supported for this database";
        return Err(Refused::new("pooler", why));
    }
    let config = with_credentials!(config, address);
    let shown = url::masked(url);
    let admin = MySqlAdmin::new(config.clone(), address.rows.clone(), &shown);
    let admin = admin.map_err(|error| Refused::table(&error))?;
    Ok(Database { backend: Box::new(ServerBackend { admin, config, schema }), shown })
}

impl ServerConfig for MySqlConfig {
    const UNENCRYPTED: &'static str = "ssl-mode=disabled";

    fn is_unencrypted(&self) -> bool {
        self.is_exposed()
    }

    fn location(shown: &str) -> &str {
        url::server(shown)
    }

    async fn inbox_health(&self, schema: &Ident, kept: Duration) -> Result<InboxHealth, String> {
        doctor::mysql::inbox_health(self, schema, kept).await
    }

    async fn check(server: Server<'_, Self>, options: &doctor::Options, subject: &mut Subject<'_>) -> bool {
        doctor::mysql::check(server, options, subject).await
    }
}
