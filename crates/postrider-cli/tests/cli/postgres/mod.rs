//! The same program on PostgreSQL: a new database for every case, on one server per test process.

mod alerts;
mod checks;
mod cleanup;
mod commit;
mod down;
mod event_counts;
mod eventlog;
mod guarded;
mod health;
mod http;
mod inbox;
mod large;
mod layouts;
#[cfg(feature = "kafka")]
mod outage;
mod roles;
mod story;
mod tls;
mod wrong;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use postrider_testkit::servers::postgres;
use tokio_postgres::NoTls;

use crate::program::Program;

/// The password of its users, which must not appear anywhere.
pub(super) const PASSWORD: &str = "tweet-tweet";

/// A new, empty database.
pub(super) struct Shop {
    /// With the superuser, which needs no password.
    pub(super) url: String,
}

impl Shop {
    /// If there is no server, prints why and returns `None`.
    pub(super) fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let server = postgres::url()?;
        let name = format!("cli_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        run_sql(server, &format!("CREATE DATABASE {name}"));
        let (front, _) = server.rsplit_once('/').unwrap();
        Some(Self { url: format!("{front}/{name}") })
    }

    /// Its URL for another user.
    pub(super) fn url_as(&self, user: &str) -> String {
        self.url.replace("postgres@", &format!("{user}@"))
    }

    pub(super) fn sql(&self, sql: &str) {
        run_sql(&self.url, sql);
    }

    /// The first column of the first row.
    pub(super) fn number(&self, sql: &str) -> i64 {
        on(&self.url, async |client| client.query_one(sql, &[]).await.unwrap().get(0))
    }

    /// A transaction with this statement, which is open until the value is dropped.
    pub(super) fn open(&self, sql: &str) -> Box<dyn std::any::Any> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute("BEGIN").await.unwrap();
            client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
            client
        });
        Box::new((client, runtime))
    }

    /// The program with a configuration for this database.
    pub(super) fn program(&self) -> Program {
        Program::with_config(&config(&self.url))
    }

    /// With tables and one event.
    pub(super) fn ready(&self) -> Program {
        let program = self.program();
        for args in [&["migrate", "up"][..], &["write", "--type", "shop.opened"]] {
            let ran = program.run(args);
            assert_eq!(ran.exit, Some(0), "{ran:?}");
        }
        program
    }
}

pub(super) fn config(url: &str) -> String {
    format!(
        "[outbox.shop]\nurl = '{url}'\n[sink.out]\ntype = 'file'\npath = 'events.jsonl'\n\
         [subscription.orders]\nsink = 'out'\nstart = 'beginning'\n"
    )
}

fn run_sql(url: &str, sql: &str) {
    on(url, async |client| client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}")));
}

fn on<T>(url: &str, work: impl AsyncFnOnce(tokio_postgres::Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        work(client).await
    })
}

/// The folder of the private server, with TLS enabled and users that must authenticate. `None` if the server is not private.
pub(super) fn secured() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(secure).as_deref()
}

fn secure() -> Option<PathBuf> {
    let server = postgres::url()?;
    if std::env::var_os("POSTRIDER_TEST_POSTGRES").is_some() {
        println!("SKIPPED: postgres logins and TLS: the server is not ours to change");
        return None;
    }
    let folder: String =
        on(server, async |client| client.query_one("SHOW data_directory", &[]).await.unwrap().get(0));
    let folder = PathBuf::from(folder);
    tls::make_certificates(&folder)?;
    let hba = "local all all trust
        host all password_user 127.0.0.1/32 scram-sha-256
        hostssl all certificate_user 127.0.0.1/32 cert
        host all certificate_user 127.0.0.1/32 reject
        host all all 127.0.0.1/32 trust
        local replication all trust
        host replication all 127.0.0.1/32 trust\n";
    std::fs::write(folder.join("pg_hba.conf"), hba).unwrap();
    for sql in [
        format!("CREATE ROLE password_user SUPERUSER LOGIN PASSWORD '{PASSWORD}'"),
        "CREATE ROLE certificate_user SUPERUSER LOGIN".to_owned(),
        "ALTER SYSTEM SET ssl_cert_file = 'test-server.pem'".to_owned(),
        "ALTER SYSTEM SET ssl_key_file = 'test-server.key'".to_owned(),
        "ALTER SYSTEM SET ssl_ca_file = 'test-ca.pem'".to_owned(),
        "ALTER SYSTEM SET ssl = on".to_owned(),
        "SELECT pg_reload_conf()".to_owned(),
    ] {
        run_sql(server, &sql);
    }
    // A later connection may still get the old settings; one with the new settings proves that they are in force.
    crate::shop::until(|| {
        let on_now: String =
            on(server, async |client| client.query_one("SHOW ssl", &[]).await.unwrap().get(0));
        (on_now == "on").then_some(())
    });
    Some(folder)
}
