//! Maps errors of Redis to outcomes of messages.

use postrider::sink::{Failure, Outcome};
use postrider::{Code, Error};
use redis::RedisError;

/// Maximum length of a server's message in an outcome, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// The meaning of an error for a message. In no case was it added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The server adds nothing to any stream at the moment.
    Down,
    /// It adds nothing to this stream; an operator can fix this.
    StreamNotUsable,
    /// Not known.
    Unclear,
}

/// The meaning of the text of an error, which begins with its code.
pub(super) fn meaning(error: &str) -> Meaning {
    // Redis before 7 gives errors inside scripts with a dash.
    let error = error.trim_start_matches('-');
    match error.split_whitespace().next().unwrap_or_default() {
        "OOM" | "READONLY" | "LOADING" | "MISCONF" | "NOREPLICAS" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN"
        | "TRYAGAIN" | "NOAUTH" | "WRONGPASS" | "UNKILLABLE" | "NOPROTO" => Meaning::Down,
        // One server of a Redis Cluster; every event would be answered so.
        "MOVED" | "ASK" | "CROSSSLOT" => Meaning::Down,
        "WRONGTYPE" | "NOSTREAM" => Meaning::StreamNotUsable,
        // Without the right to a command nothing can be added, without the right to a key nothing to this stream.
        "NOPERM" | "ERR" if error.contains("command") && names_a_permission(error) && !names_a_key(error) => {
            Meaning::Down
        }
        "NOPERM" => Meaning::StreamNotUsable,
        "ERR" if names_a_permission(error) => Meaning::StreamNotUsable,
        "ERR" if error.contains("last possible ID") => Meaning::StreamNotUsable,
        _ => Meaning::Unclear,
    }
}

fn names_a_permission(error: &str) -> bool {
    error.contains("permission") || error.contains("can't run this command") || error.contains("can't access")
}

fn names_a_key(error: &str) -> bool {
    error.contains("key")
}

/// The outcome of a message with this error of the server.
pub(super) fn outcome(stream: &str, error: &str) -> Outcome {
    let meaning = meaning(error);
    let what = match error.trim_start_matches('-').split_whitespace().next() {
        Some("NOSTREAM") => "it does not exist; create it, or set `create_streams = true`".to_owned(),
        Some("WRONGTYPE") => {
            "the key exists and is not a stream; rename or delete it, or change the route".to_owned()
        }
        Some("MOVED" | "ASK" | "CROSSSLOT") => {
            format!("the server belongs to a Redis Cluster, which is not supported: {}", short(error))
        }
        _ => short(error),
    };
    let failure = Failure::new(format!("stream {stream:?}: {what}"));
    match meaning {
        Meaning::Down => Outcome::Down(failure),
        Meaning::StreamNotUsable => Outcome::Failed(failure),
        Meaning::Unclear => Outcome::Retryable(failure),
    }
}

/// The text of an error of the server, as its code and details.
pub(super) fn text_of(error: &RedisError) -> Option<String> {
    let code = error.code()?;
    Some(format!("{code} {}", error.detail().unwrap_or_default()))
}

/// An error for a person, on one line and not too long: parts of it come from the server.
pub(super) fn describe(error: &RedisError) -> String {
    match text_of(error) {
        Some(text) => short(&text),
        None if error.is_timeout() => "no response in time".to_owned(),
        None => short(&error.to_string()),
    }
}

fn short(text: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(MESSAGE_CHARS_MAX).collect::<String>().trim().to_owned()
}

/// The error if the client cannot be created.
pub(super) fn not_opened(address: &str, why: &str) -> Error {
    Error::new(Code::SinkOpen, format!("redis {address}: {why}"))
}

/// The error if the server cannot be used.
pub(super) fn not_reached(address: &str, error: &RedisError) -> Error {
    Error::new(Code::SinkFailed, format!("redis {address}: {}", describe(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_a_stream_that_cannot_be_used_and_the_rest_have_different_meanings() {
        for (error, expected) in [
            ("OOM command not allowed when used memory > 'maxmemory'.", Meaning::Down),
            ("READONLY You can't write against a read only replica.", Meaning::Down),
            ("-READONLY You can't write against a read only replica.", Meaning::Down),
            ("LOADING Redis is loading the dataset in memory", Meaning::Down),
            ("MISCONF Redis is configured to save RDB snapshots", Meaning::Down),
            ("NOREPLICAS Not enough good replicas to write.", Meaning::Down),
            ("NOAUTH Authentication required.", Meaning::Down),
            ("WRONGPASS invalid username-password pair or user is disabled.", Meaning::Down),
            ("MOVED 3999 127.0.0.1:6381", Meaning::Down),
            ("NOPERM this user has no permissions to run the 'eval' command", Meaning::Down),
            ("NOPERM User x has no permissions to run the 'xadd' command", Meaning::Down),
            ("ERR The user executing the script can't run this command or subcommand", Meaning::Down),
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                Meaning::StreamNotUsable,
            ),
            (
                "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
                Meaning::StreamNotUsable,
            ),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Meaning::StreamNotUsable),
            (
                "ERR The stream has exhausted the last possible ID, unable to add more items",
                Meaning::StreamNotUsable,
            ),
            ("NOSTREAM", Meaning::StreamNotUsable),
            ("ERR something new", Meaning::Unclear),
            ("", Meaning::Unclear),
        ] {
            assert_eq!(meaning(error), expected, "{error}");
        }
    }

    #[test]
    fn a_message_of_the_server_is_one_short_line() {
        let Outcome::Retryable(failure) =
            outcome("a\nb", &format!("ERR \r\n\u{1b}[31m{}", "x".repeat(9_999)))
        else {
            panic!()
        };
        assert!(failure.message.len() < 400 && !failure.message.contains(char::is_control), "{failure:?}");
    }
}
