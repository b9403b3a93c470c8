//! The filters of lists in the URL, with the names and the meaning of the command line's options.

use std::time::Duration;

use postrider::operate::ParkedFilter;
use postrider::store::ParkedState;
use postrider::{Position, Timestamp};

use crate::request::{Pairs, find, query_of};
use crate::respond::Failure;

/// Which list: events that wait, or those that were given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Waiting,
    Dead,
}

impl Kind {
    /// Its name in paths and forms.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Dead => "dead",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::Waiting, Self::Dead].into_iter().find(|kind| kind.as_str() == word)
    }

    /// The states that it lists.
    pub(crate) const fn states(self) -> &'static [ParkedState] {
        match self {
            Self::Waiting => {
                &[ParkedState::Retry, ParkedState::Behind, ParkedState::Held, ParkedState::Unrouted]
            }
            Self::Dead => &[ParkedState::Dead, ParkedState::Expired],
        }
    }
}

/// The filter of a list of parked events, as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ParkedForm {
    pub(crate) subscription: String,
    pub(crate) state: String,
    pub(crate) event_type: String,
    pub(crate) key: String,
    pub(crate) error: String,
    pub(crate) event: String,
    pub(crate) since: String,
    pub(crate) until: String,
}

impl ParkedForm {
    pub(crate) fn read(pairs: &Pairs) -> Self {
        let text = |name| find(pairs, name).unwrap_or_default().to_owned();
        Self {
            subscription: text("subscription"),
            state: text("state"),
            event_type: text("type"),
            key: text("key"),
            error: text("error"),
            event: text("event"),
            since: text("since"),
            until: text("until"),
        }
    }

    /// Names and values for links and hidden fields.
    pub(crate) fn pairs(&self) -> [(&'static str, &str); 8] {
        [
            ("subscription", &self.subscription),
            ("state", &self.state),
            ("type", &self.event_type),
            ("key", &self.key),
            ("error", &self.error),
            ("event", &self.event),
            ("since", &self.since),
            ("until", &self.until),
        ]
    }

    pub(crate) fn query(&self) -> String {
        query_of(&self.pairs())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pairs().iter().all(|(_, value)| value.is_empty())
    }

    /// The filter of the operations.
    ///
    /// # Errors
    /// A value that cannot be read.
    pub(crate) fn filter(&self, kind: Kind, now: Timestamp) -> Result<ParkedFilter, Failure> {
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let states = match self.state.as_str() {
            "" => kind.states().to_vec(),
            word => {
                let state = ParkedState::from_word(word).filter(|state| kind.states().contains(state));
                vec![state.ok_or_else(|| Failure::wrong(format!("{word:?} is not a state of this list.")))?]
            }
        };
        Ok(ParkedFilter::default()
            .states(states)
            .events(text(&self.event).into_iter().collect::<Vec<_>>())
            .key(text(&self.key))
            .event_type(text(&self.event_type))
            .error(text(&self.error))
            .since(time("since", &self.since, now)?)
            .until(time("until", &self.until, now)?))
    }
}

/// A time in RFC 3339, or an age such as `2h`.
///
/// # Errors
/// Any other text.
pub(crate) fn time(name: &str, text: &str, now: Timestamp) -> Result<Option<Timestamp>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    if let Some(ago) = duration(text) {
        let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
        return Ok(Some(Timestamp::from_micros(now.as_micros().saturating_sub(micros))));
    }
    let what =
        || format!("{name}: use a time such as 2026-01-31T12:00:00Z, or an age such as 30m, 2h or 7d.");
    text.parse().map(Some).map_err(|_| Failure::wrong(what()))
}

/// `30s`, `5m`, `2h`, `7d`
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| number.parse::<u64>().ok()?.checked_mul(seconds).map(Duration::from_secs)).flatten()
}

/// A position, if the text is not empty.
///
/// # Errors
/// Any other text than a number from 1 on.
pub(crate) fn position(name: &str, text: &str) -> Result<Option<Position>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().ok().filter(|number: &i64| *number > 0).map(Position::new);
    number.map(Some).ok_or_else(|| Failure::wrong(format!("{name}: use a position, a number from 1 on.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);

    #[test]
    fn a_filter_survives_its_link() {
        let pairs =
            crate::request::pairs(b"subscription=orders&key=a%26b%3D%22%3Cc&error=%F0%9F%90%B4+x&state=dead");
        let form = ParkedForm::read(&pairs);
        let again = ParkedForm::read(&crate::request::pairs(form.query().as_bytes()));
        assert_eq!(form, again);
        let filter = form.filter(Kind::Dead, NOW).unwrap();
        assert_eq!((filter.key.as_deref(), filter.error.as_deref()), (Some("a&b=\"<c"), Some("🐴 x")));
        assert_eq!(filter.states, [ParkedState::Dead]);
    }

    #[test]
    fn a_list_shows_no_state_of_the_other_list() {
        let form = ParkedForm { state: "dead".to_owned(), ..ParkedForm::default() };
        assert!(form.filter(Kind::Waiting, NOW).is_err());
        assert_eq!(ParkedForm::default().filter(Kind::Waiting, NOW).unwrap().states, Kind::Waiting.states());
    }

    #[test]
    fn times_are_ages_or_rfc_3339() {
        assert_eq!(time("since", "1m", NOW).unwrap(), Some(Timestamp::from_micros(999_940_000_000)));
        assert!(time("since", "1970-01-01T00:00:00Z", NOW).unwrap().is_some());
        for wrong in ["x", "1", "m", "-1h", "1é", "99999999999999999999d", "18446744073709551615d"] {
            assert!(time("since", wrong, NOW).is_err(), "{wrong}");
        }
    }
}
