//! Servers and databases that a store refuses, and how it sets up its sessions on those it takes.

use mysql_async::prelude::Queryable;
use postrider::store::Store;
use postrider::store::mysql::MySqlStore;
use postrider::{Code, Result};
use postrider_testkit::servers::mysql::{Kind, Options, own};

use super::case::{Case, MySql, case, failed};

/// The error of a server with a setting.
async fn refused(options: Options) -> Result<Option<Code>> {
    let Some(server) = own(options) else { return Ok(None) };
    let case = Case::<MySql>::at(server.url()).await?;
    Ok(MySqlStore::connect(&case.config).await.err().map(|error| error.code()))
}

#[tokio::test]
async fn servers_under_which_positions_mean_nothing_are_refused() -> Result<()> {
    for kind in Kind::ALL {
        if kind.url().is_none() {
            continue;
        }
        let of = || Options::of(kind);
        assert_eq!(refused(of().setting("auto_increment_increment=2")).await?, Some(Code::ServerUnfit));
        assert_eq!(refused(of().setting("binlog_format=STATEMENT")).await?, Some(Code::ServerUnfit));
        // Without a binary log its format is of no matter.
        assert_ne!(
            refused(of().setting("binlog_format=STATEMENT").without_binlog()).await?,
            Some(Code::ServerUnfit)
        );
        assert_eq!(refused(of().setting("read_only=ON")).await?, Some(Code::StoreReadOnly));
    }
    Ok(())
}

case! {
    async fn a_database_without_tables_is_refused(case) {
        case.run("DROP DATABASE {schema}").await?;
        assert_eq!(MySqlStore::connect(&case.config).await.unwrap_err().code(), Code::SchemaMissing);
    }
}

case! {
    async fn a_database_of_a_newer_program_is_refused(case) {
        case.run("INSERT INTO {schema}.migrations (version) VALUES (99)").await?;
        assert_eq!(MySqlStore::connect(&case.config).await.unwrap_err().code(), Code::SchemaNewer);
        assert_eq!(MySqlStore::migrate(&case.config).await.unwrap_err().code(), Code::SchemaNewer);
    }
}

case! {
    async fn an_outbox_of_another_engine_is_refused(case) {
        case.run("ALTER TABLE {schema}.events ENGINE = MyISAM").await?;
        assert_eq!(MySqlStore::connect(&case.config).await.unwrap_err().code(), Code::SchemaAltered);
    }
}

case! {
    async fn migrating_twice_and_at_once_is_the_same_as_once(case) {
        case.run("DROP DATABASE {schema}").await?;
        let (one, two) = tokio::join!(MySqlStore::migrate(&case.config), MySqlStore::migrate(&case.config));
        let mut from = [one?.from, two?.from];
        from.sort_unstable();
        assert_eq!(from, [0, 1]);
        // As it would be where the first time broke off before its last line.
        case.run("DELETE FROM {schema}.migrations").await?;
        assert_eq!(MySqlStore::migrate(&case.config).await?.from, 0);
        case.store().await?;
    }
}

case! {
    /// Whatever the server's defaults are: this one's zone is +05:30.
    async fn sessions_are_strict_in_utc_and_see_what_is_committed(case) {
        let mut client = case.another().await?;
        let isolation = if crate::case::is_mariadb(&mut client).await? { "tx_isolation" } else { "transaction_isolation" };
        let sql = format!("SELECT @@time_zone, @@sql_mode LIKE '%STRICT_TRANS_TABLES%', @@{isolation}");
        let row: Option<(String, bool, String)> = client.query_first(sql).await.map_err(failed)?;
        assert_eq!(row, Some(("+00:00".to_owned(), true, "READ-COMMITTED".to_owned())));
    }
}

case! {
    /// Only type and payload are given, in a session of the server's own zone.
    async fn an_insert_by_hand_gets_the_time_in_utc_and_an_id_of_version_7(case) {
        let mut hand = crate::case::plain(&case).await?;
        case.on(&mut hand, "INSERT INTO {schema}.events (type, payload) VALUES ('by hand', '{}')").await?;
        let store = case.store().await?;
        let event = store.fetch(vec![postrider::Position::new(1)], 1_000).await?.events.remove(0).event;
        let overview = store.overview(10).await?;
        let age = event.time.until(overview.now);
        assert!(age < std::time::Duration::from_secs(60), "{age:?}");
        assert_eq!(event.id.get_version_num(), 7);
        assert_eq!(event.id.get_variant(), uuid::Variant::RFC4122);
    }
}
