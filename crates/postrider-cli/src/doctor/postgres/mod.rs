//! What is particular about a PostgreSQL database.

use postrider::Ident;
use postrider::store::postgres::{PostgresConfig, PostgresStore};

use super::{Check, Patient};

/// Looks at the server and says whether its tables can be read.
pub(crate) async fn examine(
    config: &PostgresConfig,
    _schema: &Ident,
    shown: &str,
    _deep: bool,
    patient: &mut Patient<'_>,
) -> bool {
    match PostgresStore::connect(config).await {
        Ok(_) => patient.ok(Check::Readable, format!("{shown} can be read")),
        Err(error) => {
            patient.fail(Check::Readable, error.sentence());
            return false;
        }
    }
    true
}
