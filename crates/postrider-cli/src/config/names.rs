//! Names of sections, and values that name one.

use std::collections::BTreeMap;

use postrider::Code;

use super::effective::Setting;
use super::kind::Kind;
use super::layer::Group;
use super::origin::Origin;
use super::problem::Problem;
use super::schema::Section;
use super::suggest;
use super::value::Value;

const NAME_BYTES_MAX: usize = 100;

/// Rejects a name that is not valid in a database or an environment variable.
pub(super) fn check(group: &Group, origin: &Origin) -> Option<Problem> {
    let name = group.name.as_deref().filter(|_| group.rule.is_none())?;
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(valid) {
        return None;
    }
    let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
    let what = format!("{shown:?} cannot be the name of {}", group.section.a_word());
    Some(
        Problem::new(Code::NameInvalid, what)
            .key(group.section.word())
            .at(origin)
            .with_hint(format!("use 1 to {NAME_BYTES_MAX} letters, digits, '_', '-' and '.'")),
    )
}

/// Checks that every referenced section exists. An omitted reference means the only section of that kind.
pub(super) fn resolve(settings: &mut [Setting], groups: &BTreeMap<Group, Origin>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for setting in settings {
        let Kind::Reference(section) = setting.spec.kind else { continue };
        let in_section = groups.keys().filter(|group| group.section == section);
        let names: Vec<&str> = in_section.filter_map(|group| group.name.as_deref()).collect();
        match (&setting.value, names.as_slice()) {
            (Some(Value::Text(name)), _) if names.contains(&name.as_str()) => {}
            (Some(value), _) => problems.push(unknown(setting, section, &value.to_string(), &names)),
            (None, [only]) => setting.value = Some(Value::Text((*only).to_owned())),
            (None, _) => problems.push(undecided(setting, section, &names, groups)),
        }
    }
    problems
}

fn unknown(setting: &Setting, section: Section, name: &str, names: &[&str]) -> Problem {
    let word = section.word();
    let what = format!("{} refers to the {word} \"{name}\", which does not exist", setting.key());
    let problem = Problem::new(Code::ConfigReference, what).key(setting.key()).at(&setting.origin);
    match suggest::did_you_mean(name, names.iter().copied()) {
        Some(advice) => problem.with_hint(advice),
        None => problem.with_hint(format!("add a section [{word}.{name}]")),
    }
}

fn undecided(
    setting: &Setting,
    section: Section,
    names: &[&str],
    groups: &BTreeMap<Group, Origin>,
) -> Problem {
    let (word, group) = (section.word(), &setting.group);
    let problem = match names {
        [] => {
            Problem::new(Code::ConfigKeyMissing, format!("{group} needs an {word}, but none is configured"))
                .with_hint(format!("add a section {section}"))
        }
        _ => Problem::new(Code::ConfigKeyMissing, format!("{group} does not name its {word}")).with_hint(
            format!("add {} = \"NAME\"; there is \"{}\"", setting.spec.name, names.join("\", \"")),
        ),
    };
    let problem = problem.key(setting.key());
    match groups.get(group) {
        Some(origin) => problem.at(origin),
        None => problem,
    }
}
