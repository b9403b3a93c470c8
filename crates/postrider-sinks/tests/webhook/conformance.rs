//! The suite that every sink passes.

use std::sync::Arc;

use bytes::Bytes;
use postrider::sink::Sink;
use postrider::{BoxFuture, Headers};
use postrider_sinks::webhook::Webhook;
use postrider_testkit::conformance::sink::{Hook, Seen, SinkUnderTest};

use super::server::{Answer, Server, percent_decoded};

const REFUSED: &str = "this is refused";

struct Fixture {
    server: Server,
    sink: Arc<Webhook>,
}

impl SinkUnderTest for Fixture {
    async fn fresh() -> Self {
        let server = Server::start(|request| match &request.body[..] {
            body if body == REFUSED.as_bytes() => Answer::status(422),
            _ => Answer::status(204),
        })
        .await;
        Self { sink: super::sink(&server), server }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let taken = self.server.requests().into_iter().filter(|request| request.body != REFUSED);
        let seen = taken.map(|request| {
            let headers = request.headers.iter().map(|(name, value)| (name.clone(), percent_decoded(value)));
            Seen { body: request.body.clone(), headers: Some(headers.collect::<Headers>()) }
        });
        Box::pin(std::future::ready(Hook::Done(seen.collect())))
    }

    fn refused_body(&self) -> Hook<Bytes> {
        Hook::Done(REFUSED.into())
    }

    fn outage(&self, down: bool) -> BoxFuture<'_, Hook<()>> {
        Box::pin(async move {
            if down {
                self.server.stop().await;
            } else {
                self.server.start_again().await;
            }
            Hook::Done(())
        })
    }
}

postrider_testkit::sink_conformance!(Fixture);
