//! What may change in the configuration of a running relay: outboxes and shards may be added.

use std::collections::BTreeSet;

use super::effective::{Effective, Setting};
use super::layer::Group;
use super::schema::Section;
use super::value::Value;

/// The keys and tables that a new configuration changes, removes, or adds to what runs already. A running relay cannot apply
/// them. Empty if the new configuration only adds outboxes, with their subscriptions and sinks, and shards.
pub fn other_changes(running: &Effective, new: &Effective) -> Vec<String> {
    let before = groups(running);
    let mut changes: BTreeSet<String> = BTreeSet::new();
    for setting in running.settings() {
        match find(new, &setting.group, setting.spec.name) {
            Some(now) if now.value == setting.value || adds_shards(setting, now) => {}
            Some(_) => drop(changes.insert(setting.key())),
            None if groups(new).contains(&setting.group) => drop(changes.insert(setting.key())),
            None => drop(changes.insert(format!("{} (removed)", setting.group))),
        }
    }
    for setting in new.settings().iter().filter(|setting| is_given(setting)) {
        let is_of_running = before.contains(&setting.group);
        if is_of_running && find(running, &setting.group, setting.spec.name).is_none() {
            changes.insert(setting.key());
        } else if !is_of_running && belongs_to_running(&setting.group, new, &before) {
            changes.insert(format!("{} (new, for an outbox that is served)", setting.group));
        }
    }
    changes.into_iter().collect()
}

fn is_given(setting: &Setting) -> bool {
    setting.value.is_some()
}

fn groups(of: &Effective) -> BTreeSet<Group> {
    Section::ALL.into_iter().flat_map(|section| of.groups(section)).map(|(group, _)| group.clone()).collect()
}

fn find<'a>(of: &'a Effective, group: &Group, key: &str) -> Option<&'a Setting> {
    of.settings().iter().find(|setting| setting.group == *group && setting.spec.name == key)
}

/// The shards that run are the same, and there are more.
fn adds_shards(setting: &Setting, now: &Setting) -> bool {
    let is_shards = setting.group.section == Section::Outbox && setting.spec.name == "shards";
    let Some(Value::Secrets(now)) = now.value.as_ref().filter(|_| is_shards) else { return false };
    match &setting.value {
        None => true,
        Some(Value::Secrets(before)) => before.iter().all(|(shard, url)| now.get(shard) == Some(url)),
        Some(_) => false,
    }
}

/// Whether a new subscription, or a rule of it, reads an outbox that runs.
fn belongs_to_running(group: &Group, new: &Effective, running: &BTreeSet<Group>) -> bool {
    if !matches!(group.section, Section::Subscription | Section::Rule) {
        return false;
    }
    let subscription = Group::new(Section::Subscription, group.name.as_deref());
    let outbox = find(new, &subscription, "outbox").and_then(|setting| setting.value.clone());
    let outbox = outbox.map(|name| Group::new(Section::Outbox, Some(&name.to_string())));
    running.contains(&subscription) || outbox.is_none_or(|outbox| running.contains(&outbox))
}
