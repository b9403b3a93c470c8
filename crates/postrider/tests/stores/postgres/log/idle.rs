//! The cost of an idle relay. The figures are in docs/src/postgres.md, "Waking up".

use std::time::Duration;

use postrider::ledger::Progress;
use postrider::relay::Policy;
use postrider::relay::brain::{Acquisition, Brain, Effect, Input, Reply, RoutedClaim, Setup};
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::store::{Budget, Epoch, Loaded, Renewed, Store};
use postrider::{Now, Result, Timestamp};
use postrider_testkit::eventually;
use postrider_testkit::servers::postgres;

use super::case::{Case, case};

/// The number of polls and renewals of an idle subscription in ten minutes of simulated time.
fn idle_ten_minutes(policy: Policy) -> (u32, u32) {
    let setup = Setup {
        subscription: "mail".to_owned(),
        policy,
        prefix_safe: false,
        in_flight_max: None,
        counts_expired: true,
        seed: 1,
    };
    let (mut brain, mut now) = (Brain::new(setup), Duration::from_secs(1));
    let (mut looks, mut renewals) = (0, 0);
    let mut inputs = vec![Input::Tick];
    let settled_down = Duration::from_secs(60);
    while now < settled_down + Duration::from_secs(600) {
        while let Some(input) = inputs.pop() {
            let wall = Timestamp::from_micros(0).after(now);
            let step = brain.step(Now { elapsed: now, wall }, input);
            for effect in step.effects {
                let counted = u32::from(now >= settled_down);
                let reply = match effect {
                    Effect::Acquire => Reply::Acquired(Ok(granted())),
                    Effect::Renew(_) => {
                        renewals += counted;
                        Reply::Renewed(Ok(Renewed::Held { paused: None, parked_changed: false }))
                    }
                    Effect::Claim(_) => {
                        looks += counted;
                        let (events, empty_positions, damaged) = (Vec::new(), Vec::new(), Vec::new());
                        let (more_at_once, has_unread) = (false, false);
                        Reply::Claimed(Ok(RoutedClaim::Page {
                            events,
                            empty_positions,
                            damaged,
                            more_at_once,
                            has_unread,
                        }))
                    }
                    Effect::Report(_) => continue,
                    other => panic!("an idle relay has no business with {other:?}"),
                };
                inputs.push(Input::Reply(step.term, reply));
            }
        }
        now = brain.due().unwrap().max(now);
        inputs.push(Input::Tick);
    }
    (looks, renewals)
}

fn granted() -> Acquisition {
    let loaded = Loaded::new(Epoch(1), Progress::default());
    Acquisition::Granted { loaded: Box::new(loaded), parked: Vec::new(), dead: Vec::new() }
}

#[test]
fn an_idle_subscription_polls_twice_a_second_and_renews_every_five_seconds() {
    assert_eq!(idle_ten_minutes(Policy::default()), (1_200, 120));
    let rarely = Policy::default().poll_max(Duration::from_secs(5));
    assert_eq!(idle_ten_minutes(rarely), (120, 120));
}

/// The number of transactions in a private database, after all other sessions have left it.
async fn transactions(case: &Case, database: &str, at_least: i64) -> Result<i64> {
    let others = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'");
    let sql =
        format!("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{database}'");
    let what = format!("every session has left, after {at_least} transactions");
    eventually(&what, async || {
        Ok(case.one::<i64>(&others).await? == 0 && case.one::<i64>(&sql).await? >= at_least)
    })
    .await?;
    case.one(&sql).await
}

case! {
    async fn a_poll_of_an_idle_outbox_is_one_transaction(case) {
        let database = format!("{}_idle", case.schema.as_str());
        case.run(&format!("CREATE DATABASE {database}")).await?;
        let url = postgres::url().unwrap().rsplit_once('/').unwrap().0.to_owned();
        let config = PostgresConfig::new(&format!("{url}/{database}"))?;
        PostgresStore::migrate(&config).await?;
        let budget = Budget::new(100, 1 << 20);
        // The server runs transactions of its own in a database, for example autovacuum, so the cheapest of several runs
        // counts. A poll of two transactions would cost 200 in each of them.
        let mut before = transactions(&case, &database, 0).await?;
        let mut cheapest = [i64::MAX; 2];
        for _ in 0..4 {
            for (polls, cheapest) in [1, 101].into_iter().zip(&mut cheapest) {
                let store = PostgresStore::connect(&config).await?;
                let mut claimer = store.claimer(&Progress::default());
                for _ in 0..polls {
                    claimer.claim(budget).await?;
                }
                drop(claimer);
                store.close().await;
                let after = transactions(&case, &database, before + polls).await?;
                *cheapest = (*cheapest).min(after - before);
                before = after;
            }
        }
        assert_eq!(cheapest[1] - cheapest[0], 100, "{cheapest:?}");
        case.run(&format!("DROP DATABASE {database} WITH (FORCE)")).await?;
    }
}
