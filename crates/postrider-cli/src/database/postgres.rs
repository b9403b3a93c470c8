//! A PostgreSQL database.

use std::time::Duration;

use postrider::store::admin::{Admin, PostgresAdmin};
use postrider::store::postgres::{Pooler, PostgresConfig};
use postrider::{BoxFuture, Ident};

use super::server::with_credentials;
use super::{Address, Backend, Database, PoolerChoice, Refused};
use crate::config::url;
use crate::doctor::{self, InboxHealth, Subject};

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
    Ok(Database { backend: Box::new(Postgres { admin, config, schema }), shown })
}

#[derive(Debug)]
struct Postgres {
    admin: PostgresAdmin,
    config: PostgresConfig,
    schema: Ident,
}

impl Backend for Postgres {
    fn admin(&self) -> &dyn Admin {
        &self.admin
    }

    fn is_server(&self) -> bool {
        true
    }

    fn exposed_by(&self) -> Option<&'static str> {
        self.config.is_exposed().then_some("sslmode=disable")
    }

    fn location(&self, shown: &str) -> String {
        url::without_scheme_and_user(shown).to_owned()
    }

    fn inbox_health(&self, kept: Duration) -> BoxFuture<'_, Result<InboxHealth, String>> {
        Box::pin(doctor::postgres::inbox_health(&self.config, &self.schema, kept))
    }

    fn check<'a>(
        &'a self,
        shown: &'a str,
        options: &'a doctor::Options,
        subject: &'a mut Subject<'_>,
    ) -> BoxFuture<'a, bool> {
        let Self { admin, config, schema } = self;
        Box::pin(doctor::postgres::check(doctor::Server { config, schema, admin, shown }, options, subject))
    }
}
