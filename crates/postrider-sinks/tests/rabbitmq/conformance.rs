//! The suite every sink passes, with a quorum queue and with a classic one.

use std::sync::Arc;

use bytes::Bytes;
use postrider::BoxFuture;
use postrider::sink::Sink;
use postrider_testkit::conformance::sink::cases::an_outage_counts_against_no_message_and_delivery_resumes;
use postrider_testkit::conformance::sink::{Hook, Seen, SinkUnderTest};
use postrider_testkit::servers::rabbitmq::{Delivery, RabbitMq, shared};

use super::queue::{config, name, open};

/// A queue on the shared server; without a server, a sink that stores nothing.
struct Fixture<const QUORUM: bool> {
    server: Option<&'static RabbitMq>,
    queue: String,
    sink: Arc<dyn Sink>,
}

impl<const QUORUM: bool> SinkUnderTest for Fixture<QUORUM> {
    async fn fresh() -> Self {
        let queue = name("conformance");
        let Some(server) = shared() else {
            return Self { server: None, queue, sink: Arc::new(postrider_sinks::Null::new()) };
        };
        server.create_queue(&queue, if QUORUM { &["x-queue-type=quorum"] } else { &[] });
        let config = config(server, &queue).message_bytes_max(1_500_000);
        Self { server: Some(server), sink: open(&config), queue }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::clone(&self.sink)
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let Some(server) = self.server else { return Box::pin(std::future::ready(Hook::NotSupported)) };
        Box::pin(async { Hook::Done(server.read(&self.queue).into_iter().map(seen).collect()) })
    }

    /// Larger than the sink's limit.
    fn refused_body(&self) -> Hook<Bytes> {
        if self.server.is_some() { Hook::Done(vec![b'x'; 2 << 20].into()) } else { Hook::NotSupported }
    }
}

/// A private server that can be stopped.
struct Stoppable {
    server: Option<(Arc<RabbitMq>, Arc<dyn Sink>)>,
    queue: String,
}

impl SinkUnderTest for Stoppable {
    async fn fresh() -> Self {
        let queue = name("stoppable");
        let Some(server) = RabbitMq::private() else { return Self { server: None, queue } };
        server.create_queue(&queue, &[]);
        let sink = open(&config(&server, &queue));
        Self { server: Some((Arc::new(server), sink)), queue }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        match &self.server {
            Some((_, sink)) => sink.clone(),
            None => Arc::new(postrider_sinks::Null::new()),
        }
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let read = self.server.as_ref().map(|(server, _)| server.read(&self.queue));
        let seen = |read: Vec<Delivery>| Hook::Done(read.into_iter().map(seen).collect());
        Box::pin(std::future::ready(read.map_or(Hook::NotSupported, seen)))
    }

    fn outage(&self, down: bool) -> BoxFuture<'_, Hook<()>> {
        let Some((server, _)) = &self.server else {
            return Box::pin(std::future::ready(Hook::NotSupported));
        };
        let server = server.clone();
        // In another thread, so that the client notices it.
        let change = move || if down { server.stop() } else { server.start() };
        Box::pin(async move {
            tokio::task::spawn_blocking(change).await.unwrap();
            Hook::Done(())
        })
    }
}

fn seen(delivery: Delivery) -> Seen {
    Seen { body: delivery.body.into(), headers: Some(delivery.headers.into_iter().collect()) }
}

mod quorum {
    postrider_testkit::sink_conformance!(super::Fixture<true>);
}

mod classic {
    postrider_testkit::sink_conformance!(super::Fixture<false>);
}

#[tokio::test]
async fn a_stopped_server_counts_against_no_message_and_delivery_resumes() {
    an_outage_counts_against_no_message_and_delivery_resumes::<Stoppable>().await;
}
