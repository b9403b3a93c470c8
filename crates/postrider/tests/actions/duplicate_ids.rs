//! A table whose ids are not unique, because its owner forgot the key.

use postrider::Code;
use postrider::action::{Action, Plan};
use uuid::Uuid;

use crate::drivers::{Case, SqlxPostgres};
use crate::place::Place;
use crate::wallet::Note;

/// Updates two notes.
#[derive(Action)]
struct Rewrite;

impl Action for Rewrite {
    type Params = [Uuid; 2];
    type Output = ();
    type Error = postrider::Error;

    async fn perform(&self, plan: &mut Plan, ids: &[Uuid; 2]) -> postrider::Result<()> {
        plan.update_all(ids.map(|id| Note { id, text: "new".to_owned(), version: 1 })).map(drop)
    }
}

#[tokio::test]
async fn a_row_too_many_does_not_hide_a_stale_one() {
    let Some(case) = Case::<SqlxPostgres>::new(None).await else { return };
    let [twice, stale] = [Uuid::now_v7(), Uuid::now_v7()];
    case.place
        .rows(&format!(
            "DROP TABLE notes;
             CREATE TABLE notes (id uuid NOT NULL, text VARCHAR(255) NOT NULL, version BIGINT NOT NULL);
             INSERT INTO notes VALUES ('{twice}', 'old', 1), ('{twice}', 'old', 1), ('{stale}', 'old', 2)"
        ))
        .await;
    let executor = case.builder().action(Rewrite).build().unwrap();
    // Two rows are changed and two are staged, but one of them is not among the changed ones.
    for ids in [[twice, stale], [stale, twice]] {
        let error = executor.execute::<Rewrite>(ids).await.unwrap_err();
        assert!([Code::PlanInvalid, Code::ActionStale].contains(&error.code()), "{error}");
        assert_eq!(case.place.one("SELECT count(*) FROM notes WHERE text = 'old'").await, "3");
    }
}
