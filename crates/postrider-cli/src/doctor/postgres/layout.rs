//! A table with a state per row.

use postrider::layout::RowTable;
use postrider::store::Store;
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};

use super::Patient;
use crate::doctor::layout::Findings;

/// Looks at the table and says whether it can be worked on.
pub(super) async fn examine(config: &PostgresConfig, rows: &RowTable, patient: &mut Patient<'_>) -> bool {
    let opened = match PostgresRowStore::connect(config, rows).await {
        Ok(store) => {
            store.close().await;
            Ok(())
        }
        Err(error) => Err(error),
    };
    let found = Findings {
        differences: PostgresRowStore::differences(config, rows).await,
        strangers: PostgresRowStore::foreign_claims(config, rows).await,
        opened,
    };
    found.tell(rows, patient)
}
