//! The config file: TOML, with line and column of every key.

use std::path::Path;

use postrider::Code;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Group, Reading, name_missing, unknown_section};
use crate::config::origin::Origin;
use crate::config::problem::Problem;
use crate::config::raw::Raw;
use crate::config::schema::{Schema, Section};

/// The text of a config file and its path. It may contain secrets, so it cannot be printed.
pub struct ConfigFile {
    path: String,
    text: String,
}

impl ConfigFile {
    /// A file that is already in memory.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Code::ConfigFile`] if it does not exist, is not readable or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self::new(path.display().to_string(), text)),
            Err(e) => Err(Problem::new(Code::ConfigFile, format!("cannot read {}: {e}", path.display()))),
        }
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn origin(&self, offset: usize) -> Origin {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Origin::File {
            path: self.path.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// Reads all keys. If the file is not valid TOML, reports only the position of the syntax error.
pub(super) fn read(schema: Schema, file: &ConfigFile, reading: &mut Reading) {
    let (document, errors) = DeTable::parse_recoverable(&file.text);
    if !errors.is_empty() {
        let problem = |error: &toml::de::Error| {
            // The message names what was expected, not what was found, which may be a secret.
            let what = format!("not TOML: {}", error.message().replace('\n', ", "));
            Problem::new(Code::ConfigSyntax, what).at(&file.origin(error.span().map_or(0, |span| span.start)))
        };
        return reading.problems.extend(errors.iter().map(problem));
    }
    let mut walk = Walk { schema, file, reading };
    for (word, value) in document.get_ref() {
        walk.top(word, value);
    }
}

struct Walk<'a> {
    schema: Schema,
    file: &'a ConfigFile,
    reading: &'a mut Reading,
}

impl Walk<'_> {
    fn top(&mut self, word: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let origin = self.file.origin(word.span().start);
        let Some(section) = Section::top(word.get_ref()) else {
            return self.reading.problems.push(unknown_section(word.get_ref()).at(&origin));
        };
        match value.get_ref() {
            DeValue::Table(names) if section.is_named() => {
                for (name, value) in names {
                    let origin = self.file.origin(name.span().start);
                    match value.get_ref() {
                        DeValue::Table(keys) => {
                            self.keys(Group::new(section, Some(name.get_ref())), origin, keys);
                        }
                        _ => self.reading.problems.push(name_missing(section).at(&origin)),
                    }
                }
            }
            DeValue::Table(keys) => self.keys(Group::new(section, None), origin, keys),
            _ => self.reading.problems.push(not_a_table(section, section.word()).at(&origin)),
        }
    }

    fn keys(&mut self, group: Group, origin: Origin, keys: &DeTable<'_>) {
        for (key, value) in keys {
            let origin = self.file.origin(key.span().start);
            if group.section == Section::Subscription && key.get_ref() == Section::Rule.word() {
                self.rules(&group, &origin, value.get_ref());
            } else {
                let raw = Raw::from(value.get_ref());
                self.reading.take(self.schema, group.clone(), key.get_ref(), raw, origin);
            }
        }
        self.reading.groups.push((group, origin));
    }

    fn rules(&mut self, subscription: &Group, origin: &Origin, value: &DeValue<'_>) {
        let wrong = || not_a_table(Section::Rule, &subscription.key("rule"));
        let DeValue::Array(rules) = value else {
            return self.reading.problems.push(wrong().at(origin));
        };
        for (number, rule) in rules.iter().enumerate() {
            let origin = self.file.origin(rule.span().start);
            match rule.get_ref() {
                DeValue::Table(keys) => self.keys(subscription.rule(number), origin, keys),
                _ => self.reading.problems.push(wrong().at(&origin)),
            }
        }
    }
}

fn not_a_table(section: Section, key: &str) -> Problem {
    Problem::new(Code::ConfigValue, format!("\"{key}\" is not a table"))
        .key(key)
        .with_hint(format!("write {section} and its keys below it"))
}
