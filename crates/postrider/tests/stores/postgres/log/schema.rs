//! The tables: created once, by the first process, and refused if they differ from the schema.

use postrider::store::postgres::PostgresStore;
use postrider::store::{Migrated, Schema, Start, Store};
use postrider::{Code, Result};

use super::case::{Case, case};

#[tokio::test]
async fn concurrent_migrations_do_the_work_once() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::without_tables().await?;
    assert_eq!(PostgresStore::connect(&case.owner).await.unwrap_err().code(), Code::SchemaMissing);
    assert_eq!(PostgresStore::schema(&case.owner).await?, Schema { found: 0, needed: 5 });
    let config = &case.owner;
    let migrate = || PostgresStore::migrate(config);
    let all = tokio::try_join!(migrate(), migrate(), migrate(), migrate())?;
    let all = [all.0, all.1, all.2, all.3];
    assert_eq!(all.iter().filter(|migrated| migrated.from == 0).count(), 1, "{all:?}");
    assert_eq!(migrate().await?, Migrated { from: 5, to: 5 });
    assert_eq!(PostgresStore::schema(&case.owner).await?, Schema { found: 5, needed: 5 });
    PostgresStore::connect(&case.owner).await?;
    Ok(())
}

#[tokio::test]
async fn the_printed_migrations_create_the_same_schema() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::without_tables().await?;
    case.run("CREATE SCHEMA {schema}").await?;
    for migration in PostgresStore::migrations(&case.schema) {
        case.run(&migration.sql).await?;
    }
    case.make_roles().await?;
    case.store().await?;
    Ok(())
}

case! {
    async fn a_newer_schema_is_refused_and_not_modified(case) {
        case.run("INSERT INTO {schema}.migrations VALUES (1000)").await?;
        assert_eq!(case.store().await.unwrap_err().code(), Code::SchemaNewer);
        assert_eq!(PostgresStore::migrate(&case.owner).await.unwrap_err().code(), Code::SchemaNewer);
    }
}

case! {
    async fn a_sequence_that_hands_out_positions_out_of_order_is_refused(case) {
        for altered in ["CACHE 10", "CACHE 1 INCREMENT 2", "INCREMENT 1 CYCLE"] {
            case.run(&format!("ALTER SEQUENCE {{schema}}.events_position_seq {altered}")).await?;
            assert_eq!(case.store().await.unwrap_err().code(), Code::SchemaAltered, "{altered}");
        }
        case.run("ALTER SEQUENCE {schema}.events_position_seq NO CYCLE").await?;
        case.store().await?;
    }
}

case! {
    async fn a_transaction_id_that_is_not_taken_before_the_position_is_refused(case) {
        for altered in [
            "ALTER COLUMN tx SET DEFAULT '3'::xid8",
            "ALTER COLUMN tx DROP DEFAULT",
            "DROP COLUMN tx CASCADE, ADD COLUMN tx xid8 NOT NULL DEFAULT pg_current_xact_id()",
        ] {
            case.run(&format!("ALTER TABLE {{schema}}.events {altered}")).await?;
            assert_eq!(case.store().await.unwrap_err().code(), Code::SchemaAltered, "{altered}");
            // Restored, so that the next change is the only one.
            case.run("ALTER TABLE {schema}.events ALTER COLUMN tx SET DEFAULT pg_current_xact_id()").await?;
            if !altered.starts_with("DROP") {
                case.store().await?;
            }
        }
    }
}

case! {
    async fn a_relay_needs_few_rights_and_names_the_missing_one(case) {
        case.run("CREATE ROLE {schema}_few LOGIN").await?;
        let config = case.config_as(&case.sql("{schema}_few"))?;
        assert_eq!(PostgresStore::connect(&config).await.unwrap_err().code(), Code::PrivilegeMissing);
        case.run(
            "GRANT USAGE ON SCHEMA {schema} TO {schema}_few;
             GRANT SELECT ON {schema}.migrations, {schema}.events, {schema}.events_position_seq TO {schema}_few;",
        )
        .await?;
        let store = PostgresStore::connect(&config).await?;
        let error = store.subscribe("mail", Start::Now).await.unwrap_err();
        assert_eq!(error.code(), Code::PrivilegeMissing, "{error}");
        case.run(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.subscriptions, {schema}.parked, {schema}.leases, {schema}.relays
             TO {schema}_few",
        )
        .await?;
        assert!(store.subscribe("mail", Start::Now).await?);
        store.claimer(&Default::default()).claim(postrider::store::Budget::new(1, 1)).await?;
        case.run("DROP OWNED BY {schema}_few; DROP ROLE {schema}_few").await?;
    }
}
