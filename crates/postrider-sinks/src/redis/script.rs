//! The script that adds a part of a batch, and its reply.

use redis::{Cmd, Value};

use super::config::RedisConfig;
use super::message::Field;

/// Adds entries in their order. After an error, further entries of the same group are left out; other groups continue.
/// Keys: the fence, then the streams. Arguments: the token, the number of entries, then for each entry the index of its
/// stream, its group, the number of its values, and these. Replies one text per entry: its id, `!` and an error, or
/// nothing if it was left out.
const SCRIPT: &str = "\
local token = ARGV[1]
if token ~= '' and redis.call('GET', KEYS[1]) ~= token then return 'FENCED' end
local replies, stopped, at = {}, {}, 3
for entry = 1, tonumber(ARGV[2]) do
  local group, last = ARGV[at + 1], at + 2 + tonumber(ARGV[at + 2])
  if stopped[group] then
    replies[entry] = ''
  else
    local added = redis.pcall('XADD', KEYS[tonumber(ARGV[at])], OPTIONS'*', unpack(ARGV, at + 3, last))
    if type(added) == 'string' then
      replies[entry] = added
    else
      stopped[group] = true
      replies[entry] = '!' .. (added and added.err or 'NOSTREAM')
    end
  end
  at = last + 1
end
return replies";

/// The script of a configuration.
#[derive(Debug)]
pub(super) struct Script(String);

/// One entry of a script.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) stream: &'a str,
    /// Entries with the same group stop together.
    pub(super) group: usize,
    pub(super) fields: Vec<Field<'a>>,
}

/// The reply of a script.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// One per entry.
    Entries(Vec<EntryReply>),
    /// Another owner has the token. Nothing was added.
    Fenced,
}

/// The reply for one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryReply {
    /// With this id.
    Added(String),
    /// The server's error; nothing was added.
    Failed(String),
    /// An earlier entry of its group failed.
    LeftOut,
}

impl Script {
    pub(super) fn new(config: &RedisConfig) -> Self {
        let create = if config.create_streams { "" } else { "'NOMKSTREAM', " };
        let trim = config.max_len.map(|max| format!("'MAXLEN', '~', {max}, ")).unwrap_or_default();
        Self(SCRIPT.replace("OPTIONS", &format!("{create}{trim}")))
    }

    /// The command that runs it. It needs no earlier `SCRIPT LOAD`, so it also works after the server forgot its scripts.
    pub(super) fn command(&self, fence: Option<(&str, &str)>, entries: &[Entry<'_>]) -> Cmd {
        let (fence, token) = fence.unwrap_or(("", ""));
        let mut streams: Vec<&str> = Vec::new();
        let mut indices = Vec::with_capacity(entries.len());
        for entry in entries {
            let known = streams.iter().rposition(|stream| *stream == entry.stream);
            let index = known.unwrap_or_else(|| {
                streams.push(entry.stream);
                streams.len() - 1
            });
            // Lua counts from 1, and the fence comes first.
            indices.push(index + if token.is_empty() { 1 } else { 2 });
        }
        let mut command = redis::cmd("EVAL");
        command.arg(&self.0);
        if token.is_empty() {
            command.arg(streams.len());
        } else {
            command.arg(streams.len() + 1).arg(fence);
        }
        command.arg(&streams[..]).arg(token).arg(entries.len());
        for (entry, index) in entries.iter().zip(indices) {
            command.arg(index).arg(entry.group).arg(entry.fields.len() * 2);
            for (name, value) in &entry.fields {
                command.arg(&**name).arg(&**value);
            }
        }
        command
    }
}

impl Reply {
    /// `None` if it is not the reply of this script to this many entries.
    pub(super) fn read(value: Value, entries: usize) -> Option<Self> {
        match value {
            Value::BulkString(text) if text == b"FENCED" => Some(Self::Fenced),
            Value::Array(replies) if replies.len() == entries => {
                replies.into_iter().map(EntryReply::read).collect::<Option<_>>().map(Self::Entries)
            }
            _ => None,
        }
    }
}

impl EntryReply {
    fn read(value: Value) -> Option<Self> {
        let Value::BulkString(bytes) = value else { return None };
        let text = String::from_utf8_lossy(&bytes);
        Some(match text.strip_prefix('!') {
            Some(error) => Self::Failed(error.to_owned()),
            None if text.is_empty() => Self::LeftOut,
            None => Self::Added(text.into_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn the_script_trims_and_creates_as_configured() {
        let config = RedisConfig::new("h:1");
        assert!(Script::new(&config).0.contains("KEYS[tonumber(ARGV[at])], '*',"));
        let config = config.create_streams(false).max_len(NonZeroU64::new(7));
        assert!(Script::new(&config).0.contains("], 'NOMKSTREAM', 'MAXLEN', '~', 7, '*',"));
    }

    #[test]
    fn a_reply_that_does_not_fit_the_entries_is_refused() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        assert_eq!(Reply::read(text("FENCED"), 2), Some(Reply::Fenced));
        let replies = vec![text("1-0"), text("!WRONGTYPE x"), text("")];
        let read =
            [EntryReply::Added("1-0".into()), EntryReply::Failed("WRONGTYPE x".into()), EntryReply::LeftOut];
        assert_eq!(Reply::read(Value::Array(replies.clone()), 3), Some(Reply::Entries(read.into())));
        for wrong in [Value::Array(replies), Value::Nil, Value::Okay, text("x"), Value::Int(2)] {
            assert_eq!(Reply::read(wrong, 2), None);
        }
        assert_eq!(Reply::read(Value::Array(vec![Value::Nil]), 1), None);
    }
}
