//! A bad message and a stream that cannot be used affect no other message, and no later one of their key is added.

use std::num::NonZeroU64;

use postrider::sink::{Message, Sink};
use postrider_testkit::conformance::sink::letters;
use postrider_testkit::servers::redis::{PASSWORD, USER_WITH_FEW_RIGHTS, shared};

use super::stream::{bodies, config, name, open, to};

#[tokio::test]
async fn a_key_of_another_type_fails_its_messages_and_stops_their_keys_and_no_others() {
    let Some(redis) = shared() else { return };
    let (good, wrong) = (name("good"), name("wrong"));
    redis.command(&["SET", &wrong, "text"]);
    let sink = open(&config(redis));
    let batch = [
        to(&good, "a", 0),
        to(&wrong, "a", 1),
        to(&good, "a", 2),
        to(&good, "b", 0),
        to(&wrong, "a", 3),
        to(&good, "b", 1),
    ];
    let outcomes = sink.publish(&batch).await;
    assert_eq!(letters(&outcomes), "af-a-a", "{outcomes:?}");
    assert_eq!(bodies(&redis.read(&good)), ["a 0", "b 0", "b 1"]);
    assert!(format!("{outcomes:?}").contains("is not a stream"), "{outcomes:?}");
}

/// More than one script: an error in the first stops the key in the second.
#[tokio::test]
async fn a_key_that_stopped_in_one_script_stays_stopped_in_the_next() {
    let Some(redis) = shared() else { return };
    let (good, wrong) = (name("good"), name("wrong"));
    redis.command(&["SET", &wrong, "text"]);
    let sink = open(&config(redis));
    let mut batch: Vec<Message> = (0..1_200).map(|n| to(&good, ["a", "b"][n % 2], n)).collect();
    batch[400] = to(&wrong, "a", 400);
    let outcomes = letters(&sink.publish(&batch).await);
    let expected: String = (0..1_200)
        .map(|n| match n {
            400 => 'f',
            n if n > 400 && n % 2 == 0 => '-',
            _ => 'a',
        })
        .collect();
    assert_eq!(outcomes, expected);
    assert_eq!(redis.read(&good).len(), 800);
}

#[tokio::test]
async fn a_stream_that_this_user_may_not_use_fails_its_messages_and_no_others() {
    let Some(redis) = shared() else { return };
    let (allowed, other) = (name("allowed"), name("forbidden"));
    let sink = open(&config(redis).user(USER_WITH_FEW_RIGHTS, PASSWORD));
    let batch = [
        to(&allowed, "a", 0),
        to(&other, "b", 0),
        to(&other, "b", 1),
        to(&allowed, "a", 1),
        to(&allowed, "b", 2),
    ];
    let outcomes = sink.publish(&batch).await;
    assert_eq!(letters(&outcomes), "af-a-", "{outcomes:?}");
    assert_eq!(bodies(&redis.read(&allowed)), ["a 0", "a 1"]);
    assert!(redis.read(&other).is_empty());
}

#[tokio::test]
async fn a_missing_stream_is_created_only_if_configured() {
    let Some(redis) = shared() else { return };
    let stream = name("missing");
    let strict = open(&config(redis).create_streams(false));
    let outcomes = strict.publish(&[to(&stream, "a", 0)]).await;
    assert_eq!(letters(&outcomes), "f", "{outcomes:?}");
    assert!(format!("{outcomes:?}").contains("does not exist"), "{outcomes:?}");
    assert_eq!(letters(&open(&config(redis)).publish(&[to(&stream, "a", 0)]).await), "a");
    assert_eq!(letters(&strict.publish(&[to(&stream, "a", 1)]).await), "a");
    assert_eq!(bodies(&redis.read(&stream)), ["a 0", "a 1"]);
}

#[tokio::test]
async fn a_stream_is_trimmed_to_about_its_maximum_length() {
    let Some(redis) = shared() else { return };
    let stream = name("trimmed");
    let sink = open(&config(redis).max_len(NonZeroU64::new(100)));
    let batch: Vec<Message> = (0..1_000).map(|number| to(&stream, "a", number)).collect();
    assert_eq!(letters(&sink.publish(&batch).await), "a".repeat(1_000));
    let kept = bodies(&redis.read(&stream));
    assert!((100..400).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().map(String::as_str), Some("a 999"));
}

/// Names that could be taken for parts of a command or of the script.
#[tokio::test]
async fn names_and_values_of_an_event_are_data_and_nothing_else() {
    let Some(redis) = shared() else { return };
    let unique = name("");
    let sink = open(&config(redis));
    for stream in [
        "'*', 'x'\r\nFLUSHALL",
        "NOMKSTREAM",
        "MAXLEN",
        "]] redis.call('FLUSHALL') --",
        "größe 世界",
        "\u{0}",
    ] {
        let stream = format!("{stream}{unique}");
        let outcomes = sink.publish(&[to(&stream, "*", 0), to(&stream, "!ERR", 1)]).await;
        assert_eq!(letters(&outcomes), "aa", "{stream}: {outcomes:?}");
    }
    assert_eq!(
        letters(&sink.publish(&[to("", "a", 0), to(&unique, "a", 1), to(&unique, "b", 0)]).await),
        "r-a"
    );
}
