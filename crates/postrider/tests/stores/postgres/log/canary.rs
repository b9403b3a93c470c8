//! No error or log contains the password of a URL, in any form of the URL and for any failure.

use postrider::Result;
use postrider::store::postgres::{PostgresConfig, PostgresStore};

use super::case::{Case, case};

/// The secret, which must not appear anywhere, as a whole or in part.
const CANARY: &str = "canary";

/// The complete error for the address.
async fn reported(config: Result<PostgresConfig>) -> String {
    let (shown, error) = match config {
        Ok(config) => (format!("{config:?}"), PostgresStore::connect(&config).await.err()),
        Err(error) => (String::new(), Some(error)),
    };
    let Some(error) = error else { panic!("it works: {shown}") };
    format!("{}\n{error}\n{error:?}\n{shown}", error.report())
}

case! {
    async fn no_error_contains_a_password(case) {
        let server = postrider_testkit::servers::postgres::url().unwrap_or_default();
        let address = server.rsplit_once('@').and_then(|(_, rest)| rest.split_once('/')).map_or("", |(at, _)| at);
        let closed = "127.0.0.1:1";
        for url in [
            // No server at this address, in every form of the URL.
            format!("postgres://u:canary@{closed}/db"),
            format!("postgres://u:a%20canary@{closed}/db"),
            format!("postgres://u:a:canary@{closed}/db"),
            format!("postgres://u:a/canary@{closed}/db"),
            format!("postgres://u:a?canary@{closed}/db"),
            format!("postgres://u:a#canary@{closed}/db"),
            format!("postgres://u:a@canary@{closed}/db?hostaddr=127.0.0.1"),
            format!("postgres://{closed}/db?user=u&password=canary"),
            format!("postgres://{closed}/db?user=u&password=a&canary=b"),
            "host=127.0.0.1 port=1 user=u password=canary".to_owned(),
            "host=127.0.0.1 port=1 user=u password='a canary'".to_owned(),
            "host=127.0.0.1 port=1 user=u password=a canary=b".to_owned(),
            "host=127.0.0.1 port=1 user=u password='canary".to_owned(),
            // A server that refuses the login, cannot encrypt, or has an unknown certificate.
            format!("postgres://stranger:canary@{address}/postgres"),
            format!("postgres://postgres:canary@{address}/nowhere"),
            format!("postgres://postgres:canary@{address}/postgres?sslmode=require"),
            format!("postgres://postgres:canary@{address}/postgres?sslmode=require&sslrootcert=nowhere.pem"),
            format!("postgres://postgres:canary@{address}/postgres?options=-c%20work_mem%3Dmuch"),
            // A server without Postrider's tables.
            format!("postgres://postgres:canary@{address}/template1"),
        ] {
            let text = reported(PostgresConfig::new(&url)).await;
            assert!(!text.contains(CANARY), "{url} is printed:\n{text}");
        }
        let kept_elsewhere = PostgresConfig::new(&format!("postgres://u@{closed}/db"))?.password(CANARY);
        let text = reported(Ok(kept_elsewhere)).await;
        assert!(text.contains("Connection refused") && !text.contains(CANARY), "{text}");
        drop::<Case>(case);
    }
}
