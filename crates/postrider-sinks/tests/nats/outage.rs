//! The server stopped, killed and suspended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider::sink::Sink;
use postrider_testkit::conformance::sink::{batch, message};
use postrider_testkit::servers::nats::Nats;

use super::stream::{config, letters, message_to, name, open, texts};

type Change = fn(&Nats);
const OUTAGES: [(&str, Change, Change); 3] = [
    ("stopped", Nats::stop, Nats::start),
    ("killed", Nats::kill, Nats::start),
    ("suspended", Nats::pause, Nats::resume),
];

/// Waits until the sink is connected. The message is too large for the server, so it is not sent.
pub(crate) async fn reconnected(sink: Arc<dyn Sink>) {
    let too_large = [message_to("any", "reconnected", &"x".repeat(2 << 20))];
    for _ in 0..600 {
        if letters(&sink.publish(&too_large).await) == "r" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the client is not connected again");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_counts_against_no_message_and_the_sink_recovers_soon_after_the_server() {
    let Some(server) = Nats::private() else { return };
    let stream = name("outage");
    server.create_stream(&stream, &stream, &[]);
    let sink = open(&config(&server, &stream).ack_timeout(Duration::from_secs(2)));
    for (number, (how, down, up)) in OUTAGES.into_iter().enumerate() {
        let first = number * 10;
        assert_eq!(letters(&sink.publish(&batch("a", first..first + 1)).await), "a", "{how}");
        down(&server);
        let outcomes = sink.publish(&[message("a", first + 1), message("b", first + 1)]).await;
        assert!(["DD", "dd"].contains(&&*letters(&outcomes)), "{how}: {outcomes:?}");
        up(&server);
        let back = Instant::now();
        loop {
            let outcomes = sink.publish(&batch("a", first + 1..first + 2)).await;
            match &*letters(&outcomes) {
                "a" => break,
                "D" | "d" => assert!(back.elapsed() < Duration::from_secs(60), "{how}: {outcomes:?}"),
                _ => panic!("{how}: {outcomes:?}"),
            }
        }
        println!("{how}: acknowledged {:?} after it was back", back.elapsed());
    }
    let mut seen = texts(&server.read(&stream));
    seen.retain(|text| text.contains("\"a\""));
    let all = seen.len();
    seen.dedup();
    let expected: Vec<String> =
        [0, 1, 10, 11, 20, 21].map(|number| format!("{{\"key\":\"a\",\"number\":{number}}}")).into();
    assert_eq!(seen, expected, "each once or again at once, in order");
    println!("{} duplicates", all - expected.len());
}
