//! The suite every sink passes.

use std::sync::Arc;

use bytes::Bytes;
use postrider::BoxFuture;
use postrider::sink::Sink;
use postrider_testkit::conformance::sink::cases::an_outage_counts_against_no_message_and_delivery_resumes;
use postrider_testkit::conformance::sink::{Hook, Seen, SinkUnderTest, Twice};
use postrider_testkit::servers::nats::{Nats, Stored, shared};

use super::stream::{config, name, open};

/// A stream on the shared server; without a server, a sink that stores nothing.
struct Fixture {
    server: Option<&'static Nats>,
    stream: String,
    sink: Arc<dyn Sink>,
}

impl SinkUnderTest for Fixture {
    async fn fresh() -> Self {
        let stream = name("conformance");
        let Some(server) = shared() else {
            return Self { server: None, stream, sink: Arc::new(postrider_sinks::Null::new()) };
        };
        server.create_stream(&stream, &stream, &[]);
        Self { server: Some(server), sink: open(&config(server, &stream)), stream }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::clone(&self.sink)
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let Some(server) = self.server else { return Box::pin(std::future::ready(Hook::NotSupported)) };
        Box::pin(async { Hook::Done(server.read(&self.stream).into_iter().map(seen).collect()) })
    }

    fn twice(&self) -> Twice {
        if self.server.is_some() { Twice::SeenOnce } else { Twice::SeenTwice }
    }

    /// Larger than the server's limit.
    fn refused_body(&self) -> Hook<Bytes> {
        if self.server.is_some() { Hook::Done(vec![b'x'; 2 << 20].into()) } else { Hook::NotSupported }
    }

    /// The server's limit is one mebibyte, with the headers.
    fn large_body_bytes(&self) -> usize {
        1_000_000
    }
}

/// A private server that can be stopped.
struct Stoppable {
    server: Option<(Nats, Arc<dyn Sink>)>,
    stream: String,
}

impl SinkUnderTest for Stoppable {
    async fn fresh() -> Self {
        let stream = name("stoppable");
        let Some(server) = Nats::private() else { return Self { server: None, stream } };
        server.create_stream(&stream, &stream, &[]);
        let sink = open(&config(&server, &stream));
        Self { server: Some((server, sink)), stream }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        match &self.server {
            Some((_, sink)) => sink.clone(),
            None => Arc::new(postrider_sinks::Null::new()),
        }
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let read = self.server.as_ref().map(|(server, _)| server.read(&self.stream));
        let seen = |read: Vec<Stored>| Hook::Done(read.into_iter().map(seen).collect());
        Box::pin(std::future::ready(read.map_or(Hook::NotSupported, seen)))
    }

    fn outage(&self, down: bool) -> BoxFuture<'_, Hook<()>> {
        Box::pin(async move {
            let Some((server, sink)) = &self.server else { return Hook::NotSupported };
            if down {
                server.stop();
            } else {
                server.start();
                // The client connects again by itself, soon but not at once.
                super::outage::reconnected(sink.clone()).await;
            }
            Hook::Done(())
        })
    }
}

fn seen(message: Stored) -> Seen {
    let sent = |(name, _): &(String, String)| !name.starts_with("Nats-");
    Seen { body: message.body.into(), headers: Some(message.headers.into_iter().filter(sent).collect()) }
}

mod suite {
    postrider_testkit::sink_conformance!(super::Fixture);
}

#[tokio::test]
async fn a_stopped_server_counts_against_no_message_and_delivery_resumes() {
    an_outage_counts_against_no_message_and_delivery_resumes::<Stoppable>().await;
}
