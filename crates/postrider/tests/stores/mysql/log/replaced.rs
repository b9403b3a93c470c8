//! Another server, or the same server after a restart, instead of the known one.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use postrider::ledger::{Intervals, LastSeen, Progress};
use postrider::store::mysql::MySqlStore;
use postrider::store::{
    Acquired, AfterFailover, Budget, Claimed, LeaseRequest, Loaded, Settled, Settlement, Start, Store,
};
use postrider::{Code, Position, Result};
use postrider_testkit::servers::Controlled as _;
use postrider_testkit::servers::mysql::{Kind, Options, Server, own};

use super::case::{Case, MySql, done, failed};

const PLENTY: Budget = Budget::new(1_000, 1 << 26);

fn lease() -> LeaseRequest {
    LeaseRequest {
        subscription: "s".to_owned(),
        holder: "relay".to_owned(),
        duration: Duration::from_secs(30),
    }
}

async fn granted(store: &MySqlStore) -> Result<Loaded> {
    match store.acquire(lease()).await? {
        Acquired::Granted(loaded) => Ok(*loaded),
        other => panic!("{other:?}"),
    }
}

fn settlement(loaded: &Loaded, progress: Progress) -> Settlement {
    Settlement {
        subscription: "s".to_owned(),
        epoch: loaded.epoch,
        done: progress.done,
        highest: progress.highest,
        trial: None,
        park: Vec::new(),
        unpark: Vec::new(),
    }
}

/// An outbox with three events, which are all read and settled.
async fn settled(server: &Server) -> Result<(Case<MySql>, MySqlStore, Loaded)> {
    let case = Case::<MySql>::at(server.url()).await?;
    MySqlStore::migrate(&case.config).await?;
    let store = case.store().await?;
    store.subscribe("s", Start::Beginning).await?;
    for _ in 0..3 {
        case.committed("event").await?;
    }
    let loaded = granted(&store).await?;
    let Claimed::Page(page) = store.claimer(&loaded.progress).claim(PLENTY).await? else { panic!("no page") };
    let last = page.events.last().unwrap();
    let highest = Some(LastSeen { position: last.position, id: last.event.id });
    let progress = Progress { done: Intervals::up_to(last.position), highest, trial: None };
    assert_eq!(store.settle(settlement(&loaded, progress)).await?, Settled::Done);
    Ok((case, store, loaded))
}

#[tokio::test]
async fn after_a_restart_old_leases_and_claimers_are_refused_and_new_ones_work() -> Result<()> {
    for kind in Kind::ALL {
        let Some(server) = own(Options::of(kind)) else { continue };
        let (case, store, loaded) = settled(&server).await?;
        let mut claimer = store.claimer(&loaded.progress);
        claimer.claim(PLENTY).await?;
        done(server.kill())?;
        done(server.start())?;
        assert!(claimer.claim(PLENTY).await.is_err());
        assert!(claimer.claim(PLENTY).await.is_err(), "what it knows may belong to another history");
        let old = settlement(&loaded, Progress::default());
        // The first call may still use the old connection; nothing is recorded.
        for _ in 0..2 {
            let refused = store.settle(old.clone()).await.unwrap_err();
            assert!(matches!(refused.code(), Code::StoreFailed | Code::OutcomeUnknown), "{refused}");
        }
        let mut client = case.another().await?;
        case.insert(&mut client, &[postrider::Event::new("after", "")]).await?;
        let loaded = granted(&store).await?;
        assert_eq!(loaded.progress.done.floor(), Position::new(3));
        let Claimed::Page(page) = store.claimer(&loaded.progress).claim(PLENTY).await? else { panic!() };
        assert_eq!(page.events.len(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_subscription_halts_at_another_server_unless_checking_is_configured() -> Result<()> {
    for kind in Kind::ALL {
        let Some(server) = own(Options::of(kind).setting("server_id=1")) else { continue };
        let (case, store, _) = settled(&server).await?;
        store.close().await;
        // As after the promotion of a replica: the same data, another server.
        match kind {
            Kind::MySql => {
                done(server.stop())?;
                std::fs::remove_file(server.data().join("auto.cnf")).map_err(failed)?;
                done(server.start())?;
            }
            Kind::MariaDb => {
                let mut client = case.another().await?;
                client.query_drop("SET GLOBAL server_id = 2").await.map_err(failed)?;
            }
        }
        let check = case.config.clone().after_failover(AfterFailover::Check);
        let (halts, checks) = (case.store().await?, MySqlStore::connect(&check).await?);
        assert!(matches!(checks.acquire(lease()).await?, Acquired::Granted(_)));
        let mut client = case.another().await?;
        case.on(&mut client, "UPDATE {schema}.subscriptions SET history = 'elsewhere'").await?;
        assert!(matches!(halts.acquire(lease()).await?, Acquired::Halted(_)));
        // If the last event seen has changed, `check` does not continue either.
        case.on(&mut client, "UPDATE {schema}.subscriptions SET halted = NULL").await?;
        case.on(&mut client, "UPDATE {schema}.events SET id = UNHEX(REPEAT('00', 16)) WHERE position = 3")
            .await?;
        assert!(matches!(checks.acquire(lease()).await?, Acquired::Halted(_)));
    }
    Ok(())
}

#[tokio::test]
async fn an_older_copy_of_the_database_is_detected_by_a_relay_that_knew_the_newer_one() -> Result<()> {
    for kind in Kind::ALL {
        let Some(server) = own(Options::of(kind)) else { continue };
        let case = Case::<MySql>::at(server.url()).await?;
        MySqlStore::migrate(&case.config).await?;
        case.store().await?.subscribe("s", Start::Beginning).await?;
        let copy = done(server.back_up())?;
        let store = case.store().await?;
        let mut client = case.another().await?;
        case.insert(&mut client, &[postrider::Event::new("event", "")]).await?;
        let loaded = granted(&store).await?;
        let first = Progress { done: Intervals::up_to(Position::new(1)), ..Progress::default() };
        store.settle(settlement(&loaded, first)).await?;
        done(server.restore(&copy))?;
        let halted = loop {
            match store.acquire(lease()).await {
                // The previous connection.
                Err(error) => assert_eq!(error.code(), Code::StoreFailed, "{error}"),
                Ok(answer) => break answer,
            }
        };
        assert!(matches!(halted, Acquired::Halted(_)), "{halted:?}");
    }
    Ok(())
}
