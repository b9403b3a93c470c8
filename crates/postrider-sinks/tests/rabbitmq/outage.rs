//! The server stopped, killed, suspended, and with a full disk.

use std::time::{Duration, Instant};

use postrider::sink::Sink;
use postrider_testkit::conformance::sink::{batch, message};
use postrider_testkit::servers::rabbitmq::RabbitMq;

use super::queue::{config, letters, name, open, texts};

type Change = fn(&RabbitMq);
const OUTAGES: [(&str, Change, Change); 3] = [
    ("stopped", RabbitMq::stop, RabbitMq::start),
    ("killed", RabbitMq::kill, RabbitMq::start),
    ("suspended", RabbitMq::pause, RabbitMq::resume),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_counts_against_no_message_and_the_sink_recovers_soon_after_the_server() {
    let Some(server) = RabbitMq::private() else { return };
    let queue = name("outage");
    server.create_queue(&queue, &["x-queue-type=quorum"]);
    let sink = open(&config(&server, &queue).confirm_timeout(Duration::from_secs(2)));
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
    let mut seen = texts(&server.read(&queue));
    seen.retain(|text| text.contains("\"a\""));
    seen.dedup();
    let expected: Vec<String> =
        [0, 1, 10, 11, 20, 21].map(|number| format!("{{\"key\":\"a\",\"number\":{number}}}")).into();
    assert_eq!(seen, expected, "each once or again at once, in order");

    server.restart_with_full_disk(true);
    let first = sink.publish(&batch("c", 0..1)).await;
    let second = sink.publish(&batch("c", 0..1)).await;
    // The server reports that it is full when a connection publishes for the first time.
    assert!(["D", "d"].contains(&&*letters(&first)), "{first:?}");
    assert_eq!(letters(&second), "d", "{second:?}");
    assert!(format!("{second:?}").contains("blocks publishers"), "{second:?}");
    server.restart_with_full_disk(false);
    assert_eq!(letters(&sink.publish(&batch("c", 0..1)).await), "a");
}
