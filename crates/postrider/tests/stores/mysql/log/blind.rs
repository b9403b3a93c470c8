//! A server that cannot list every writer: then no writer is considered finished.

use mysql_async::prelude::Queryable;
use postrider::Result;
use postrider::ledger::Progress;
use postrider::store::mysql::MySqlStore;
use postrider::store::{Budget, Claimed, Start, Store};
use postrider_testkit::servers::mysql::{Kind, Options, own};

use super::case::{Case, MySql, failed};

const PLENTY: Budget = Budget::new(1_000, 1 << 26);

/// The number of polls after which a rule that relies on the server's list would be wrong.
const POLLS: usize = 10;

/// A slow writer, on a server with so little memory for its lists; `counter` is the status variable that counts what
/// did not fit.
async fn waits_for_an_unlisted_writer(setting: &str, counter: &str) -> Result<()> {
    for kind in Kind::ALL {
        let Some(server) = own(Options::of(kind).setting(setting)) else { continue };
        let case = Case::<MySql>::at(server.url()).await?;
        MySqlStore::migrate(&case.config).await?;
        let store = case.store().await?;
        store.subscribe("s", Start::Beginning).await?;
        let mut late = case.writing("late").await?;
        case.committed("early").await?;
        let mut claimer = store.claimer(&Progress::default());
        let (mut seen, mut empty) = (Vec::new(), Vec::new());
        for look in 0..=POLLS {
            if look == POLLS {
                late.query_drop("COMMIT").await.map_err(failed)?;
            }
            let Claimed::Page(page) = claimer.claim(PLENTY).await? else { panic!("a page") };
            seen.extend(page.events.iter().map(|event| event.event.event_type.clone()));
            empty.extend(page.empty_positions);
        }
        assert_eq!((seen, empty), (vec!["early".to_owned(), "late".to_owned()], Vec::new()), "{kind:?}");
        let lost: Option<(String, u64)> =
            late.query_first(format!("SHOW GLOBAL STATUS LIKE '{counter}'")).await.map_err(failed)?;
        assert!(lost.is_some_and(|(_, lost)| lost > 0), "{kind:?} had room enough, so nothing was shown");
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_cannot_list_all_threads_declares_no_position_empty() -> Result<()> {
    waits_for_an_unlisted_writer(
        "performance_schema_max_thread_instances=5",
        "performance_schema_thread_instances_lost",
    )
    .await
}

#[tokio::test]
async fn a_server_that_cannot_list_all_locks_declares_no_position_empty() -> Result<()> {
    waits_for_an_unlisted_writer(
        "performance_schema_max_metadata_locks=1",
        "performance_schema_metadata_lock_lost",
    )
    .await
}
