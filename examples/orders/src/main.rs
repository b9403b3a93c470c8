//! An order service: axum, PostgreSQL, an action, a handler, and a relay to Kafka, in one process.
//!
//! `cargo run -p postrider-orders-example` with PostgreSQL and Kafka on this machine; `config.rs` lists the settings.

mod config;
mod http;
mod orders;

use anyhow::Result;
use axum::Router;
use postrider::action::{Executor, SqlxRepository};
use postrider::relay::Policy;
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::{Relay, Subscription};
use postrider_sinks::kafka::{Kafka, KafkaConfig};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use config::Config;
use http::Shop;
use orders::{PlaceOrder, confirm};

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().init();
    let config = Config::from_env()?;

    // The tables. In production the owner of the database creates them, and the service has fewer rights.
    let database = PostgresConfig::new(&config.database_url)?;
    PostgresStore::migrate(&database).await?;
    let pool = PgPool::connect(&config.database_url).await?;
    sqlx::raw_sql(include_str!("../schema.sql")).execute(&pool).await?;

    // Two subscriptions, each with its own progress: the handler, and Kafka.
    let policy = Policy::default().lease(config.lease);
    let handling = pool.clone();
    let confirmation =
        Subscription::handler("confirmation", move |placed, cx| confirm(handling.clone(), placed, cx));
    let kafka = Kafka::open(&KafkaConfig::new(&config.kafka_brokers).topic(&config.kafka_topic))?;
    let publication = Subscription::new("kafka", kafka);
    let subscriptions = [confirmation.policy(policy.clone()), publication.policy(policy)];
    let store = PostgresStore::connect(&database).await?;
    let outbox = store.outbox(); // writes where the relay reads
    let relay = Relay::builder().outbox(store, subscriptions).spawn().await?;

    // Requests execute the action; each commit wakes the relay.
    let orders = SqlxRepository::new(pool.clone());
    let waking = relay.handle();
    let executor = Executor::builder(pool.clone())
        .namespace("com.example.orders")
        .outbox(outbox)
        .repository(orders.clone())
        .action(PlaceOrder)
        .wake(move || waking.wake())
        .build()?;
    let shop = Shop { pool, orders, executor, relay: relay.handle() };

    let listener = TcpListener::bind(config.listen).await?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    let mut terminated = signal(SignalKind::terminate())?;
    let stopped = async move {
        tokio::select! { _ = terminated.recv() => {}, _ = tokio::signal::ctrl_c() => {} }
    };
    serve(listener, http::router(shop), relay, stopped).await?;
    tracing::info!("stopped");
    Ok(())
}

/// Serves requests until the service is stopped. First the requests in progress end, then the events in flight.
async fn serve(
    listener: TcpListener,
    router: Router,
    mut relay: Relay,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let serving = axum::serve(listener, router).with_graceful_shutdown(stopped);
    let served = tokio::select! {
        served = serving.into_future() => served.map_err(Into::into),
        // A bug: a subscription is not served any more. The service ends, and whatever supervises it starts it again.
        panicked = relay.panicked() => Err(panicked.into()),
    };
    let settled = relay.shutdown().await;
    served.and(settled.map_err(Into::into))
}

#[cfg(test)]
mod tests {
    use postrider::BoxFuture;
    use postrider::sink::{Capabilities, Message, Outcome, Sink};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A sink that panics in the task of its subscription: it is asked once before.
    #[derive(Default)]
    struct Panicking(AtomicUsize);

    impl Sink for Panicking {
        fn publish<'a>(&'a self, _: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
            Box::pin(std::future::ready(Vec::new()))
        }

        fn capabilities(&self) -> Capabilities {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) == 0, "a bug");
            Capabilities::default()
        }
    }

    #[tokio::test]
    async fn the_service_ends_with_an_error_if_its_relay_panics() {
        let Some(url) = postrider_testkit::servers::postgres::url() else { return };
        let database = PostgresConfig::new(url).unwrap();
        PostgresStore::migrate(&database).await.unwrap();
        let store = PostgresStore::connect(&database).await.unwrap();
        let subscription = Subscription::new("panicking", Panicking::default());
        let relay = Relay::builder().outbox(store, [subscription]).spawn().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ended = serve(listener, Router::new(), relay, std::future::pending()).await.unwrap_err();
        assert!(ended.to_string().contains("panicked"), "{ended:#}");
    }
}
