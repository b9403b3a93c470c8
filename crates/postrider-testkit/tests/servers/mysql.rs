//! The private MySQL and MariaDB servers behave as other tests assume.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "clippy does not take helpers for tests")]

use std::net::TcpStream;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, SslOpts};
use postrider_testkit::servers::Controlled as _;
use postrider_testkit::servers::mysql::{Kind, Options, Server, own};

async fn connect(url: &str) -> Conn {
    Conn::new(Opts::from_url(url).unwrap()).await.unwrap()
}

async fn says(conn: &mut Conn, question: &str) -> String {
    conn.query_first(question).await.unwrap().unwrap()
}

/// Runs the test on both kinds.
fn on_both(test: impl AsyncFn(Kind)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for kind in Kind::ALL {
            test(kind).await;
        }
    });
}

#[test]
fn a_server_has_the_settings_that_tests_rely_on() {
    on_both(async |kind| {
        let Some(url) = kind.url() else { return };
        let mut conn = connect(url).await;
        let version = says(&mut conn, "SELECT VERSION()").await;
        assert_eq!(version.contains("MariaDB"), kind == Kind::MariaDb, "{version}");
        for (setting, value) in [
            ("@@global.time_zone", "+05:30"),
            ("@@session.time_zone", "+05:30"),
            ("@@innodb_autoinc_lock_mode", "2"),
            ("@@auto_increment_increment", "1"),
            ("@@log_bin", "1"),
            ("@@bind_address", "127.0.0.1"),
            ("DATABASE()", "test"),
        ] {
            assert_eq!(says(&mut conn, &format!("SELECT {setting}")).await, value, "{kind:?} {setting}");
        }
        conn.disconnect().await.unwrap();
    });
}

#[test]
fn the_metadata_lock_of_a_writer_is_visible_to_other_sessions() {
    on_both(async |kind| {
        let Some(url) = kind.url() else { return };
        let (mut writer, mut other) = (connect(url).await, connect(url).await);
        writer.query_drop("CREATE TABLE locked (n INT) ENGINE=InnoDB").await.unwrap();
        let holders = "SELECT CAST(COUNT(*) AS CHAR) FROM performance_schema.metadata_locks \
                       WHERE OBJECT_NAME = 'locked' AND LOCK_TYPE = 'SHARED_WRITE' AND LOCK_STATUS = 'GRANTED'";
        assert_eq!(says(&mut other, holders).await, "0");
        writer.query_drop("BEGIN").await.unwrap();
        writer.query_drop("INSERT INTO locked VALUES (1)").await.unwrap();
        assert_eq!(says(&mut other, holders).await, "1", "{kind:?}");
        writer.query_drop("COMMIT").await.unwrap();
        assert_eq!(says(&mut other, holders).await, "0");
    });
}

#[test]
fn a_server_can_be_stopped_killed_and_suspended_and_keeps_its_data() {
    on_both(async |kind| {
        let Some(server) = own(Options::of(kind)) else { return };
        let mut conn = connect(server.url()).await;
        conn.query_drop("CREATE TABLE kept (n INT) ENGINE=InnoDB").await.unwrap();
        let data = says(&mut conn, "SELECT @@datadir").await;
        type End = fn(&Server) -> Result<(), String>;
        let ends: [End; 2] = [Server::stop, Server::kill];
        for (written, end) in ends.into_iter().enumerate() {
            conn.query_drop("INSERT INTO kept VALUES (1)").await.unwrap();
            end(&server).unwrap();
            TcpStream::connect(("127.0.0.1", server.port())).unwrap_err();
            conn.query_drop("SELECT 1").await.unwrap_err();
            server.start().unwrap();
            conn = connect(server.url()).await;
            let kept = says(&mut conn, "SELECT CAST(COUNT(*) AS CHAR) FROM kept").await;
            assert_eq!(kept, (written + 1).to_string(), "{kind:?}");
        }
        server.pause().unwrap();
        let answer = conn.query_drop("SELECT 1");
        let waited = tokio::time::timeout(std::time::Duration::from_millis(200), answer).await;
        waited.expect_err("it is suspended");
        server.resume().unwrap();
        let mut conn = connect(server.url()).await;
        assert_eq!(says(&mut conn, "SELECT @@datadir").await, data);
    });
}

#[test]
fn a_dropped_server_leaves_nothing_behind_even_if_it_was_suspended() {
    on_both(async |kind| {
        let Some(server) = own(Options::of(kind)) else { return };
        let (folder, port) = (server.data().parent().unwrap().to_owned(), server.port());
        assert!(folder.exists());
        server.pause().unwrap();
        drop(server);
        assert!(!folder.exists());
        TcpStream::connect(("127.0.0.1", port)).unwrap_err();
    });
}

#[test]
fn a_server_accepts_other_settings_and_requires_passwords() {
    on_both(async |kind| {
        let options = Options::of(kind).setting("auto_increment_increment=2").without_binlog();
        let Some(server) = own(options) else { return };
        let mut conn = connect(server.url()).await;
        assert_eq!(says(&mut conn, "SELECT @@auto_increment_increment").await, "2");
        assert_eq!(says(&mut conn, "SELECT @@log_bin").await, "0", "{kind:?}");
        conn.query_drop("CREATE USER 'shop'@'127.0.0.1' IDENTIFIED BY 'not-a-secret'").await.unwrap();
        conn.query_drop("GRANT SELECT ON test.* TO 'shop'@'127.0.0.1'").await.unwrap();
        let mut shop = connect(&server.url_of("shop:not-a-secret")).await;
        assert_eq!(says(&mut shop, "SELECT CURRENT_USER()").await, "shop@127.0.0.1");
        let wrong = Opts::from_url(&server.url_of("shop:wrong")).unwrap();
        Conn::new(wrong).await.unwrap_err();
    });
}

#[test]
fn a_server_presents_a_certificate_for_its_name() {
    on_both(async |kind| {
        let Some(server) = own(Options::of(kind).setting("require_secure_transport=ON")) else { return };
        let plain = Opts::from_url(server.url()).unwrap();
        Conn::new(plain.clone()).await.expect_err("without TLS");
        let believing = |ssl: SslOpts| Conn::new(OptsBuilder::from_opts(plain.clone()).ssl_opts(ssl));
        believing(SslOpts::default()).await.expect_err("its authority is not trusted");
        let ssl = SslOpts::default().with_root_certs(vec![server.authority().to_owned().into()]);
        let mut conn = believing(ssl).await.unwrap();
        let cipher = says(&mut conn, "SELECT VARIABLE_VALUE FROM performance_schema.session_status WHERE VARIABLE_NAME = 'Ssl_version'").await;
        assert_eq!(cipher, "TLSv1.3", "{kind:?}");
    });
}

#[test]
fn writes_after_a_backup_are_absent_after_a_restore_and_in_a_clone() {
    on_both(async |kind| {
        let Some(server) = own(Options::of(kind)) else { return };
        let mut conn = connect(server.url()).await;
        conn.query_drop("CREATE TABLE kept (n INT) ENGINE=InnoDB").await.unwrap();
        let copy = server.back_up().unwrap();
        let mut conn = connect(server.url()).await;
        conn.query_drop("INSERT INTO kept VALUES (1)").await.unwrap();
        let count = "SELECT CAST(COUNT(*) AS CHAR) FROM kept";
        let twin = server.twin(&copy).unwrap();
        let mut other = connect(twin.url()).await;
        assert_eq!(says(&mut other, count).await, "0");
        if kind == Kind::MySql {
            let name = "SELECT @@server_uuid";
            assert_ne!(says(&mut other, name).await, says(&mut conn, name).await);
        }
        assert_eq!(says(&mut conn, count).await, "1");
        server.restore(&copy).unwrap();
        let mut conn = connect(server.url()).await;
        assert_eq!(says(&mut conn, count).await, "0");
    });
}
