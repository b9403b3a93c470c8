//! Flags: `--set sink.out.path=events.jsonl`.

use postrider::Code;

use super::Reading;
use crate::config::origin::Origin;
use crate::config::problem::Problem;
use crate::config::raw::Raw;
use crate::config::schema::Schema;

/// Reads each flag. The key is the text before the first `=`; a flag without `=` is not repeated in the message,
/// because it may be a secret.
pub(super) fn read(schema: Schema, flags: &[String], reading: &mut Reading) {
    let key_like = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    for flag in flags {
        match flag.split_once('=').filter(|(key, _)| key_like(key)) {
            Some((key, value)) => {
                let path: Vec<&str> = key.split('.').collect();
                reading.take_path(schema, &path, ".", Raw::Loose(value.to_owned()), Origin::Flag);
            }
            None => reading.problems.push(
                Problem::new(Code::ConfigSyntax, "this is not section.key=value")
                    .at(&Origin::Flag)
                    .with_hint("for example: --set sink.out.type=stdout"),
            ),
        }
    }
}
