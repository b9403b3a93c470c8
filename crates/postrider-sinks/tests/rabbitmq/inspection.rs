//! What `doctor` can see.

use postrider_sinks::rabbitmq::{Durability, NewQueue, RabbitMqConfig};
use postrider_testkit::servers::rabbitmq::shared;

use super::queue::{name, open};

#[tokio::test]
async fn an_inspection_finds_missing_exchanges_and_queues_that_one_node_stores() {
    let Some(server) = shared() else { return };
    let (quorum, classic, missing) = (name("quorum"), name("classic"), name("missing"));
    server.create_queue(&quorum, &["x-queue-type=quorum"]);
    server.create_queue(&classic, &[]);
    for (queue, expected) in [(&quorum, Durability::Quorum), (&classic, Durability::OneNode)] {
        let sink = open(&RabbitMqConfig::new(server.url()).routing_key(queue));
        let found = sink.inspect().await.unwrap();
        assert_eq!(found.queues, [(queue.clone(), expected)]);
        assert!(found.missing_queues.is_empty() && !found.is_blocked);
    }
    let sink = open(&RabbitMqConfig::new(server.url()).routing_key(&missing));
    assert_eq!(sink.inspect().await.unwrap().missing_queues, std::slice::from_ref(&missing));
    let sink = open(&RabbitMqConfig::new(server.url()).exchanges([&*missing, "amq.topic"]));
    assert_eq!(sink.inspect().await.unwrap().missing_exchanges, std::slice::from_ref(&missing));
    // Asking creates nothing, not even what the sink declares.
    for _ in 0..2 {
        let sink = open(&RabbitMqConfig::new(server.url()).declare_queue(NewQueue::classic(&missing)));
        assert_eq!(sink.inspect().await.unwrap().missing_queues, std::slice::from_ref(&missing));
    }
}
