//! The rule for holes on servers that list only the transactions of their engine.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use postrider::store::CountBy;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::{Code, Event, Result};
use postrider_testkit::servers::mysql::{Kind, Options, Server, own};
use tokio::time::Instant;

use crate::holes::Reader;

use super::case::{Case, MariaDb, MySql, ServerKind, done, failed};

/// A server without performance_schema, without MariaDB's plugin, and without any other list of locks.
fn silent(kind: Kind) -> Option<Server> {
    own(Options::of(kind).setting("performance_schema=OFF"))
}

/// An outbox on it. A single statement ends before the next poll.
async fn outbox<W: ServerKind>(server: &Server) -> Result<Case<W>> {
    let mut case = Case::<W>::at(server.url()).await?;
    case.config = case.config.insert_duration_max(Duration::ZERO);
    MySqlStore::migrate(&case.config).await?;
    Ok(case)
}

/// Polls long enough that the transactions are listed several times.
async fn stays_a_hole(reader: &mut Reader, position: i64) -> Result<()> {
    let until = Instant::now() + Duration::from_millis(1_800);
    while Instant::now() < until {
        reader.stays_a_hole(position).await?;
    }
    Ok(())
}

/// A late committer, one that rolls back, prepared ones with and without a connection, and one after a restart.
async fn holes_live_as_long_as_their_writers<W: ServerKind>(server: &Server) -> Result<()> {
    let case = outbox::<W>(server).await?;
    let (mut late, mut gone) = (case.writing("late").await?, case.writing("gone").await?);
    let (mut left, mut held) = (case.another().await?, case.another().await?);
    for (client, name) in [(&mut left, "left"), (&mut held, "held")] {
        case.on(client, &format!("XA START '{name}'")).await?;
        case.insert(client, &[Event::new(name, "")]).await?;
        case.on(client, &format!("XA END '{name}'; XA PREPARE '{name}'")).await?;
    }
    case.committed("fast").await?;
    let mut reader = Reader::on(&case).await?;
    left.disconnect().await.map_err(failed)?;
    for position in 1..=4 {
        stays_a_hole(&mut reader, position).await?;
    }
    case.on(&mut late, "COMMIT").await?;
    case.on(&mut gone, "ROLLBACK").await?;
    case.on(&mut held, "XA COMMIT 'held'").await?;
    // Transactions that were listed with it may have taken its position as well.
    stays_a_hole(&mut reader, 3).await?;
    assert_eq!(reader.read, [5, 1, 4]);
    done(server.kill())?;
    done(server.start())?;
    let mut reader = Reader::on(&case).await?;
    stays_a_hole(&mut reader, 3).await?;
    assert_eq!(reader.read, [1, 4, 5]);
    case.another().await?.query_drop("XA COMMIT 'left'").await.map_err(failed)?;
    reader.until_empty(2).await?;
    assert_eq!((reader.read.as_slice(), reader.is_empty_at(3)), (&[1, 4, 5, 3][..], false));
    Ok(())
}

#[tokio::test]
async fn holes_live_as_long_as_their_writers_on_a_mysql_that_reports_no_locks() -> Result<()> {
    let Some(server) = silent(Kind::MySql) else { return Ok(()) };
    holes_live_as_long_as_their_writers::<MySql>(&server).await
}

#[tokio::test]
async fn holes_live_as_long_as_their_writers_on_a_mariadb_that_reports_no_locks() -> Result<()> {
    let Some(server) = silent(Kind::MariaDb) else { return Ok(()) };
    holes_live_as_long_as_their_writers::<MariaDb>(&server).await
}

/// Another session reads the engine's list continuously, so that it is never refreshed. The list was created when there
/// was no writer.
#[tokio::test]
async fn a_stale_list_of_transactions_is_not_used() -> Result<()> {
    for kind in Kind::ALL {
        let Some(server) = silent(kind) else { continue };
        let case = outbox::<MySql>(&server).await?;
        let mut polls = case.another().await?;
        let sql = "SELECT COUNT(*) FROM information_schema.innodb_trx";
        polls.query_drop(sql).await.map_err(failed)?;
        let polling = tokio::spawn(async move { while polls.query_drop(sql).await.is_ok() {} });
        let mut late = case.writing("late").await?;
        case.committed("fast").await?;
        let mut reader = Reader::on(&case).await?;
        stays_a_hole(&mut reader, 1).await?;
        case.on(&mut late, "ROLLBACK").await?;
        polling.abort();
        reader.until_empty(1).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_hole_younger_than_the_statement_time_limit_stays() -> Result<()> {
    for kind in Kind::ALL {
        let Some(server) = silent(kind) else { continue };
        let mut case = outbox::<MySql>(&server).await?;
        case.config = case.config.insert_duration_max(Duration::from_secs(3_600));
        case.run(
            "START TRANSACTION; INSERT INTO {schema}.events (type, payload) VALUES ('gone', ''); ROLLBACK",
        )
        .await?;
        case.committed("kept").await?;
        let mut reader = Reader::on(&case).await?;
        stays_a_hole(&mut reader, 1).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_relay_without_the_right_to_list_transactions_is_refused_with_a_hint() -> Result<()> {
    for kind in Kind::ALL {
        let Some(server) = silent(kind) else { continue };
        let case = outbox::<MySql>(&server).await?;
        case.run("CREATE USER 'blind'@'127.0.0.1' IDENTIFIED BY 'b'; GRANT ALL ON {schema}.* TO 'blind'@'127.0.0.1'").await?;
        let config =
            MySqlConfig::new(&server.url_of("blind:b").replace("/test", ""))?.schema(case.schema.clone());
        let error = MySqlStore::connect(&config).await.unwrap_err();
        assert_eq!(error.code(), Code::ServerUnfit, "{error}");
        // A connection that only reads does not need it.
        assert_eq!(MySqlStore::read_overview(&config, 10).await?.subscriptions.len(), 0);
        MySqlStore::count_events(&config, CountBy::Type, 10).await?;
        // `migrate` reports it before it creates the tables.
        case.run("DROP DATABASE {schema}").await?;
        assert_eq!(MySqlStore::migrate(&config).await.unwrap_err().code(), Code::ServerUnfit);
        assert_eq!(MySqlStore::schema(&config).await?.found, 0);
        let words = if kind == Kind::MySql { "performance_schema = ON" } else { "metadata_lock_info" };
        let error = error.report();
        assert!(error.contains(words) && error.contains("GRANT PROCESS"), "{error}");
    }
    Ok(())
}
