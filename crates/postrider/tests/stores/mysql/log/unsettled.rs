//! A settle that is partly refused.

use std::time::Duration;

use postrider::ledger::{Intervals, ParkedRow, ParkedState};
use postrider::store::{Acquired, LeaseRequest, Loaded, Settlement, Start, Store};
use postrider::{Position, Result};

use super::case::case;

async fn granted(store: &dyn Store) -> Result<Loaded> {
    let lease = LeaseRequest {
        subscription: "mail".to_owned(),
        holder: "test".to_owned(),
        duration: Duration::from_secs(600),
    };
    match store.acquire(lease).await? {
        Acquired::Granted(loaded) => Ok(*loaded),
        other => panic!("{other:?}"),
    }
}

case! {
    /// Otherwise the next transaction on the connection would commit the rest of it, and the event would be done and
    /// not parked.
    async fn a_settle_that_the_server_refuses_in_part_is_rolled_back(case) {
        case.committed("a").await?;
        let store = case.store().await?;
        store.subscribe("mail", Start::Beginning).await?;
        let owner = granted(&store).await?;
        case.run(
            "CREATE TRIGGER {schema}.refuses BEFORE INSERT ON {schema}.parked FOR EACH ROW
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not here'",
        )
        .await?;
        let row = ParkedRow {
            position: Position::new(1),
            key: None,
            destination: None,
            state: ParkedState::Dead,
            attempts: 1,
            next_attempt_at: None,
            last_error: None,
            redelivery: None,
        };
        let settlement = Settlement {
            subscription: "mail".to_owned(),
            epoch: owner.epoch,
            done: Intervals::up_to(Position::new(1)),
            highest: None,
            trial: None,
            park: vec![row],
            unpark: Vec::new(),
        };
        let error = store.settle(settlement).await.unwrap_err();
        assert!(error.report().contains("not here"), "{error}");
        let loaded = granted(&store).await?;
        assert_eq!(loaded.progress.done, Intervals::default());
        assert_eq!(loaded.parked_count, 0);
    }
}
