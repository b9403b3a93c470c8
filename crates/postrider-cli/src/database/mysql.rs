//! A MySQL or MariaDB database.

use std::time::Duration;

use postrider::store::admin::{Admin, MySqlAdmin};
use postrider::store::mysql::MySqlConfig;
use postrider::{BoxFuture, Ident};

use super::server::with_credentials;
use super::{Address, Backend, Database, PoolerChoice, Refused};
use crate::config::url;
use crate::doctor::{self, InboxHealth, Subject};

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
    Ok(Database { backend: Box::new(MySql { admin, config, schema }), shown })
}

#[derive(Debug)]
struct MySql {
    admin: MySqlAdmin,
    config: MySqlConfig,
    schema: Ident,
}

impl Backend for MySql {
    fn admin(&self) -> &dyn Admin {
        &self.admin
    }

    fn is_server(&self) -> bool {
        true
    }

    fn exposed_by(&self) -> Option<&'static str> {
        self.config.is_exposed().then_some("ssl-mode=disabled")
    }

    fn location(&self, shown: &str) -> String {
        url::server(shown).to_owned()
    }

    fn inbox_health(&self, kept: Duration) -> BoxFuture<'_, Result<InboxHealth, String>> {
        Box::pin(doctor::mysql::inbox_health(&self.config, &self.schema, kept))
    }

    fn check<'a>(
        &'a self,
        shown: &'a str,
        options: &'a doctor::Options,
        subject: &'a mut Subject<'_>,
    ) -> BoxFuture<'a, bool> {
        let Self { admin, config, schema } = self;
        Box::pin(doctor::mysql::check(doctor::Server { config, schema, admin, shown }, options, subject))
    }
}
