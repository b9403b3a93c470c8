//! The cases. Each one gets a new sink and asserts one sentence of the contract.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use postrider::Headers;
use postrider::sink::{Message, Outcome, Sink};

use super::{Hook, HotKeys, Seen, SinkUnderTest, Twice, batch, message, message_with};

const KEYS: [&str; 3] = ["a", "b", "c"];

/// An empty batch is allowed.
pub async fn an_empty_batch_has_no_outcomes<S: SinkUnderTest>() {
    let world = S::fresh().await;
    assert_eq!(world.sink().publish(&[]).await, []);
    assert_seen(&world, &[]).await;
}

/// The reader sees every acknowledged message, and no other.
pub async fn acknowledged_means_readable<S: SinkUnderTest>() {
    let world = S::fresh().await;
    let messages: Vec<Message> = KEYS.iter().map(|key| message(key, 0)).collect();
    publish_all(&*world.sink(), &messages).await;
    assert_seen(&world, &messages).await;
}

/// Outcomes are in the order of the messages, even if one of them is refused.
pub async fn each_message_has_one_outcome_in_the_batchs_order<S: SinkUnderTest>() {
    let world = S::fresh().await;
    let mut messages: Vec<Message> = KEYS.iter().map(|key| message(key, 0)).collect();
    if let Hook::Done(body) = world.refused_body() {
        messages.insert(1, message_with("refused", 0, body, Headers::default()));
    }
    let outcomes = world.sink().publish(&messages).await;
    assert_eq!(outcomes.len(), messages.len());
    for (message, outcome) in messages.iter().zip(&outcomes) {
        let refused = message.key() == Some("refused");
        assert_eq!(matches!(outcome, Outcome::Rejected(_)), refused, "{outcomes:?}");
    }
    let acknowledged: Vec<Message> = acknowledged(&messages, &outcomes).cloned().collect();
    assert_seen(&world, &acknowledged).await;
}

/// The reader sees the messages of a key in the order in which they were published.
pub async fn the_order_of_a_key_is_kept<S: SinkUnderTest>() {
    let world = S::fresh().await;
    let sink = world.sink();
    let per_batch = if sink.capabilities().prefix_safe { 50 } else { 1 };
    let mut published = Vec::new();
    for round in 0..5 {
        let numbers = round * per_batch..(round + 1) * per_batch;
        let messages: Vec<Message> =
            numbers.flat_map(|number| KEYS.iter().map(move |key| message(key, number))).collect();
        publish_all(&*sink, &messages).await;
        published.extend(messages);
    }
    assert_seen(&world, &published).await;
}

/// A body of the maximum size is not truncated.
pub async fn a_large_body_arrives_whole<S: SinkUnderTest>() {
    let world = S::fresh().await;
    let size = world.large_body_bytes();
    let body: Vec<u8> = (0..size).map(|at| b'a' + u8::try_from(at % 26).unwrap_or(0)).collect();
    let messages = [message_with("large", 0, body, Headers::default()), message("small", 0)];
    publish_all(&*world.sink(), &messages).await;
    assert_seen(&world, &messages).await;
}

/// Header values may contain any text.
pub async fn headers_of_any_script_arrive<S: SinkUnderTest>() {
    let world = S::fresh().await;
    let headers = Headers::from_iter([
        ("plain", "value"),
        ("empty", ""),
        ("unicode", "Grüße, 世界, 🐎"),
        ("marks", "a=b; c=\"d\", \\e:%20"),
        ("binary-as-text", "\u{80}\u{ff}\u{fffd}\u{10ffff}"),
    ]);
    let messages = [message_with("headers", 0, "{}", headers.clone())];
    publish_all(&*world.sink(), &messages).await;
    let Hook::Done(seen) = world.seen().await else { return };
    assert_eq!(seen.len(), 1);
    for (name, value) in headers.iter() {
        if let Some(found) = seen.first().and_then(|seen| seen.headers.as_ref()) {
            assert_eq!(found.get(name), Some(value), "header {name}");
        }
    }
}

/// The destination keeps one of them or both, as it declares.
pub async fn an_event_published_twice_is_seen_as_declared<S: SinkUnderTest>() {
    let world = S::fresh().await;
    let messages = [message("a", 0)];
    publish_all(&*world.sink(), &messages).await;
    publish_all(&*world.sink(), &messages).await;
    let Hook::Done(seen) = world.seen().await else { return };
    let expected = match world.twice() {
        Twice::SeenTwice => 2,
        Twice::SeenOnce => 1,
    };
    assert_eq!(seen.len(), expected, "{seen:?}");
}

/// Several concurrent batches with different keys: all messages arrive, in order per key.
pub async fn batches_at_the_same_time_do_not_mix<S: SinkUnderTest>() {
    let world = S::fresh().await;
    let per_batch = if world.sink().capabilities().prefix_safe { 40 } else { 1 };
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let sink = world.sink();
            tokio::spawn(async move {
                let mut published = Vec::new();
                for round in 0..5 {
                    let numbers = round * per_batch..(round + 1) * per_batch;
                    let messages = batch(&format!("writer-{writer}"), numbers);
                    publish_all(&*sink, &messages).await;
                    published.extend(messages);
                }
                published
            })
        })
        .collect();
    let mut published = Vec::new();
    for writer in writers {
        match writer.await {
            Ok(messages) => published.extend(messages),
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }
    assert_seen(&world, &published).await;
}

/// The relay drops a publish future after its timeout. The messages may have arrived or not; later batches succeed.
pub async fn a_dropped_future_leaves_the_sink_usable<S: SinkUnderTest>() {
    let world = S::fresh().await;
    let sink = world.sink();
    let (mut dropped, mut published) = (Vec::new(), Vec::new());
    for round in 0..20 {
        let messages = vec![message(&format!("dropped-{round}"), 0)];
        poll_and_drop(&*sink, &messages).await;
        dropped.extend(messages);
        let messages = vec![message("kept", round)];
        publish_all(&*sink, &messages).await;
        published.extend(messages);
    }
    let Hook::Done(seen) = world.seen().await else { return };
    let (of_dropped, of_kept): (Vec<Seen>, Vec<Seen>) =
        seen.into_iter().partition(|seen| dropped.iter().any(|message| message.body == seen.body));
    assert!(of_dropped.len() <= dropped.len(), "a dropped message was written twice");
    assert_eq!(bodies(&of_kept), bodies_of(&published));
}

/// For a sink that declares `prefix_safe`.
pub async fn after_a_refused_message_no_later_one_of_its_key_is_seen<S: SinkUnderTest>() {
    let world = S::fresh().await;
    let Hook::Done(body) = world.refused_body() else { return };
    let sink = world.sink();
    if !sink.capabilities().prefix_safe {
        return;
    }
    let mut messages = batch("a", 0..10);
    messages.insert(4, message_with("a", 4, body, Headers::default()));
    let outcomes = sink.publish(&messages).await;
    assert_eq!(outcomes.len(), messages.len());
    assert!(matches!(outcomes.get(4), Some(Outcome::Rejected(_))), "{outcomes:?}");
    // A destination with transactions may accept none of the first four, but never one after the gap.
    let good = outcomes.iter().take_while(|o| matches!(o, Outcome::Acknowledged(_))).count();
    assert_eq!(acknowledged(&messages, &outcomes).count(), good, "{outcomes:?}");
    messages.truncate(good);
    assert_seen(&world, &messages).await;
}

/// While the destination is down, no message is acknowledged and none is blamed. Afterwards, delivery continues.
pub async fn an_outage_counts_against_no_message_and_delivery_resumes<S: SinkUnderTest>() {
    let world = S::fresh().await;
    let sink = world.sink();
    let per_batch = if sink.capabilities().prefix_safe { 10 } else { 1 };
    let (before, during) = (batch("a", 0..per_batch), batch("a", per_batch..2 * per_batch));
    publish_all(&*sink, &before).await;
    if world.outage(true).await == Hook::NotSupported {
        return;
    }
    let outcomes = sink.publish(&during).await;
    assert_eq!(outcomes.len(), during.len());
    let blamed =
        |o: &Outcome| matches!(o, Outcome::Acknowledged(_) | Outcome::Failed(_) | Outcome::Rejected(_));
    assert!(!outcomes.iter().any(blamed), "{outcomes:?}");
    let _ = world.outage(false).await;
    publish_all(&*sink, &during).await;

    let Hook::Done(seen) = world.seen().await else { return };
    let mut expected = bodies_of(&before);
    expected.extend(bodies_of(&during));
    if outcomes.iter().any(|o| matches!(o, Outcome::Ambiguous(_))) {
        // A possible duplicate is allowed; the last copy of each message is in order.
        assert!(bodies(&seen).ends_with(&bodies_of(&during)), "{seen:?}");
    } else {
        // An incomplete message of the outage may remain, but never one that appears complete.
        let whole: Vec<Bytes> = bodies(&seen).into_iter().filter(|body| expected.contains(body)).collect();
        assert_eq!(whole, expected);
    }
}

/// Many messages of few keys are in flight when the destination goes down: the reader sees each, in the order of its key.
pub async fn hot_keys_keep_their_order_through_an_outage<S: SinkUnderTest>() {
    let world = S::fresh().await;
    let messages = (0..200).flat_map(|number| (0..20).map(move |key| message(&format!("hot-{key}"), number)));
    let hot_keys = Arc::new(HotKeys::new(messages.collect()));
    let (publisher, sink) = (hot_keys.clone(), world.sink());
    let published = tokio::spawn(async move { publisher.publish(&sink).await });
    hot_keys.reaches(|progress| progress.acknowledged > 0).await;
    if world.outage(true).await == Hook::NotSupported {
        return;
    }
    hot_keys.reaches(|progress| progress.unanswered > 0 || progress.acknowledged == 4_000).await;
    let _ = world.outage(false).await;
    let rejected = published.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()));
    assert_eq!(rejected.len(), 0);
    let Hook::Done(seen) = world.seen().await else { return };
    let verdict = hot_keys.verify(seen.iter().map(|seen| &seen.body[..]), &rejected);
    assert!(verdict.is_clean(), "{verdict}");
}

/// Publishes the messages and asserts that each is acknowledged.
async fn publish_all(sink: &dyn Sink, messages: &[Message]) {
    let outcomes = sink.publish(messages).await;
    assert_eq!(outcomes.len(), messages.len());
    assert!(outcomes.iter().all(|o| matches!(o, Outcome::Acknowledged(_))), "{outcomes:?}");
}

/// Polls a publish future once and drops it.
async fn poll_and_drop(sink: &dyn Sink, messages: &[Message]) {
    let mut publish = sink.publish(messages);
    std::future::poll_fn(|context| {
        let _ = publish.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
}

/// Asserts that the reader sees these messages and no others, each key in this order.
async fn assert_seen<S: SinkUnderTest>(world: &S, published: &[Message]) {
    let Hook::Done(seen) = world.seen().await else { return };
    assert_eq!(seen.len(), published.len(), "messages seen and published");
    let mut keys: Vec<Option<&str>> = published.iter().map(Message::key).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let of_key: Vec<Message> = published.iter().filter(|message| message.key() == key).cloned().collect();
        let expected = bodies_of(&of_key);
        let found: Vec<Bytes> = bodies(&seen).into_iter().filter(|body| expected.contains(body)).collect();
        assert!(found == expected, "key {key:?} is not seen as published: {found:?}");
    }
}

fn acknowledged<'a>(messages: &'a [Message], outcomes: &'a [Outcome]) -> impl Iterator<Item = &'a Message> {
    let pairs = messages.iter().zip(outcomes);
    pairs.filter(|(_, outcome)| matches!(outcome, Outcome::Acknowledged(_))).map(|(message, _)| message)
}

fn bodies(seen: &[Seen]) -> Vec<Bytes> {
    seen.iter().map(|seen| seen.body.clone()).collect()
}

fn bodies_of(messages: &[Message]) -> Vec<Bytes> {
    messages.iter().map(|message| message.body.clone()).collect()
}
