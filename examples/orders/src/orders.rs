//! What the service does: the model, its event, the action that places an order, and the handler that confirms it.

use postrider::action::{Action, Model, Plan};
use postrider::handler::{self, Context};
use postrider::inbox::{Inbox, Received};
use postrider::{Error, Event};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use uuid::Uuid;

/// A row of the table `orders`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Model)]
#[model(table = "orders")]
pub(crate) struct Order {
    pub(crate) id: Uuid,
    pub(crate) customer: String,
    pub(crate) cents: i64,
    pub(crate) version: i64,
}

/// What Kafka and the handler receive.
#[derive(Debug, Serialize, Deserialize, Event)]
#[event(model = Order, type = "order.placed")]
pub(crate) struct OrderPlaced {
    pub(crate) order: Uuid,
    pub(crate) customer: String,
    pub(crate) cents: i64,
}

#[derive(Action)]
pub(crate) struct PlaceOrder;

/// The parameters of the action. They are stored with its event.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NewOrder {
    pub(crate) id: Uuid,
    pub(crate) customer: String,
    pub(crate) cents: i64,
}

/// Why an order was not placed.
#[derive(Debug)]
pub(crate) enum NotPlaced {
    /// The order is not valid: the customer's mistake.
    Refused(&'static str),
    /// The database, or a mistake of this program.
    Failed(Error),
}

impl From<Error> for NotPlaced {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Action for PlaceOrder {
    type Params = NewOrder;
    type Output = Order;
    type Error = NotPlaced;

    async fn perform(&self, plan: &mut Plan, new: &NewOrder) -> Result<Order, NotPlaced> {
        if new.cents <= 0 {
            return Err(NotPlaced::Refused("an order costs at least one cent"));
        }
        if !new.customer.contains('@') || new.customer.len() > 254 {
            return Err(NotPlaced::Refused("the customer is not an e-mail address"));
        }
        let NewOrder { id, customer, cents } = new.clone();
        let order = Order { id, customer, cents, version: 1 };
        let placed = OrderPlaced { order: id, customer: order.customer.clone(), cents };
        plan.add(order.clone())?.event(&placed)?; // the row and its event, in one transaction
        Ok(order)
    }
}

/// Called for every committed `order.placed`. The confirmation and the row of the inbox are one transaction, so an order is
/// confirmed once, however often the event is handled.
pub(crate) async fn confirm(pool: PgPool, placed: OrderPlaced, cx: Context) -> handler::Result {
    // In its own task: sqlx 0.9.0 must not be dropped while it begins a transaction.
    let mut tx = tokio::spawn(async move { pool.begin().await }).await??;
    if cx.receive(&Inbox::new(), &mut tx).await? == Received::First {
        let insert = sqlx::query("INSERT INTO confirmations (order_id, customer) VALUES ($1, $2)");
        insert.bind(placed.order).bind(&placed.customer).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// The action alone, without a database: what it stages, and what it refuses.
#[cfg(test)]
mod tests {
    use postrider::action::ChangeKind;
    use postrider_testkit::{Emitted, Expected};
    use serde_json::json;

    use super::*;

    fn new(customer: &str, cents: i64) -> NewOrder {
        NewOrder { id: Uuid::now_v7(), customer: customer.to_owned(), cents }
    }

    #[tokio::test]
    async fn an_order_is_staged_with_its_event() {
        let (mut plan, new) = (Plan::for_test(), new("ann@example.org", 4200));
        let order = PlaceOrder.perform(&mut plan, &new).await.unwrap();
        assert_eq!(plan.rows_of::<Order>(ChangeKind::Add), [&order]);
        let placed = Expected::new("order.placed").aggregate("Order", new.id);
        Emitted::planned(&plan)
            .assert(&[placed.payload(json!({"customer": "ann@example.org", "cents": 4200}))]);
    }

    #[tokio::test]
    async fn an_order_that_is_not_valid_stages_nothing() {
        let far = format!("{}@example.org", "a".repeat(300));
        for new in [new("ann@example.org", 0), new("ann@example.org", i64::MIN), new("ann", 1), new(&far, 1)]
        {
            let mut plan = Plan::for_test();
            let placed = PlaceOrder.perform(&mut plan, &new).await;
            assert!(matches!(placed, Err(NotPlaced::Refused(_))), "{new:?}");
            assert!(plan.rows().is_empty() && plan.events().next().is_none());
        }
    }
}
