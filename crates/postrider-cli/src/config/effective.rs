//! The merged layers: every key with its value and origin.

use std::collections::{BTreeMap, BTreeSet};

use postrider::Code;
use postrider::layout::RowLayout;

use super::key_problems;
use super::layer::{Given, Group, Reading, Sources};
use super::names;
use super::origin::Origin;
use super::problem::Problem;
use super::raw::Raw;
use super::schema::{IfUnset, KeySpec, Schema, Section};
use super::value::Value;

/// One key of one table, given or not.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The table.
    pub group: Group,
    /// The key.
    pub spec: &'static KeySpec,
    /// Its value; `None` if it was not given and has no default.
    pub value: Option<Value>,
    /// The origin of the value.
    pub origin: Origin,
}

impl Setting {
    /// The full name: `sink.out.path`.
    pub fn key(&self) -> String {
        self.group.key(self.spec.name)
    }
}

/// All keys, by table and in the order of the schema. Its `Debug` output contains no secrets.
#[derive(Debug, Clone, Default)]
pub struct Effective {
    settings: Vec<Setting>,
    groups: BTreeMap<Group, Origin>,
}

impl Effective {
    /// Merges the layers. Reports all problems, not only the first; if there are any, the result is incomplete.
    /// Does not resolve `env:` and `file:` secrets.
    pub fn merge(schema: Schema, sources: &Sources<'_>) -> (Self, Vec<Problem>) {
        let Reading { given, groups, mut problems } = Reading::of(schema, sources);
        if problems.iter().any(|problem| problem.code == Code::ConfigSyntax) {
            // Further problems would mostly be consequences of the part that could not be parsed.
            return (Self::default(), in_order(problems));
        }
        let mut merge = Merge::default();
        for section in Section::TOP.into_iter().filter(|section| !section.is_named()) {
            merge.groups.insert(Group::new(section, None), Origin::Default);
        }
        merge.groups.extend(groups);
        for given in given {
            merge.take(given);
        }
        let groups = std::mem::take(&mut merge.groups);
        let mut effective = Self { settings: Vec::new(), groups };
        for (group, origin) in &effective.groups {
            merge.problems.extend(names::check(group, origin));
            for spec in schema.keys(group.section) {
                effective.settings.extend(merge.setting(schema, group, origin, spec));
            }
        }
        merge.problems.extend(names::resolve(&mut effective.settings, &effective.groups));
        effective.apply_defaults_of_eventlog();
        problems.append(&mut merge.problems);
        (effective, in_order(problems))
    }

    /// A subscription of an outbox with layout `eventlog` has other defaults.
    fn apply_defaults_of_eventlog(&mut self) {
        let text = |group: &Group, key: &str| {
            let here = |setting: &&Setting| setting.group == *group && setting.spec.name == key;
            self.settings.iter().find(here)?.value.as_ref().map(Value::to_string)
        };
        let is_eventlog = |group: &Group| {
            let outbox = Group::new(Section::Outbox, text(group, "outbox").as_deref());
            text(&outbox, "layout").as_deref() == Some(RowLayout::Eventlog.name())
        };
        let on_eventlog: BTreeSet<Group> = self
            .groups(Section::Subscription)
            .map(|(group, _)| group)
            .filter(|group| is_eventlog(group))
            .cloned()
            .collect();
        for setting in self.settings.iter_mut().filter(|setting| on_eventlog.contains(&setting.group)) {
            if let (Some(text), Origin::Default) = (setting.spec.default_on_eventlog, &setting.origin) {
                setting.value = setting.spec.kind.read(&Raw::Loose(text.into())).ok();
            }
        }
    }

    /// Every key, given or not.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The tables of a section, in the order of their names.
    pub fn groups(&self, section: Section) -> impl Iterator<Item = (&Group, &Origin)> {
        self.groups.iter().filter(move |(group, _)| group.section == section)
    }
}

/// The state of a merge.
#[derive(Default)]
struct Merge {
    groups: BTreeMap<Group, Origin>,
    values: BTreeMap<(Group, &'static str), (Value, Origin)>,
    /// Keys with an invalid value: already reported, so not missing.
    wrong: BTreeSet<(Group, &'static str)>,
    problems: Vec<Problem>,
}

impl Merge {
    /// Sets a value, which replaces that of a lower layer.
    fn take(&mut self, Given { group, spec, raw, origin }: Given) {
        self.groups.entry(group.clone()).or_insert_with(|| origin.clone());
        let read = match spec.kind.read(&raw) {
            Ok(value) if origin == Origin::Flag && key_problems::is_open_secret(spec.kind, &value) => {
                Err(key_problems::secret_on_command_line(&group, spec))
            }
            Ok(value) => Ok(value),
            Err(found) => Err(key_problems::invalid_value(&group, spec, &raw, &found)),
        };
        let at = (group, spec.name);
        match read {
            Ok(value) => drop(self.values.insert(at, (value, origin))),
            Err(problem) => {
                self.problems.push(problem.at(&origin));
                self.wrong.insert(at);
            }
        }
    }

    /// The value of a key of a table, or its default. `None` if the key does not apply there or is missing.
    fn setting(
        &mut self,
        schema: Schema,
        group: &Group,
        origin: &Origin,
        spec: &'static KeySpec,
    ) -> Option<Setting> {
        let at = (group.clone(), spec.name);
        let given = self.values.get(&at).cloned();
        if let Some(of_type) = spec.of_type {
            let (of_table, decided) = self.values.get(&(group.clone(), TYPE))?;
            if *of_table != Value::Text(of_type.to_owned()) {
                // Other types may have a key with this name. It is reported once, and only if none of them is that of
                // the table.
                let of_table = of_table.to_string();
                let types: Vec<&str> = schema.types_of(group.section, spec.name).collect();
                let is_first = types.first() == Some(&of_type);
                let given = given.filter(|_| is_first && !types.contains(&&*of_table));
                // If a higher layer changes the type, keys of the old type are ignored.
                if let Some((_, origin)) = given.filter(|(_, origin)| !origin.is_below(decided)) {
                    let problem = key_problems::other_type(group, spec, &types, &of_table);
                    self.problems.push(problem.at(&origin));
                }
                return None;
            }
        }
        let (value, origin) = match (given, spec.if_unset) {
            (Some((value, origin)), _) => (Some(value), origin),
            (None, IfUnset::Default(text)) => {
                (spec.kind.read(&Raw::Loose(text.into())).ok(), Origin::Default)
            }
            (None, IfUnset::Nothing) => (None, Origin::Default),
            (None, IfUnset::Error) => {
                if !self.wrong.contains(&at) {
                    self.problems.push(key_problems::missing(group, spec).at(origin));
                }
                return None;
            }
        };
        Some(Setting { group: group.clone(), spec, value, origin })
    }
}

/// The key that decides which other keys apply.
const TYPE: &str = "type";

/// The order of problems: the file from its top, then variables, then flags.
fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by(|a, b| a.origin.cmp(&b.origin));
    problems
}
