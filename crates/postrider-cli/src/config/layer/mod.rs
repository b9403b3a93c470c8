//! The layers of the configuration in increasing priority: file, environment, flags. Each reads its values and reports
//! unknown keys; the merge does the rest.

mod file;
mod flags;
mod group;
mod variables;

pub use file::ConfigFile;
pub use group::Group;

use postrider::Code;

use super::environment::Environment;
use super::origin::Origin;
use super::problem::Problem;
use super::raw::Raw;
use super::schema::{KeySpec, Schema, Section};
use super::suggest;

/// The input of all layers.
pub struct Sources<'a> {
    /// The file, if there is one.
    pub file: Option<&'a ConfigFile>,
    /// The variables.
    pub environment: &'a Environment,
    /// Each `--set`.
    pub flags: &'a [String],
}

/// A known key with its value as given.
pub(super) struct Given {
    pub(super) group: Group,
    pub(super) spec: &'static KeySpec,
    pub(super) raw: Raw,
    pub(super) origin: Origin,
}

/// The values of the layers, lowest priority first.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) given: Vec<Given>,
    /// Tables of the file, including empty ones, and where they begin.
    pub(super) groups: Vec<(Group, Origin)>,
    pub(super) problems: Vec<Problem>,
}

impl Reading {
    pub(super) fn of(schema: Schema, sources: &Sources<'_>) -> Self {
        let mut reading = Self::default();
        if let Some(file) = sources.file {
            file::read(schema, file, &mut reading);
        }
        variables::read(schema, sources.environment, &mut reading);
        flags::read(schema, sources.flags, &mut reading);
        reading
    }

    /// Adds a value for a key, or reports that there is no such key.
    fn take(&mut self, schema: Schema, group: Group, key: &str, raw: Raw, origin: Origin) {
        match schema.find(group.section, key) {
            Some(spec) => self.given.push(Given { group, spec, raw, origin }),
            None => self.problems.push(unknown_key(schema, &group, key).at(&origin)),
        }
    }

    /// Adds a value for `section.NAME.key` of a variable or flag. The name may contain the separator.
    fn take_path(&mut self, schema: Schema, path: &[&str], joint: &str, raw: Raw, origin: Origin) {
        let (section, middle, key) = match path {
            [section, key] => (section, None, key),
            [section, middle @ .., key] => (section, Some(middle.join(joint)), key),
            _ => {
                let what = "this is not a key: write SECTION.KEY, for example relay.log or sink.NAME.type";
                return self.problems.push(Problem::new(Code::ConfigKeyUnknown, what).at(&origin));
            }
        };
        let Some(section) = Section::top(section) else {
            return self.problems.push(unknown_section(section).at(&origin));
        };
        match (section.is_named(), middle) {
            (false, None) => self.take(schema, Group::new(section, None), key, raw, origin),
            (true, Some(name)) => self.take(schema, Group::new(section, Some(&name)), key, raw, origin),
            (true, None) => self.problems.push(name_missing(section).at(&origin)),
            (false, Some(name)) => {
                let key = format!("{name}.{key}");
                self.problems.push(unknown_key(schema, &Group::new(section, None), &key).at(&origin));
            }
        }
    }
}

fn unknown_section(word: &str) -> Problem {
    let problem = Problem::new(Code::ConfigKeyUnknown, format!("there is no section \"{word}\"")).key(word);
    match suggest::did_you_mean(word, Section::TOP.map(Section::word)) {
        Some(advice) => problem.with_hint(advice),
        None => problem,
    }
}

fn unknown_key(schema: Schema, group: &Group, key: &str) -> Problem {
    let what = format!("there is no key \"{key}\" in {group}");
    let problem = Problem::new(Code::ConfigKeyUnknown, what).key(group.key(key));
    let rule = (group.section == Section::Subscription).then_some("rule");
    match suggest::did_you_mean(key, schema.keys(group.section).map(|spec| spec.name).chain(rule)) {
        Some(advice) => problem.with_hint(advice),
        None => problem,
    }
}

fn name_missing(section: Section) -> Problem {
    let word = section.word();
    Problem::new(Code::ConfigKeyMissing, format!("a {word} needs a name"))
        .key(word)
        .with_hint(format!("write {section} with a name of your choice, for example [{word}.main]"))
}
