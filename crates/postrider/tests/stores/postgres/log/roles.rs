//! The roles of the library's script: each can do its own work with every driver, and nothing else.

use std::time::Duration;

use postrider::store::postgres::PostgresStore;
use postrider::store::{Acquired, LeaseRequest, Start, Store};
use postrider::{Code, Event};
use postrider_testkit::servers::postgres;
use sqlx::{Connection, PgConnection};
use tokio_postgres::NoTls;

use super::case::{case, failed};

case! {
    async fn a_writer_writes_with_both_drivers_and_a_relay_keeps_the_ledger(case) {
        // Again: the script may be run any number of times.
        case.run(&PostgresStore::roles(&case.schema)?).await?;
        let name = case.schema.as_str();
        for role in ["writer", "relay"] {
            case.run(&format!("CREATE ROLE {name}_{role}_user LOGIN IN ROLE {name}_{role}")).await?;
        }
        let url = |role: &str| postgres::url().unwrap().replace("postgres@", &format!("{name}_{role}_user@"));
        for (role, may_write) in [("writer", true), ("relay", false)] {
            let (client, connection) = tokio_postgres::connect(&url(role), NoTls).await.map_err(failed)?;
            tokio::spawn(connection);
            let by_tokio = case.outbox().write(&client, Event::new("a", "")).await;
            let mut sqlx = PgConnection::connect(&url(role)).await.map_err(failed)?;
            let by_sqlx = case.outbox().write(&mut sqlx, Event::new("b", "")).await;
            for written in [by_tokio, by_sqlx] {
                let refused = written.err().map(|error| error.code());
                assert_eq!(refused, (!may_write).then_some(Code::PrivilegeMissing), "{role}");
            }
        }
        let relay = PostgresStore::connect(&case.config_as(&format!("{name}_relay_user"))?).await?;
        relay.subscribe("mail", Start::Beginning).await?;
        let (subscription, holder) = ("mail".to_owned(), "a".to_owned());
        let lease = LeaseRequest { subscription, holder, duration: Duration::from_secs(60) };
        assert!(matches!(relay.acquire(lease).await?, Acquired::Granted(_)));
        assert_eq!(relay.overview(10).await?.subscriptions[0].backlog.events, 2);
        let writer = PostgresStore::connect(&case.config_as(&format!("{name}_writer_user"))?).await;
        assert_eq!(writer.err().map(|error| error.code()), Some(Code::PrivilegeMissing));
    }
}
