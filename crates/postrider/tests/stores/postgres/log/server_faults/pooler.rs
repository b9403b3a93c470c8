//! A pooler whose server is stopped.

use postrider::store::{Acquired, LeaseRequest};
use postrider::{Code, Recovery};
use postrider_testkit::servers::pgbouncer::PgBouncer;
use postrider_testkit::servers::skipped;

use super::*;
use crate::server_faults::{Action, TestServer as _};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_behind_a_pooler_is_not_mistaken_for_another_one() -> Result<()> {
    let Some(test_server) = PostgresServer::new(Setup::Plain).await? else { return Ok(()) };
    let started = PgBouncer::start_with(test_server.server.url(), 4, "query_wait_timeout = 2");
    let Ok(pooler) = started.inspect_err(|reason| skipped("pgbouncer", reason)) else { return Ok(()) };
    let config = PostgresConfig::new(&pooler.url().replace("postgres@", "faults_relay@"))?;
    let store = PostgresStore::connect(&config).await?;
    assert!(store.is_pooled().await?);
    store.subscribe("mail", Start::Beginning).await?;
    let (subscription, holder) = ("mail".to_owned(), "a".to_owned());
    let lease = LeaseRequest { subscription, holder, duration: LONG };
    let Acquired::Granted(loaded) = store.acquire(lease.clone()).await? else { panic!("it is free") };
    test_server.act(Action::Stop).await;
    let error = store.renew(lease, loaded.epoch).await.unwrap_err();
    assert_eq!(error.code().recovery(), Recovery::Reload, "{error}");
    assert!(!error.report().contains("replaced"), "{error}");
    // Whether it was extended is unknown.
    assert_eq!(error.code(), Code::OutcomeUnknown, "{error}");
    Ok(())
}
