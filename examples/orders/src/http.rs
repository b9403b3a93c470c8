//! The HTTP interface.
//!
//! - `POST /orders {"customer": "ann@example.org", "cents": 4200}` places an order. With an `id` (a UUID) the request can be
//!   repeated: it places the order once.
//! - `GET /orders/{id}`: the order.
//! - `GET /health`: whether the service can work.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use postrider::RelayHandle;
use postrider::action::{Executor, SqlxRepository};
use serde::Deserialize;
use sqlx::{PgPool, Postgres};
use uuid::Uuid;

use crate::orders::{NewOrder, NotPlaced, Order, PlaceOrder};

/// What requests work with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) pool: PgPool,
    pub(crate) orders: SqlxRepository<Order, Postgres>,
    pub(crate) executor: Executor<PgPool>,
    pub(crate) relay: RelayHandle,
}

pub(crate) fn router(shop: Shop) -> Router {
    Router::new()
        .route("/orders", post(place))
        .route("/orders/{id}", get(show))
        .route("/health", get(health))
        .with_state(shop)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    id: Option<Uuid>,
    customer: String,
    cents: i64,
}

async fn place(State(shop): State<Shop>, Json(body): Json<Body>) -> Result<Response, ApiError> {
    let id = body.id.unwrap_or_else(Uuid::now_v7);
    let new = NewOrder { id, customer: body.customer, cents: body.cents };
    let failed = match shop.executor.execute::<PlaceOrder>(new.clone()).await {
        Ok(order) => return Ok((StatusCode::CREATED, Json(order)).into_response()),
        Err(failed) => failed,
    };
    // A client that got no answer sends its order again.
    match shop.orders.get(&id).await? {
        Some(order) if order.customer == new.customer && order.cents == new.cents => {
            Ok((StatusCode::OK, Json(order)).into_response())
        }
        Some(_) => Err(ApiError(StatusCode::CONFLICT, "another order has this id")),
        None => Err(failed.into()),
    }
}

async fn show(State(shop): State<Shop>, Path(id): Path<Uuid>) -> Result<Json<Order>, ApiError> {
    let order = shop.orders.get(&id).await?;
    order.map(Json).ok_or(ApiError(StatusCode::NOT_FOUND, "there is no such order"))
}

/// Red if the database cannot be reached. A broker that is down is no reason: orders are accepted, and their events wait.
async fn health(State(shop): State<Shop>) -> Result<&'static str, ApiError> {
    let is_connected = sqlx::query("SELECT 1").execute(&shop.pool).await.is_ok();
    let is_relaying = shop.relay.status().iter().all(|subscription| subscription.error.is_none());
    match is_connected && is_relaying {
        true => Ok("ok"),
        false => Err(ApiError(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer")),
    }
}

/// The answer to a client. It never contains the text of a database error.
struct ApiError(StatusCode, &'static str);

impl From<postrider::Error> for ApiError {
    fn from(error: postrider::Error) -> Self {
        tracing::error!(code = %error.code(), error = error.one_line(), "the request failed");
        Self(StatusCode::INTERNAL_SERVER_ERROR, "try again with the same id")
    }
}

impl From<NotPlaced> for ApiError {
    fn from(not_placed: NotPlaced) -> Self {
        match not_placed {
            NotPlaced::Refused(why) => Self(StatusCode::UNPROCESSABLE_ENTITY, why),
            NotPlaced::Failed(error) => error.into(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}
