//! Databases with an encoding other than UTF-8.

use postrider::Code;
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider_testkit::servers::postgres;

use super::case::case;

case! {
    async fn a_database_in_another_encoding_is_refused_before_anything_is_created_or_read(case) {
        for encoding in ["SQL_ASCII", "LATIN1"] {
            let name = format!("{}_{}", case.schema.as_str(), encoding.to_lowercase());
            case.run(&format!(
                "CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
            ))
            .await?;
            let (server, _) = postgres::url().unwrap().rsplit_once('/').unwrap();
            let config = PostgresConfig::new(&format!("{server}/{name}"))?;
            for refused in [
                PostgresStore::migrate(&config).await.err(),
                PostgresStore::connect(&config).await.err(),
                PostgresStore::schema(&config).await.err(),
            ] {
                let refused = refused.expect("it is refused");
                assert_eq!(refused.code(), Code::EncodingUnfit, "{refused}");
                assert!(refused.message().contains(encoding), "{refused}");
            }
            case.run(&format!("DROP DATABASE {name} WITH (FORCE)")).await?;
        }
    }
}
