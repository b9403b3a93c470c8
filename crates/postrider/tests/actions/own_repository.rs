//! A repository that the application writes itself: one statement for any number of rows.

use postrider::action::{Action, Executor, Model, Plan, Repository};
use postrider::{Code, Error, Result};
use sqlx::{PgPool, Postgres, Transaction};
use uuid::Uuid;

use crate::drivers::{Case, Driver, SqlxPostgres};
use crate::place::Place;

#[derive(Debug, Clone, Model)]
struct Balance {
    id: Uuid,
    cents: i64,
    version: i64,
}

struct Balances;

impl Repository<Balance, PgPool> for Balances {
    async fn insert(&self, tx: &mut Transaction<'static, Postgres>, rows: &[Balance]) -> sqlx::Result<u64> {
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let cents: Vec<i64> = rows.iter().map(|row| row.cents).collect();
        let insert = "INSERT INTO wallets SELECT *, 1 FROM unnest($1::uuid[], $2::bigint[])";
        Ok(sqlx::query(insert).bind(ids).bind(cents).execute(&mut **tx).await?.rows_affected())
    }

    async fn update(&self, tx: &mut Transaction<'static, Postgres>, rows: &[Balance]) -> sqlx::Result<u64> {
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let cents: Vec<i64> = rows.iter().map(|row| row.cents).collect();
        let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
        let update = "UPDATE wallets AS w SET balance = new.cents, version = w.version + 1
                      FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS new (id, cents, version)
                      WHERE w.id = new.id AND w.version = new.version";
        Ok(sqlx::query(update).bind(ids).bind(cents).bind(versions).execute(&mut **tx).await?.rows_affected())
    }
}

/// Adds or updates these rows.
#[derive(Action)]
struct Set;

impl Action for Set {
    type Params = (bool, Vec<(Uuid, i64, i64)>);
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, (is_new, rows): &Self::Params) -> Result<()> {
        let rows =
            rows.iter().map(|(id, cents, version)| Balance { id: *id, cents: *cents, version: *version });
        match is_new {
            true => plan.add_all(rows).map(drop),
            false => plan.update_all(rows).map(drop),
        }
    }
}

#[tokio::test]
async fn one_stale_row_of_many_rolls_all_of_them_back() {
    let Some(case) = Case::<SqlxPostgres>::new(None).await else { return };
    let executor =
        Executor::builder(case.driver.database()).namespace("shop").repository(Balances).action(Set);
    let executor = executor.build().unwrap();
    let ids: Vec<Uuid> = (0..3).map(|_| Uuid::now_v7()).collect();
    let rows = |version: [i64; 3]| {
        ids.iter().zip(version).map(|(id, version)| (*id, 5 + version, version)).collect()
    };
    executor.execute::<Set>((true, rows([1, 1, 1]))).await.unwrap();
    executor.execute::<Set>((false, rows([1, 1, 1]))).await.unwrap();
    let error = executor.execute::<Set>((false, rows([2, 1, 2]))).await.unwrap_err();
    assert_eq!(error.code(), Code::ActionStale);
    assert_eq!(error.message(), "2 of 3 rows of Balance had the version that the action read");
    let found = case.place.rows("SELECT balance, version FROM wallets").await;
    assert_eq!(found, [["6", "2"], ["6", "2"], ["6", "2"]]);
}
