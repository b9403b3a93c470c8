//! The outcome of a message from the endpoint's response, or from a request without one.

use std::error::Error as _;
use std::time::Duration;

use postrider::sink::{Failure, Outcome, Receipt};
use reqwest::StatusCode;

use super::guard::Refused;

/// Pause after a 429 response without `retry-after`.
const THROTTLE_WAIT: Duration = Duration::from_secs(1);

/// The parts of a response that decide the outcome.
#[derive(Debug)]
pub(super) struct EndpointResponse {
    pub(super) status: StatusCode,
    /// The pause that the endpoint asks for.
    pub(super) retry_after: Option<Duration>,
    /// The endpoint and the beginning of its response, for operators.
    pub(super) text: String,
    /// The sink has no other endpoint.
    pub(super) only_endpoint: bool,
}

impl EndpointResponse {
    /// The outcome of the message.
    ///
    /// | status | outcome | why |
    /// |---|---|---|
    /// | 2xx | acknowledged | |
    /// | 3xx, 401, 405, 407, 421, 426, 429, 511, and 503 with `retry-after` | down | concerns every message: a wrong address or token, or too many requests |
    /// | 403, 404, 408, 425, other 5xx | retryable | may concern one message or all; the relay finds out which |
    /// | 502, 504 | ambiguous | a gateway lost the response; the endpoint behind it may have the message |
    /// | 409, 423, 424 | failed | concerns this message, and may be temporary |
    /// | 410 | down, and the subscription is paused; rejected where events are routed to several endpoints | the endpoint no longer exists |
    /// | other 4xx | rejected | concerns this message, and is permanent |
    pub(super) fn outcome(self) -> Outcome {
        let Self { status, retry_after, text, only_endpoint } = self;
        let mut failure = Failure::new(text);
        failure.retry_after = retry_after;
        match status.as_u16() {
            200..=299 => Outcome::Acknowledged(Receipt::new(format!("status {}", status.as_u16()))),
            300..=399 | 401 | 405 | 407 | 421 | 426 | 511 => Outcome::Down(failure),
            429 => {
                failure.retry_after = Some(retry_after.unwrap_or(THROTTLE_WAIT));
                Outcome::Down(failure)
            }
            503 if retry_after.is_some() => Outcome::Down(failure),
            410 if only_endpoint => Outcome::Down(failure.pausing()),
            502 | 504 => Outcome::Ambiguous(failure),
            409 | 423 | 424 => Outcome::Failed(failure),
            403 | 404 | 408 | 425 => Outcome::Retryable(failure),
            400..=499 => Outcome::Rejected(failure),
            _ => Outcome::Retryable(failure),
        }
    }
}

/// The outcome of a message whose request got no response. Nothing was sent if no connection was established.
pub(super) fn outcome_of_error(endpoint: &str, error: reqwest::Error, timeout: Duration) -> Outcome {
    let error = error.without_url();
    if let Some(refused) = sources(&error).find_map(|source| source.downcast_ref::<Refused>()) {
        return Outcome::Down(Failure::new(refused.to_string()));
    }
    if error.is_connect() {
        return Outcome::Down(Failure::new(format!("cannot connect to {endpoint}: {}", causes(&error))));
    }
    if error.is_builder() {
        return Outcome::Rejected(Failure::new(format!("cannot build a request: {}", causes(&error))));
    }
    let what = match error.is_timeout() {
        true => format!("no answer from {endpoint} within {timeout:?}"),
        false => format!("incomplete response from {endpoint}: {}", causes(&error)),
    };
    Outcome::Ambiguous(Failure::new(what))
}

/// The innermost cause. The outer ones only add the word "error".
fn causes(error: &reqwest::Error) -> String {
    sources(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

fn sources(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: u16, retry_after: Option<u64>, only_endpoint: bool) -> Outcome {
        let status = StatusCode::from_u16(status).unwrap();
        let retry_after = retry_after.map(Duration::from_secs);
        EndpointResponse { status, retry_after, text: String::new(), only_endpoint }.outcome()
    }

    fn class(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::Acknowledged(_) => "acknowledged",
            Outcome::Retryable(_) => "retryable",
            Outcome::Failed(_) => "failed",
            Outcome::Rejected(_) => "rejected",
            Outcome::Ambiguous(_) => "ambiguous",
            Outcome::Down(failure) if failure.pause => "gone",
            Outcome::Down(_) => "down",
            Outcome::Untried => "untried",
            Outcome::Fenced => "fenced",
        }
    }

    #[test]
    fn every_status_has_its_class() {
        for (class_of, statuses) in [
            ("acknowledged", &[200, 201, 202, 204, 299][..]),
            ("down", &[300, 301, 302, 304, 307, 308, 401, 405, 407, 421, 426, 429, 511]),
            ("gone", &[410]),
            ("retryable", &[403, 404, 408, 425, 500, 501, 503, 505, 507, 599, 600, 999]),
            ("ambiguous", &[502, 504]),
            ("failed", &[409, 423, 424]),
            ("rejected", &[400, 402, 406, 411, 412, 413, 414, 415, 416, 417, 418, 422, 431, 451, 499]),
        ] {
            for status in statuses {
                assert_eq!(class(&outcome(*status, None, true)), class_of, "{status}");
            }
        }
    }

    #[test]
    fn one_endpoint_of_several_that_is_gone_does_not_stop_the_others() {
        assert_eq!(class(&outcome(410, None, false)), "rejected");
    }

    #[test]
    fn an_endpoint_that_names_a_time_is_left_alone_until_then() {
        for status in [429, 503] {
            let Outcome::Down(failure) = outcome(status, Some(20), true) else { panic!("{status}") };
            assert_eq!(failure.retry_after, Some(Duration::from_secs(20)));
        }
        let Outcome::Down(failure) = outcome(429, None, true) else { panic!() };
        assert_eq!(failure.retry_after, Some(THROTTLE_WAIT));
        let Outcome::Retryable(failure) = outcome(500, Some(20), true) else { panic!() };
        assert_eq!(failure.retry_after, Some(Duration::from_secs(20)));
    }
}
