//! Leases, pauses and halts work as in every store, and pass the same cases.

use std::sync::Arc;

use postrider::layout::RowLayout;
use postrider::store::Store;
use postrider::{Code, Error, Event, Position, Result};
use postrider_testkit::conformance::store::{Databases, OpenTransaction, StoreUnderTest, admin, lease};

use super::case::Case;
use crate::test_layouts::{STATE_PER_ROW, on_layouts};

/// The case of the layout at an index in the list of all layouts. The cases used here write no event.
struct Of<const LAYOUT: usize>(Case);

/// Generates the tests of one layout.
macro_rules! cases {
    ($layout:ident = $index:literal; $($file:ident::$case:ident)+) => {
        mod $layout {
            use super::*;

            $(
                #[tokio::test]
                async fn $case() -> Result<()> {
                    if !Case::is_available() {
                        return Ok(());
                    }
                    $file::$case(&Databases::of::<Of<$index>>()).await
                }
            )+
        }
    };
}

macro_rules! all_cases {
    ($($layout:ident = $index:literal, $variant:ident;)+) => { $(
        cases! { $layout = $index;
            lease::a_free_lease_is_granted_and_a_held_one_is_not
            lease::an_expired_lease_is_taken_over
            lease::the_same_holder_gets_its_lease_again_with_a_new_epoch
            lease::renewing_extends_the_lease_until_a_takeover
            lease::releasing_frees_the_lease
            lease::releasing_a_lost_lease_frees_nothing
            lease::only_a_clean_release_counts_as_clean
            admin::a_pause_is_reported_by_the_next_renewal_and_load
            admin::a_halted_subscription_is_not_granted
        }
    )+ };
}

on_layouts!(postgres, all_cases);

#[tokio::test]
async fn no_renewal_waits_for_a_blocked_report() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::EventOutbox).await?;
    case.run("BEGIN; LOCK TABLE {ledger}.relays IN ACCESS EXCLUSIVE MODE").await?;
    let waiting =
        "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = '{ledger}.relays'::regclass AND NOT granted)";
    let store = case.store().await?;
    let report = lease::a_renewal_does_not_wait_for_a_report(store, async || case.one(waiting).await).await?;
    case.run("COMMIT").await?;
    report.await.unwrap()
}

fn not_here() -> Error {
    Error::new(Code::StoreFailed, "the cases of leases write nothing")
}

impl<const LAYOUT: usize> StoreUnderTest for Of<LAYOUT> {
    type Backup = ();

    async fn fresh() -> Result<Self> {
        Case::new(STATE_PER_ROW[LAYOUT]).await.map(Self)
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.0.store().await
    }

    async fn write(&self, _: Vec<Event>) -> Result<Vec<Position>> {
        Err(not_here())
    }

    async fn begin(&self, _: Vec<Event>) -> Result<Box<dyn OpenTransaction>> {
        Err(not_here())
    }

    async fn waste_position(&self) -> Result<Position> {
        Err(not_here())
    }

    async fn delete(&self, _: Position) -> Result<()> {
        Err(not_here())
    }

    async fn damage(&self, _: Position) -> Result<()> {
        Err(not_here())
    }

    async fn back_up(&self) -> Result<()> {
        Err(not_here())
    }

    async fn restore(&self, (): ()) -> Result<()> {
        Err(not_here())
    }

    async fn expire_lease(&self, subscription: &str) -> Result<()> {
        self.0
            .run(&format!("UPDATE {{ledger}}.leases SET expires_at = 'epoch' WHERE name = '{subscription}'"))
            .await
    }
}
