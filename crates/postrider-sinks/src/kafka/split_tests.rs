use std::cell::Cell;

use postrider_testkit::conformance::sink::{batch, message};

use super::*;

const WRITTEN: Delivery = Delivery::Written { partition: 0, offset: 0 };

/// Publishes a batch; `reported` is the delivery report of each message. Returns one letter per outcome, and the
/// messages of each transaction.
fn split(messages: &[Message], reported: impl Fn(&[usize], usize) -> Delivery) -> (String, Vec<Vec<usize>>) {
    let mut transactions = Vec::new();
    let mut split = TransactionSplit::new(messages, None);
    split.publish(|indices| {
        transactions.push(indices.to_vec());
        let reported: Vec<Delivery> = indices.iter().map(|at| reported(indices, *at)).collect();
        if reported.iter().all(|reported| *reported == WRITTEN) {
            TransactionResult::Committed(reported)
        } else {
            TransactionResult::Aborted(reported)
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
    (split.outcomes().iter().map(letter).collect(), transactions)
}

#[test]
fn a_batch_is_one_transaction() {
    assert_eq!(split(&batch("a", 0..3), |_, _| WRITTEN), ("aaa".into(), vec![vec![0, 1, 2]]));
}

#[test]
fn a_refused_message_stops_its_own_key_and_no_other() {
    let mut messages = batch("a", 0..4);
    messages.extend(batch("b", 0..2));
    let refused = |_: &[usize], at| match at {
        2 => Delivery::Failed(ErrorCode::UnknownTopic),
        _ => WRITTEN,
    };
    assert_eq!(split(&messages, refused), ("aaf-aa".into(), vec![vec![0, 1, 2, 3, 4, 5], vec![0, 1, 4, 5]]));
}

#[test]
fn of_messages_refused_together_the_cause_is_found() {
    let mut messages: Vec<Message> = (0..6).map(|n| message(&format!("key-{n}"), 0)).collect();
    messages.extend(batch("key-4", 1..3));
    let together = |indices: &[usize], _| match indices.contains(&4) {
        true => Delivery::Failed(ErrorCode::MessageSizeTooLarge),
        false => WRITTEN,
    };
    let (outcomes, transactions) = split(&messages, together);
    assert_eq!(outcomes, "aaaara--");
    assert!(transactions.len() <= 7, "{transactions:?}");
}

#[test]
fn an_aborted_batch_without_a_refused_message_counts_against_no_message() {
    let lost = |_: &[usize], at| match at {
        1 => Delivery::Failed(ErrorCode::MessageTimedOut),
        _ => Delivery::Failed(ErrorCode::PurgeInflight),
    };
    assert_eq!(split(&batch("a", 0..3), lost), ("ddd".into(), vec![vec![0, 1, 2]]));
}

#[test]
fn messages_that_the_client_purged_are_retried_a_few_times() {
    let left = Cell::new(3);
    let purged = |_: &[usize], _| match left.replace(left.get().max(1) - 1) {
        0 => WRITTEN,
        _ => Delivery::Failed(ErrorCode::PurgeQueue),
    };
    assert_eq!(split(&batch("a", 0..1), purged).0, "a");
    let (outcomes, transactions) = split(&batch("a", 0..1), |_, _| Delivery::Failed(ErrorCode::PurgeQueue));
    assert_eq!((&*outcomes, transactions.len()), ("d", RETRIES_MAX + 1));
}
