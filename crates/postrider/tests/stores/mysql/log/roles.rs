//! Users with the minimum of privileges.

use mysql_async::prelude::Queryable;
use postrider::inbox::{Inbox, Received};
use postrider::relay::Retention;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::store::{
    Acquired, Budget, Claimed, Epoch, LeaseRequest, Purge, Settled, Settlement, Start, Store,
};
use postrider::{Event, Ident, Position, Result};

use crate::holes::Reader;

use super::case::{Case, ServerKind, case, failed, is_mariadb};

/// A user of the role, with a password.
async fn user<W: ServerKind>(case: &Case<W>, schema: &Ident, role: &str) -> Result<MySqlConfig> {
    let name = format!("u{}_{role}", schema.as_str());
    let mut client = case.another().await?;
    let way = if is_mariadb(&mut client).await? { "FOR" } else { "TO" };
    let sql = format!(
        "CREATE USER '{name}'@'127.0.0.1' IDENTIFIED BY 'pass word';
         GRANT '{0}_{role}' TO '{name}'@'127.0.0.1';
         SET DEFAULT ROLE '{0}_{role}' {way} '{name}'@'127.0.0.1'",
        schema.as_str()
    );
    client.query_drop(sql).await.map_err(failed)?;
    let url = W::KIND.url().unwrap_or_default().replace("root@", &format!("{name}@")).replace("/test", "");
    Ok(MySqlConfig::new(&url)?
        .password("pass word")
        .schema(schema.clone())
        .check_rollbacks_after(std::time::Duration::ZERO))
}

case! {
    async fn the_relay_role_is_enough_for_a_relay_and_the_writer_role_for_a_writer(case) {
        case.run(&MySqlStore::roles(&case.schema)?).await?;
        case.run(&MySqlStore::roles(&case.schema)?).await?;
        let (relay, writer) = (user(&case, &case.schema, "relay").await?, user(&case, &case.schema, "writer").await?);

        let mut client = writer.client().await?;
        let written = case.insert(&mut client, &[Event::new("a", ""), Event::new("b", "")]).await?;
        for refused in ["SELECT payload FROM {schema}.events", "DELETE FROM {schema}.events",
                        "UPDATE {schema}.events SET type = 'x'", "SELECT * FROM {schema}.subscriptions",
                        "INSERT INTO {schema}.events (position, type, payload) VALUES (99, 'x', '')"] {
            assert!(case.on(&mut client, refused).await.is_err(), "{refused}");
        }

        let store = MySqlStore::connect(&relay).await?;
        store.subscribe("s", Start::Now).await?;
        store.subscribe("t", Start::Beginning).await?;
        let lease = LeaseRequest {
            subscription: "t".to_owned(),
            holder: "relay".to_owned(),
            duration: std::time::Duration::from_secs(9),
        };
        let Acquired::Granted(loaded) = store.acquire(lease.clone()).await? else { panic!("the lease is free") };
        let budget = Budget::new(9, 999);
        // A hole, so that the writers are listed.
        case.run("START TRANSACTION; INSERT INTO {schema}.events (type, payload) VALUES ('c', ''); ROLLBACK").await?;
        case.committed("d").await?;
        let mut claimer = store.claimer(&loaded.progress);
        let Claimed::Page(page) = claimer.claim(budget).await? else { panic!("a page") };
        assert_eq!((page.events.len(), page.holes), (3, 1));
        let Claimed::Page(page) = claimer.claim(budget).await? else { panic!("a page") };
        assert_eq!(page.holes, 0, "the writers were listed");
        let settlement = Settlement {
            subscription: "t".to_owned(),
            epoch: loaded.epoch,
            done: postrider::ledger::Intervals::up_to(Position::new(4)),
            highest: None,
            trial: None,
            park: Vec::new(),
            unpark: vec![Position::new(1)],
        };
        assert_eq!(store.settle(settlement).await?, Settled::Done);
        store.renew(lease, loaded.epoch).await?;
        let trim = Purge::new(std::time::Duration::ZERO, 9);
        store.purge(trim).await?;
        store.purge_inbox(Retention::default().inbox_purge()).await?;
        store.fetch(written, 999).await?;
        store.overview(9).await?;
        store.halt("s", Epoch(i64::MAX), "because").await?;
        store.accept_history("s", Start::Beginning).await?;
        store.release("t", loaded.epoch, true).await?;

        let mut client = relay.client().await?;
        let migrated = "UPDATE {schema}.migrations SET version = 99";
        assert!(case.on(&mut client, migrated).await.is_err());
        let forged = "INSERT INTO {schema}.events (type, payload) VALUES ('forged', '')";
        assert!(case.on(&mut client, forged).await.is_err());
    }
}

case! {
    async fn the_relay_role_sees_that_a_transaction_of_another_user_is_idle(case) {
        case.run(&MySqlStore::roles(&case.schema)?).await?;
        let (relay, writer) = (user(&case, &case.schema, "relay").await?, user(&case, &case.schema, "writer").await?);
        let mut open = writer.client().await?;
        case.on(&mut open, "START TRANSACTION").await?;
        case.insert(&mut open, &[Event::new("open", "")]).await?;
        case.committed("kept").await?;
        let mut reader = Reader::of(&MySqlStore::connect(&relay).await?);
        reader.stays_a_hole(1).await?;
        case.run("START TRANSACTION; INSERT INTO {schema}.events (type, payload) VALUES ('gone', ''); ROLLBACK").await?;
        case.committed("kept").await?;
        reader.until_empty(3).await?;
        assert!(!reader.is_empty_at(1));
        case.on(&mut open, "COMMIT").await?;
        while reader.claim().await?.holes > 0 {}
        assert_eq!(reader.read, [2, 4, 1]);
    }
}

case! {
    /// Such a privilege shows the texts of all statements on the server.
    async fn only_the_relay_role_on_mariadb_has_the_right_to_see_all_processes(case) {
        case.run(&MySqlStore::roles(&case.schema)?).await?;
        let mariadb = is_mariadb(&mut case.another().await?).await?;
        for role in ["writer", "relay", "inbox", "viewer", "migrator"] {
            let mut client = user(&case, &case.schema, role).await?.client().await?;
            let seen = case.on(&mut client, "SELECT COUNT(*) FROM information_schema.innodb_trx").await;
            assert_eq!(seen.is_ok(), mariadb && role == "relay", "{role}");
        }
    }
}

case! {
    /// In a grant on a whole database `_` matches any character.
    async fn the_roles_of_one_outbox_give_no_access_to_another_with_a_similar_name(case) {
        let similar = case.schema.as_str().replace('_', "x");
        case.run(&format!("CREATE DATABASE {similar}; CREATE TABLE {similar}.secrets (secret TEXT)")).await?;
        case.run(&MySqlStore::roles(&case.schema)?).await?;
        for (role, here, there) in [
            ("viewer", "SELECT COUNT(*) FROM {schema}.events", "SELECT COUNT(*) FROM {similar}.secrets"),
            ("migrator", "CREATE TABLE {schema}.more (a INT)", "CREATE TABLE {similar}.more (a INT)"),
        ] {
            let mut client = user(&case, &case.schema, role).await?.client().await?;
            case.on(&mut client, here).await?;
            let refused = case.on(&mut client, &there.replace("{similar}", &similar)).await;
            assert!(refused.is_err(), "{role} may do in {similar} what it may do in {}", case.schema);
        }
        case.run(&format!("DROP DATABASE {similar}")).await?;
    }
}

case! {
    async fn the_role_of_a_consumer_can_receive_and_nothing_else(case) {
        case.run(&MySqlStore::roles(&case.schema)?).await?;
        let mut client = user(&case, &case.schema, "inbox").await?.client().await?;
        let inbox = Inbox::new().schema(case.schema.clone());
        let id = uuid::Uuid::now_v7();
        assert_eq!(inbox.receive(&mut client, "mail", id).await?, Received::First);
        assert_eq!(inbox.receive(&mut client, "mail", id).await?, Received::Duplicate);
        assert_eq!(inbox.delete_expired(&mut client, 10).await?, 0);
        for refused in ["UPDATE {schema}.inbox SET expires_at = processed_at", "SELECT 1 FROM {schema}.events"] {
            assert!(case.on(&mut client, refused).await.is_err(), "{refused}");
        }
    }
}
