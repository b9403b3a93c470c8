//! Servers and databases that a store refuses, and the settings of its sessions on the others.

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
async fn servers_whose_settings_break_the_order_of_positions_are_refused() -> Result<()> {
    for kind in Kind::ALL {
        if kind.url().is_none() {
            continue;
        }
        let of = || Options::of(kind);
        assert_eq!(refused(of().setting("auto_increment_increment=2")).await?, Some(Code::ServerUnfit));
        assert_eq!(refused(of().setting("binlog_format=STATEMENT")).await?, Some(Code::ServerUnfit));
        // Without a binary log, its format does not matter.
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
    async fn migrating_twice_or_concurrently_equals_migrating_once(case) {
        case.run("DROP DATABASE {schema}").await?;
        let (one, two) = tokio::join!(MySqlStore::migrate(&case.config), MySqlStore::migrate(&case.config));
        let mut from = [one?.from, two?.from];
        from.sort_unstable();
        assert_eq!(from, [0, 6]);
        // As after a migration that was interrupted before its last statement.
        case.run("DELETE FROM {schema}.migrations").await?;
        assert_eq!(MySqlStore::migrate(&case.config).await?.from, 0);
        case.store().await?;
    }
}

case! {
    /// Independent of the server's defaults: the time zone of this one is +05:30.
    async fn sessions_are_strict_in_utc_and_see_what_is_committed(case) {
        let mut client = case.another().await?;
        let isolation = if crate::mysql::log::case::is_mariadb(&mut client).await? { "tx_isolation" } else { "transaction_isolation" };
        let sql = format!("SELECT @@time_zone, @@sql_mode LIKE '%STRICT_TRANS_TABLES%', @@{isolation}");
        let row: Option<(String, bool, String)> = client.query_first(sql).await.map_err(failed)?;
        assert_eq!(row, Some(("+00:00".to_owned(), true, "READ-COMMITTED".to_owned())));
    }
}

/// Defaults that would truncate lists, end statements, chain transactions or change the meaning of quotes.
#[tokio::test]
async fn sessions_work_with_any_server_defaults() -> Result<()> {
    for kind in Kind::ALL {
        let Some(server) = own(Options::of(kind)) else { continue };
        let case = Case::<MySql>::at(server.url()).await?;
        let limit =
            if kind == Kind::MySql { "max_execution_time = 1" } else { "max_statement_time = 0.000001" };
        case.run(&format!(
            "SET GLOBAL sql_select_limit = 1, GLOBAL completion_type = 'CHAIN', GLOBAL {limit},
                 GLOBAL sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,NO_AUTO_VALUE_ON_ZERO',
                 GLOBAL sql_safe_updates = 1, GLOBAL sql_auto_is_null = 1, GLOBAL sql_big_selects = 0"
        ))
        .await?;
        case.run("SET GLOBAL TRANSACTION READ ONLY").await?;
        MySqlStore::migrate(&case.config).await?;
        let mut client = case.another().await?;
        let written: Vec<_> = ["a", "b", "c"].map(|name| postrider::Event::new(name, "it's \\ \"x\"")).into();
        case.insert(&mut client, &written).await?;
        let store = case.store().await?;
        for name in ["one", "two"] {
            store.subscribe(name, postrider::store::Start::Beginning).await?;
        }
        assert_eq!(store.overview(10).await?.subscriptions.len(), 2);
        let lease = postrider::store::LeaseRequest {
            subscription: "one".to_owned(),
            holder: "test".to_owned(),
            duration: std::time::Duration::from_secs(600),
        };
        let postrider::store::Acquired::Granted(loaded) = store.acquire(lease).await? else {
            panic!("it is free")
        };
        let budget = postrider::store::Budget::new(2, 1_000_000);
        let mut claimer = store.claimer_of("one", &loaded);
        let mut read = Vec::new();
        while read.len() < 3 {
            let postrider::store::Claimed::Page(page) = claimer.claim(budget).await? else {
                panic!("a page")
            };
            read.extend(page.events);
        }
        assert!(read.iter().map(|event| &*event.event).eq(&written));
    }
    Ok(())
}

case! {
    /// Only type and payload are given, in a session with the server's time zone.
    async fn a_manual_insert_gets_the_time_in_utc_and_an_id_of_version_7(case) {
        let mut hand = crate::mysql::log::case::plain(&case).await?;
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
