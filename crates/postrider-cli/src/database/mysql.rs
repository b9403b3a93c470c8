//! A MySQL or MariaDB database.

use postrider::store::admin::MySqlAdmin;
use postrider::store::mysql::MySqlConfig;

use super::server::with_credentials;
use super::{Address, Connection, Database, PoolerChoice, Refused};
use crate::config::url;

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
    Ok(Database { admin: Box::new(admin), connection: Connection::MySql(Box::new(config), schema), shown })
}
