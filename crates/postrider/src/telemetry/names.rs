//! Every metric with its labels, and every span with its fields. Nothing else in Postrider names one: the code takes a
//! metric from here, tests compare the fields of the spans with this list, and the docs are generated from it.
//!
//! A label has a closed list of values, or is bounded by what the program registers. No label contains an event's type, key
//! or id, a topic, a URL or the text of an error: their number has no limit.

use super::metric::{Label, LabelValues, Metric, MetricKind, SpanFields};

/// From one round trip on a fast network to a lock that waited for long.
const DURATION_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// From a wake-up on a fast network to a destination that was down for a day.
const LATENCY_BUCKETS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0];

const ACTION: Label = Label {
    name: "action",
    values: LabelValues::Registered("the name of the action, one for each that the executor has registered"),
};

const OUTCOME: Label = Label {
    name: "outcome",
    values: LabelValues::Closed(&[
        ("committed", "rows and events are committed"),
        ("duplicate", "rolled back: `execute_once` found that an earlier call with its id is committed"),
        ("stale", "rolled back: another transaction changed a row in every attempt (PR-0380)"),
        ("refused", "the action returned an error; nothing was written"),
        ("failed", "rolled back: the database, the plan or an event was the reason"),
        ("unknown", "the connection was lost during the COMMIT (PR-0382)"),
        ("diverged", "committed on some shards only (PR-0389)"),
        ("dropped", "the caller stopped waiting; it is committed or rolled back as a whole"),
    ]),
};

const RETRY_REASON: Label = Label {
    name: "reason",
    values: LabelValues::Closed(&[
        ("stale", "another transaction changed a row"),
        ("busy", "a deadlock, a serialization failure or a lock timeout"),
    ]),
};

/// Executions of actions by their outcome.
pub const ACTION_EXECUTIONS: Metric = Metric {
    name: "postrider_action_executions_total",
    kind: MetricKind::Counter,
    labels: &[ACTION, OUTCOME],
    help: "Calls of execute by outcome. A call that was refused before it started is not counted.",
};

/// Attempts of actions after the first one.
pub const ACTION_RETRIES: Metric = Metric {
    name: "postrider_action_retries_total",
    kind: MetricKind::Counter,
    labels: &[ACTION, RETRY_REASON],
    help: "Attempts that were rolled back and followed by another one.",
};

/// Calls of `execute`, from the first attempt to the answer.
pub const ACTION_EXECUTE_DURATION: Metric = Metric {
    name: "postrider_action_execute_duration_seconds",
    kind: MetricKind::Seconds(DURATION_BUCKETS),
    labels: &[ACTION],
    help: "Time of a call of execute, with all attempts and the time between them.",
};

/// Calls of `perform`.
pub const ACTION_PERFORM_DURATION: Metric = Metric {
    name: "postrider_action_perform_duration_seconds",
    kind: MetricKind::Seconds(DURATION_BUCKETS),
    labels: &[ACTION],
    help: "Time in which an attempt reads and stages its changes.",
};

/// Transactions of actions.
pub const ACTION_PERSIST_DURATION: Metric = Metric {
    name: "postrider_action_persist_duration_seconds",
    kind: MetricKind::Seconds(DURATION_BUCKETS),
    labels: &[ACTION],
    help: "Time from the start to the end of the transaction of an attempt, even if it was rolled back.",
};

const fn counter(name: &'static str, labels: &'static [Label], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [Label], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Gauge, labels, help }
}

const OUTBOX: Label = Label {
    name: "outbox",
    values: LabelValues::Registered("the name of the outbox, with its shard; `default` if it has none"),
};

const SUBSCRIPTION: Label =
    Label { name: "subscription", values: LabelValues::Registered("the name of the subscription") };

const SINK: Label = Label {
    name: "sink",
    values: LabelValues::Registered("the name of the sink; that of the subscription if it has none"),
};

const PARKED_STATE: Label = Label {
    name: "state",
    values: LabelValues::Closed(&[
        ("retry", "waits for its next attempt"),
        ("behind", "waits for an earlier event of its key"),
        ("held", "waits for a destination that is down"),
        ("dead", "waits for an operator"),
        ("expired", "was not delivered in time"),
        ("unrouted", "no rule matches it"),
    ]),
};

const SUBSCRIPTION_STATE_LABEL: Label = Label {
    name: "state",
    values: LabelValues::Closed(&[
        ("leading", "a relay serves it"),
        ("no_relay", "no relay holds its lease"),
        ("paused", "an operator paused it"),
        ("halted", "the history of the database changed; an operator has to decide"),
    ]),
};

const ATTEMPT_OUTCOME: Label = Label {
    name: "outcome",
    values: LabelValues::Closed(&[
        ("acknowledged", "the destination has stored the message"),
        ("retryable", "it failed, perhaps because of the destination"),
        ("failed", "it failed because of the message"),
        ("rejected", "it can never be delivered"),
        ("ambiguous", "it is not known whether the destination has stored it"),
        ("down", "the destination is down"),
        ("untried", "it was not sent"),
        ("fenced", "another relay has taken over"),
    ]),
};

const DEAD_REASON: Label = Label {
    name: "reason",
    values: LabelValues::Closed(&[
        ("given_up", "it was rejected, or its last attempt failed"),
        ("expired", "it expired before it was delivered"),
        ("damaged", "its row cannot be read as an event"),
    ]),
};

const CLEAN: Label = Label {
    name: "clean",
    values: LabelValues::Closed(&[
        ("true", "the last owner released the lease"),
        ("false", "the last owner died or lost its lease"),
    ]),
};

const CODE: Label = Label { name: "code", values: LabelValues::ErrorCodes };

const OPERATION: Label = Label {
    name: "operation",
    values: LabelValues::Closed(&[
        ("acquire", "takes the lease and loads the progress"),
        ("renew", "renews the lease"),
        ("release", "releases the lease"),
        ("claim", "reads new events"),
        ("fetch", "reads parked events again"),
        ("settle", "records the progress"),
        ("halt", "halts the subscription"),
        ("pause", "pauses the subscription"),
    ]),
};

const OPERATOR_ACTION: Label = Label {
    name: "action",
    values: LabelValues::Closed(&[
        ("retry", "deliver again"),
        ("skip", "deliver the later events of the key"),
        ("discard", "never deliver"),
        ("kill", "give up"),
        ("replay", "deliver again what was delivered"),
        ("cleanup", "delete delivered events"),
        ("pause", "stop a subscription"),
        ("resume", "continue it"),
        ("subscribe", "add a subscription"),
        ("move", "continue a subscription at another place"),
        ("remove", "delete a subscription"),
        ("accept-history", "continue a halted subscription"),
    ]),
};

const RESULT: Label = Label {
    name: "result",
    values: LabelValues::Closed(&[("done", "it was carried out"), ("failed", "an error ended it")]),
};

const OF_SUBSCRIPTION: &[Label] = &[OUTBOX, SUBSCRIPTION];
const OF_SINK: &[Label] = &[OUTBOX, SUBSCRIPTION, SINK];

/// The age of the oldest event that a subscription still has to deliver.
pub const OLDEST_UNDELIVERED_AGE: Metric = gauge(
    "postrider_oldest_undelivered_age_seconds",
    OF_SUBSCRIPTION,
    "Age of the oldest event that may still be delivered; 0 if there is none.",
);
/// Undelivered events.
pub const BACKLOG_EVENTS: Metric = gauge(
    "postrider_backlog_events",
    OF_SUBSCRIPTION,
    "Events that are neither done nor parked, counted up to a limit.",
);
/// Whether the backlog is larger than it was counted.
pub const BACKLOG_BOUNDED: Metric = gauge(
    "postrider_backlog_bounded",
    OF_SUBSCRIPTION,
    "1 if counting the backlog stopped at its limit, so that there are more events; otherwise 0.",
);
/// Parked events.
pub const PARKED_EVENTS: Metric =
    gauge("postrider_parked_events", &[OUTBOX, SUBSCRIPTION, PARKED_STATE], "Parked events.");
/// The limit of parked events.
pub const PARKED_LIMIT: Metric = gauge(
    "postrider_parked_limit_events",
    OF_SUBSCRIPTION,
    "Number of parked events at which no new events are read.",
);
/// The state of a subscription.
pub const SUBSCRIPTION_STATE: Metric = gauge(
    "postrider_subscription_state",
    &[OUTBOX, SUBSCRIPTION, SUBSCRIPTION_STATE_LABEL],
    "1 for the state that the subscription has, 0 for the others.",
);
/// The oldest transaction that is open in the database.
pub const OLDEST_OPEN_TRANSACTION_AGE: Metric = gauge(
    "postrider_oldest_open_transaction_age_seconds",
    &[OUTBOX],
    "Age of the oldest open transaction of the database, as far as the relay's user may see it; 0 if there is none.",
);
/// How far the retention is behind.
pub const RETENTION_LAG: Metric = gauge(
    "postrider_retention_lag_seconds",
    &[OUTBOX],
    "How much older than the retention the oldest event is; 0 if it is not.",
);

/// Whether this relay holds the lease.
pub const LEASE_HELD: Metric = gauge(
    "postrider_lease_held",
    OF_SUBSCRIPTION,
    "1 if this relay holds the lease of the subscription, otherwise 0.",
);
/// The epoch of the lease.
pub const LEASE_EPOCH: Metric = gauge(
    "postrider_lease_epoch",
    OF_SUBSCRIPTION,
    "Epoch of the lease that this relay holds; 0 without it.",
);
/// Positions that may still get an event.
pub const UNDECIDED_POSITIONS: Metric = gauge(
    "postrider_undecided_positions",
    OF_SUBSCRIPTION,
    "Ranges of positions without an event that an open transaction may still fill.",
);
/// The limit of such positions.
pub const UNDECIDED_LIMIT: Metric = gauge(
    "postrider_undecided_limit_positions",
    OF_SUBSCRIPTION,
    "Number of such ranges at which no new events are read; 0 on databases without them.",
);
/// Destinations that are down.
pub const BREAKER_OPEN: Metric =
    gauge("postrider_breaker_open", OF_SINK, "Destinations of the sink that are considered down.");
/// Messages in flight.
pub const IN_FLIGHT_EVENTS: Metric =
    gauge("postrider_in_flight_events", OF_SUBSCRIPTION, "Messages whose outcome is not known yet.");
/// Events in memory.
pub const READ_AHEAD_EVENTS: Metric =
    gauge("postrider_read_ahead_events", OF_SUBSCRIPTION, "Events in memory.");
/// Bytes of the events in memory.
pub const READ_AHEAD_BYTES: Metric =
    gauge("postrider_read_ahead_bytes", OF_SUBSCRIPTION, "Bytes of the events in memory, with overhead.");
/// The time of the last progress.
pub const LAST_PROGRESS: Metric = gauge(
    "postrider_last_progress_timestamp_seconds",
    OF_SUBSCRIPTION,
    "When this relay last delivered or settled something, or began to lead; Unix time.",
);
/// The version of the program.
pub const BUILD_INFO: Metric = gauge(
    "postrider_build_info",
    &[Label { name: "version", values: LabelValues::Registered("the version of the library") }],
    "Always 1.",
);

/// Events read.
pub const EVENTS_CLAIMED: Metric =
    counter("postrider_events_claimed_total", OF_SUBSCRIPTION, "Events that were read from the outbox.");
/// Attempts to deliver.
pub const ATTEMPTS: Metric = counter(
    "postrider_attempts_total",
    &[OUTBOX, SUBSCRIPTION, SINK, ATTEMPT_OUTCOME],
    "Attempts to deliver an event by outcome.",
);
/// Events that were given up.
pub const EVENTS_DEAD: Metric = counter(
    "postrider_events_dead_total",
    &[OUTBOX, SUBSCRIPTION, DEAD_REASON],
    "Events that are not delivered unless an operator acts.",
);
/// Events that were skipped.
pub const EVENTS_SKIPPED: Metric = counter(
    "postrider_events_skipped_total",
    OF_SUBSCRIPTION,
    "Events that no rule matched and that the configuration skips.",
);
/// Leases taken.
pub const TAKEOVERS: Metric = counter(
    "postrider_takeovers_total",
    &[OUTBOX, SUBSCRIPTION, CLEAN],
    "How often this relay began to lead.",
);
/// Outages of destinations.
pub const BREAKER_OPENED: Metric =
    counter("postrider_breaker_opened_total", OF_SINK, "How often a destination was considered down.");
/// Events deleted by retention.
pub const EVENTS_DELETED: Metric =
    counter("postrider_events_deleted_total", &[OUTBOX], "Events that the retention deleted.");
/// Errors of the database.
pub const ERRORS: Metric = counter(
    "postrider_errors_total",
    &[OUTBOX, SUBSCRIPTION, CODE],
    "Failed calls to the database, and failed takeovers of the destination, by error code.",
);
/// What operators did through this process.
pub const OPERATOR_ACTIONS: Metric = counter(
    "postrider_operator_actions_total",
    &[OPERATOR_ACTION, RESULT],
    "Commands of operators that this process carried out.",
);

/// From the event's time to its acknowledgement.
pub const DELIVERY_LATENCY: Metric = Metric {
    name: "postrider_delivery_latency_seconds",
    kind: MetricKind::Seconds(LATENCY_BUCKETS),
    labels: OF_SUBSCRIPTION,
    help: "Time from an event's creation, on its writer's clock, to its acknowledgement.",
};
/// Batches at the sink.
pub const PUBLISH_DURATION: Metric = Metric {
    name: "postrider_publish_duration_seconds",
    kind: MetricKind::Seconds(DURATION_BUCKETS),
    labels: OF_SINK,
    help: "Time in which a batch was encoded, sent and answered.",
};
/// Calls to the database.
pub const STORE_DURATION: Metric = Metric {
    name: "postrider_store_duration_seconds",
    kind: MetricKind::Seconds(DURATION_BUCKETS),
    labels: &[OUTBOX, SUBSCRIPTION, OPERATION],
    help: "Time of a call to the database.",
};
/// The size of batches.
pub const BATCH_EVENTS: Metric = Metric {
    name: "postrider_batch_events",
    kind: MetricKind::Numbers(&[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 5_000.0]),
    labels: OF_SINK,
    help: "Events in a batch.",
};

/// Every metric.
pub const METRICS: &[&Metric] = &[
    &OLDEST_UNDELIVERED_AGE,
    &BACKLOG_EVENTS,
    &BACKLOG_BOUNDED,
    &PARKED_EVENTS,
    &PARKED_LIMIT,
    &SUBSCRIPTION_STATE,
    &OLDEST_OPEN_TRANSACTION_AGE,
    &RETENTION_LAG,
    &LEASE_HELD,
    &LEASE_EPOCH,
    &UNDECIDED_POSITIONS,
    &UNDECIDED_LIMIT,
    &BREAKER_OPEN,
    &IN_FLIGHT_EVENTS,
    &READ_AHEAD_EVENTS,
    &READ_AHEAD_BYTES,
    &LAST_PROGRESS,
    &BUILD_INFO,
    &EVENTS_CLAIMED,
    &ATTEMPTS,
    &EVENTS_DEAD,
    &EVENTS_SKIPPED,
    &TAKEOVERS,
    &BREAKER_OPENED,
    &EVENTS_DELETED,
    &ERRORS,
    &OPERATOR_ACTIONS,
    &DELIVERY_LATENCY,
    &PUBLISH_DURATION,
    &STORE_DURATION,
    &BATCH_EVENTS,
    &ACTION_EXECUTIONS,
    &ACTION_RETRIES,
    &ACTION_EXECUTE_DURATION,
    &ACTION_PERFORM_DURATION,
    &ACTION_PERSIST_DURATION,
];

const ERROR_STATUS: (&str, &str) = ("otel.status_code", "`ERROR` if it failed");
const ACTION_NAME: (&str, &str) = ("action", "the name of the action");
const ACTION_ID: (&str, &str) = ("action_id", "the id that is stored with the events");
const PRINCIPAL: (&str, &str) = ("principal", "on whose behalf it runs, if there is one");
const ATTEMPT: (&str, &str) = ("attempt", "1, and higher if an earlier attempt was rolled back");

/// One call of `execute`.
pub const EXECUTE: SpanFields = SpanFields {
    name: "execute",
    fields: &[
        ACTION_NAME,
        ACTION_ID,
        PRINCIPAL,
        ("attempts", "how often it ran"),
        ("outcome", "as the label `outcome` of [the metrics](metrics.md)"),
        ERROR_STATUS,
        ("otel.status_description", "the error with its code, or that the action returned one"),
    ],
};

/// One call of `execute_in`, in a transaction of the caller.
pub const EXECUTE_IN: SpanFields =
    SpanFields { name: "execute_in", fields: &[ACTION_NAME, ACTION_ID, PRINCIPAL] };

/// One attempt: the code of the action.
pub const PERFORM: SpanFields = SpanFields { name: "perform", fields: &[ACTION_NAME, ATTEMPT, ERROR_STATUS] };

/// One attempt: the transaction.
pub const PERSIST: SpanFields = SpanFields {
    name: "persist",
    fields: &[
        ACTION_NAME,
        ATTEMPT,
        ("rows", "rows that the plan adds and updates"),
        ("events", "events of the plan"),
        ERROR_STATUS,
        ("otel.status_description", "the error with its code"),
    ],
};

/// A batch of the relay.
pub const PUBLISH: SpanFields = SpanFields {
    name: "publish",
    fields: &[
        ("otel.kind", "`producer`"),
        ("subscription", "the name of the subscription"),
        ("messaging.operation.name", "`publish`"),
        ("messaging.operation.type", "`send`"),
        ("messaging.destination.name", "the destination, if all events of the batch have the same"),
        ("messaging.batch.message_count", "events in the batch"),
        ("acknowledged", "how many of them the destination acknowledged"),
        ("otel.status_code", "`ERROR` if not all were acknowledged"),
        ("otel.status_description", "the first failure"),
    ],
};

/// Every span.
pub const SPANS: &[&SpanFields] = &[&EXECUTE, &EXECUTE_IN, &PERFORM, &PERSIST, &PUBLISH];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_is_one_that_prometheus_expects() {
        let mut names = BTreeSet::new();
        for metric in METRICS {
            assert!(names.insert(metric.name), "{} is there twice", metric.name);
            let has_suffix = match metric.kind {
                MetricKind::Counter => metric.name.ends_with("_total"),
                MetricKind::Seconds(_) => metric.name.ends_with("_seconds"),
                MetricKind::Gauge | MetricKind::Numbers(_) => !metric.name.ends_with("_total"),
            };
            assert!(metric.name.starts_with("postrider_") && has_suffix, "{metric:?}");
            let labels = metric.labels.iter().map(|label| label.name);
            for name in labels.chain([metric.name]) {
                assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            }
            // `le` and `quantile` belong to the formats of histograms.
            assert!(metric.labels.iter().all(|label| !matches!(label.name, "le" | "quantile")), "{metric:?}");
            assert!(metric.help.ends_with('.'), "{metric:?}");
        }
    }

    #[test]
    fn buckets_increase() {
        for metric in METRICS {
            if let Some(buckets) = metric.buckets() {
                assert!(buckets.is_sorted_by(|low, high| low < high), "{metric:?}");
            }
        }
    }
}
