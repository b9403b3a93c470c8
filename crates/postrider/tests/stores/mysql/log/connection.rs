//! Encryption, login, and operations that do not wait for each other.

use std::sync::Arc;

use postrider::store::Store;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::{Code, Result};
use postrider_testkit::conformance::store::lease::a_renewal_does_not_wait_for_a_report;
use postrider_testkit::servers::mysql::{Kind, Options, own};

use super::case::{Case, MariaDb, case};

#[cfg(feature = "mysql-tls")]
#[tokio::test]
async fn a_server_without_a_trusted_certificate_is_refused() -> Result<()> {
    for kind in Kind::ALL {
        let Some(server) = own(Options::of(kind).setting("require_secure_transport=ON")) else { continue };
        let url = format!("{}?ssl-mode=verify_identity", server.url());
        let trusting = MySqlConfig::new(&url)?.tls_root(server.authority());
        MySqlStore::migrate(&trusting).await?;
        MySqlStore::connect(&trusting).await?.overview(0).await?;
        // Without the root certificate the client refuses the server, and without encryption the server refuses the
        // client.
        let error = MySqlStore::connect(&MySqlConfig::new(&url)?).await.unwrap_err();
        assert_eq!(error.code(), Code::TlsFailed, "{error}");
        let plain = MySqlConfig::new(&format!("{}?ssl-mode=disabled", server.url()))?;
        assert!(MySqlStore::connect(&plain).await.is_err());
        // The certificate is for 127.0.0.1 and localhost, not for its other names.
        let other = url.replace("127.0.0.1", "127.0.0.2");
        if let Err(error) = MySqlConfig::new(&other)?.tls_root(server.authority()).client().await {
            assert!(matches!(error.code(), Code::TlsFailed | Code::StoreFailed), "{error}");
        } else {
            panic!("the name was not checked");
        }
    }
    Ok(())
}

/// MariaDB has no dictionary with an index: for some conditions it opens every table of the server.
#[tokio::test]
async fn a_connection_opens_no_tables_of_other_databases() -> Result<()> {
    const TABLES: i64 = 200;
    let Some(server) = own(Options::of(Kind::MariaDb)) else { return Ok(()) };
    let case = Case::<MariaDb>::at(server.url()).await?;
    MySqlStore::migrate(&case.config).await?;
    case.run("CREATE DATABASE other").await?;
    for number in 0..TABLES {
        case.run(&format!("CREATE TABLE other.t{number} (id INT)")).await?;
    }
    case.run("FLUSH TABLES").await?;
    let opened = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status
                  WHERE variable_name = 'OPENED_TABLE_DEFINITIONS'";
    let before: i64 = case.one(opened).await?;
    MySqlStore::connect(&case.config).await?.close().await;
    let after: i64 = case.one(opened).await?;
    assert!(after - before < TABLES, "{}", after - before);
    Ok(())
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_printed() -> Result<()> {
    for kind in Kind::ALL {
        let Some(url) = kind.url() else { continue };
        let url = url.replace("root@", "nobody:hushhush@");
        let error = MySqlStore::connect(&MySqlConfig::new(&url)?).await.unwrap_err();
        assert_eq!(error.code(), Code::LoginRefused, "{error}");
        assert!(!format!("{error} {error:?}").contains("hushhush"));
        let config = MySqlConfig::new(&url)?.password("hushhush");
        assert!(!format!("{config:?}").contains("hushhush"));
    }
    Ok(())
}

case! {
    async fn no_renewal_waits_for_a_blocked_report(case) {
        let store = Arc::new(case.store().await?);
        let mut locking = case.another().await?;
        case.on(&mut locking, "LOCK TABLES {schema}.relays WRITE").await?;
        let waiting = "SELECT COUNT(*) > 0 FROM information_schema.processlist
                       WHERE state LIKE 'Waiting for table%' AND info LIKE '%{schema}%relays%'";
        let report = a_renewal_does_not_wait_for_a_report(store, async || case.one(waiting).await).await?;
        case.on(&mut locking, "UNLOCK TABLES").await?;
        report.await.unwrap()?;
    }
}
