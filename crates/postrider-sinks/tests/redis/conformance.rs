//! The suite every sink passes, with and without fencing.

use std::sync::Arc;

use bytes::Bytes;
use postrider::BoxFuture;
use postrider::sink::Sink;
use postrider_testkit::conformance::sink::cases::an_outage_counts_against_no_message_and_delivery_resumes;
use postrider_testkit::conformance::sink::{Hook, Seen, SinkUnderTest};
use postrider_testkit::servers::redis::{Entry, Redis, shared};

use super::stream::{LEASE, config, name, open};

/// A stream on the shared server; without a server, a sink that stores nothing.
struct Fixture<const FENCED: bool> {
    redis: Option<&'static Redis>,
    stream: String,
    sink: Arc<dyn Sink>,
}

impl<const FENCED: bool> SinkUnderTest for Fixture<FENCED> {
    async fn fresh() -> Self {
        let stream = name("conformance");
        let Some(redis) = shared() else {
            return Self { redis: None, stream, sink: Arc::new(postrider_sinks::Null::new()) };
        };
        let mut config = config(redis).stream(&stream).message_bytes_max(2 << 20);
        config.fence = FENCED.then(|| format!("fence-{stream}"));
        let sink = open(&config);
        sink.take_over(LEASE).await.unwrap();
        Self { redis: Some(redis), stream, sink }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::clone(&self.sink)
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let Some(redis) = self.redis else { return Box::pin(std::future::ready(Hook::NotSupported)) };
        Box::pin(async { Hook::Done(redis.read(&self.stream).into_iter().map(seen).collect()) })
    }

    /// Larger than the configured limit.
    fn refused_body(&self) -> Hook<Bytes> {
        if self.redis.is_some() { Hook::Done(vec![b'x'; 2 << 20].into()) } else { Hook::NotSupported }
    }
}

/// A private server that can be stopped.
struct Stoppable {
    server: Option<(Redis, Arc<dyn Sink>)>,
    stream: String,
}

impl SinkUnderTest for Stoppable {
    async fn fresh() -> Self {
        let stream = name("stoppable");
        let Some(redis) = Redis::private() else { return Self { server: None, stream } };
        let sink = open(&config(&redis).stream(&stream));
        Self { server: Some((redis, sink)), stream }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        match &self.server {
            Some((_, sink)) => sink.clone(),
            None => Arc::new(postrider_sinks::Null::new()),
        }
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let entries = self.server.as_ref().map(|(redis, _)| redis.read(&self.stream));
        let seen = |entries: Vec<Entry>| Hook::Done(entries.into_iter().map(seen).collect());
        Box::pin(std::future::ready(entries.map_or(Hook::NotSupported, seen)))
    }

    fn outage(&self, down: bool) -> BoxFuture<'_, Hook<()>> {
        let Some((redis, _)) = &self.server else {
            return Box::pin(std::future::ready(Hook::NotSupported));
        };
        if down {
            redis.stop()
        } else {
            redis.start()
        }
        Box::pin(std::future::ready(Hook::Done(())))
    }
}

fn seen(entry: Entry) -> Seen {
    let header = |(name, value): (String, Vec<u8>)| (name, String::from_utf8(value).unwrap());
    let (body, headers): (Vec<_>, Vec<_>) = entry.fields.into_iter().partition(|(name, _)| name == "body");
    Seen { body: body[0].1.clone().into(), headers: Some(headers.into_iter().map(header).collect()) }
}

mod plain {
    postrider_testkit::sink_conformance!(super::Fixture<false>);
}

mod fenced {
    postrider_testkit::sink_conformance!(super::Fixture<true>);
}

#[tokio::test]
async fn a_stopped_server_counts_against_no_message_and_delivery_resumes() {
    an_outage_counts_against_no_message_and_delivery_resumes::<Stoppable>().await;
}
