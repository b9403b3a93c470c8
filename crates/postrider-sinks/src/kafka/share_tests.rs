use std::cell::Cell;

use postrider_testkit::conformance::sink::{batch, message};

use super::*;

const WRITTEN: Delivery = Delivery::Written { partition: 0, offset: 0 };

/// Publishes a batch; `told` is the broker's answer for each message. Returns the outcomes as one letter each,
/// and which messages each transaction held.
fn share(messages: &[Message], reported: impl Fn(&[usize], usize) -> Delivery) -> (String, Vec<Vec<usize>>) {
    let mut transactions = Vec::new();
    let mut share = Share::new(messages, None);
    share.publish(|these| {
        transactions.push(these.to_vec());
        let reported: Vec<Delivery> = these.iter().map(|at| reported(these, *at)).collect();
        if reported.iter().all(|reported| *reported == WRITTEN) {
            Ended::Committed(reported)
        } else {
            Ended::Aborted(reported)
        }
    });
    let letter = |outcome: &Outcome| match outcome {
        Outcome::Acknowledged(_) => 'a',
        Outcome::Rejected(_) => 'r',
        Outcome::Failed(_) => 'f',
        Outcome::Down(_) => 'd',
        Outcome::Untried => '-',
        _ => '?',
    };
    (share.outcomes().iter().map(letter).collect(), transactions)
}

#[test]
fn a_batch_is_one_transaction() {
    assert_eq!(share(&batch("a", 0..3), |_, _| WRITTEN), ("aaa".into(), vec![vec![0, 1, 2]]));
}

#[test]
fn a_refused_message_stops_its_own_key_and_no_other() {
    let mut messages = batch("a", 0..4);
    messages.extend(batch("b", 0..2));
    let refused = |_: &[usize], at| match at {
        2 => Delivery::Not(Answer::UnknownTopic),
        _ => WRITTEN,
    };
    assert_eq!(share(&messages, refused), ("aaf-aa".into(), vec![vec![0, 1, 2, 3, 4, 5], vec![0, 1, 4, 5]]));
}

#[test]
fn of_messages_refused_together_the_cause_is_found() {
    let mut messages: Vec<Message> = (0..6).map(|n| message(&format!("key-{n}"), 0)).collect();
    messages.extend(batch("key-4", 1..3));
    let together = |these: &[usize], _| match these.contains(&4) {
        true => Delivery::Not(Answer::MessageSizeTooLarge),
        false => WRITTEN,
    };
    let (outcomes, transactions) = share(&messages, together);
    assert_eq!(outcomes, "aaaara--");
    assert!(transactions.len() <= 7, "{transactions:?}");
}

#[test]
fn an_aborted_batch_without_a_cause_counts_no_attempt() {
    let lost = |_: &[usize], at| match at {
        1 => Delivery::Not(Answer::MessageTimedOut),
        _ => Delivery::Not(Answer::PurgeInflight),
    };
    assert_eq!(share(&batch("a", 0..3), lost), ("ddd".into(), vec![vec![0, 1, 2]]));
}

#[test]
fn messages_that_the_client_purged_without_a_reason_are_retried_a_few_times() {
    let left = Cell::new(3);
    let purged = |_: &[usize], _| match left.replace(left.get().max(1) - 1) {
        0 => WRITTEN,
        _ => Delivery::Not(Answer::PurgeQueue),
    };
    assert_eq!(share(&batch("a", 0..1), purged).0, "a");
    let (outcomes, transactions) = share(&batch("a", 0..1), |_, _| Delivery::Not(Answer::PurgeQueue));
    assert_eq!((&*outcomes, transactions.len()), ("d", AGAIN_MAX + 1));
}
