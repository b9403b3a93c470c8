//! A batch as JSON lines: each body and a line break, ready for one write.

use postrider::sink::{Failure, Message, Outcome, Receipt};

/// The lines of a batch up to the first message that cannot be a line. Maps what was written back to outcomes.
#[derive(Debug)]
pub(crate) struct JsonLines {
    bytes: Vec<u8>,
    /// Where each line ends, including its line break.
    ends: Vec<usize>,
    /// Number of messages in the batch.
    messages: usize,
    /// Why the message after the last line cannot be a line.
    refused: Option<Failure>,
}

impl JsonLines {
    /// Replaces line breaks in JSON with spaces: they occur only between its tokens. Stops at the first other body with
    /// a line break, because a later message of its key must not be written before it.
    pub(crate) fn of(batch: &[Message]) -> Self {
        let size = batch.iter().map(|message| message.body.len() + 1).sum();
        let mut lines = Self {
            bytes: Vec::with_capacity(size),
            ends: Vec::with_capacity(batch.len()),
            messages: batch.len(),
            refused: None,
        };
        for message in batch {
            let start = lines.bytes.len();
            lines.bytes.extend_from_slice(&message.body);
            if let Some(at) = message.body.iter().position(|&byte| byte == b'\n')
                && !fold(&mut lines.bytes[start..])
            {
                lines.bytes.truncate(start);
                lines.refused = Some(Failure::new(format!(
                    "the body has a line break at byte {at}; a JSON Lines file cannot contain one: use the \
                     envelope encoder, which encodes such a payload as base64"
                )));
                break;
            }
            lines.bytes.push(b'\n');
            lines.ends.push(lines.bytes.len());
        }
        lines
    }

    /// The bytes to write.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Outcomes if all lines were written.
    pub(crate) fn acknowledged(self) -> Vec<Outcome> {
        let lines = self.ends.len();
        let refused = self.refused.map(Outcome::Rejected);
        outcomes(self.messages, lines, Outcome::Acknowledged(Receipt::default()), refused)
    }

    /// Outcomes if only the first `written` bytes were written before the destination failed.
    pub(crate) fn down_after(self, written: usize, failure: Failure) -> Vec<Outcome> {
        let lines = self.ends.iter().take_while(|&&end| end <= written).count();
        if lines == self.ends.len() {
            return self.acknowledged();
        }
        let safe = Outcome::Acknowledged(Receipt::default());
        outcomes(self.messages, lines, safe, Some(Outcome::Down(failure)))
    }

    /// Outcomes if each line may or may not have been written.
    pub(crate) fn ambiguous(self, failure: Failure) -> Vec<Outcome> {
        outcomes(self.messages, self.ends.len(), Outcome::Ambiguous(failure), None)
    }
}

/// Puts JSON on one line. Returns whether it was JSON.
fn fold(body: &mut [u8]) -> bool {
    let json = serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
    if json {
        body.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    }
    json
}

/// `first` for `count` messages, then `stop` for one, and the others untried.
fn outcomes(messages: usize, count: usize, first: Outcome, stop: Option<Outcome>) -> Vec<Outcome> {
    let mut outcomes = vec![first; count];
    outcomes.extend(stop);
    outcomes.resize(messages, Outcome::Untried);
    outcomes
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use postrider::encode::{Encoder, Plain};
    use postrider::{Event, Position};

    use super::*;

    /// Messages with these bodies, all of one key.
    pub(crate) fn batch<const N: usize>(bodies: [&'static str; N]) -> Vec<Message> {
        let message = |body: &'static str| {
            let event = Arc::new(Event::new("a", body).with_key("k"));
            let encoder: Arc<dyn Encoder> = Arc::new(Plain);
            Message::encode(&encoder, Position::new(1), event, "d".into()).unwrap()
        };
        bodies.into_iter().map(message).collect()
    }

    #[test]
    fn each_body_is_one_line() {
        let lines = JsonLines::of(&batch(["1", "", "{}"]));
        assert_eq!(lines.bytes(), b"1\n\n{}\n");
        assert_eq!(lines.acknowledged(), vec![Outcome::Acknowledged(Receipt::default()); 3]);
    }

    #[test]
    fn json_over_several_lines_becomes_one_line() {
        let lines = JsonLines::of(&batch(["{\r\n  \"a\": \"b\\n\"\n}"]));
        assert_eq!(lines.bytes(), b"{    \"a\": \"b\\n\" }\n");
    }

    #[test]
    fn a_body_with_a_line_break_is_rejected_and_nothing_after_it_is_tried() {
        let lines = JsonLines::of(&batch(["1", "not\njson", "3"]));
        assert_eq!(lines.bytes(), b"1\n");
        let outcomes = lines.acknowledged();
        assert!(matches!(outcomes[..], [Outcome::Acknowledged(_), Outcome::Rejected(_), Outcome::Untried]));
        let Outcome::Rejected(failure) = &outcomes[1] else { unreachable!() };
        assert!(failure.message.contains("line break at byte 3"), "{failure:?}");
    }

    #[test]
    fn a_partial_line_is_not_acknowledged() {
        let down = |written| {
            let outcomes =
                JsonLines::of(&batch(["11", "22", "33"])).down_after(written, Failure::new("full"));
            outcomes.iter().filter(|o| matches!(o, Outcome::Acknowledged(_))).count()
        };
        assert_eq!([0, 2, 3, 5, 6, 9].map(down), [0, 0, 1, 1, 2, 3]);
    }

    #[test]
    fn lines_that_may_have_been_written_are_ambiguous_and_later_messages_untried() {
        let outcomes = JsonLines::of(&batch(["1", "2", "\n", "4"])).ambiguous(Failure::new("lost"));
        use Outcome::{Ambiguous, Untried};
        assert!(matches!(outcomes[..], [Ambiguous(_), Ambiguous(_), Untried, Untried]), "{outcomes:?}");
    }
}
