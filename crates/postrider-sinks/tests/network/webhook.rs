//! The webhook sink, to an endpoint in Python with its own verification of signatures.

use std::time::Duration;

use postrider_sinks::webhook::{Webhook, WebhookConfig};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::endpoint::{Endpoint, Request, SECRET};
use postrider_testkit::verify::Sighting;

use super::through::all_troubles;

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_receives_everything_through_every_network_fault_and_no_attempt_is_counted() {
    let Some(endpoint) = Endpoint::private() else { return };
    let proxy = Proxy::to(endpoint.port()).await.unwrap();
    let mut config = WebhookConfig::new(format!("http://{}/hook", proxy.address())).secret(SECRET).unwrap();
    config.allow_networks = vec!["127.0.0.0/8".into()];
    config.timeout = Duration::from_secs(2);
    let seen = || endpoint.received().iter().map(sighting).collect();
    all_troubles("webhook", &proxy, Webhook::open(&config).unwrap(), seen).await;
}

fn sighting(request: &Request) -> Sighting {
    Sighting {
        id: request.id.parse().unwrap(),
        key: request.header("postrider-key").unwrap().to_owned(),
        version: std::str::from_utf8(&request.body).unwrap().parse().unwrap(),
    }
}
