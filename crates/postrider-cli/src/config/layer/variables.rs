//! The environment: `POSTRIDER__SINK__OUT__PATH` is `sink.out.path`.

use super::{Reading, Section};
use crate::config::environment::Environment;
use crate::config::origin::Origin;
use crate::config::raw::Raw;
use crate::config::schema::Schema;

const PREFIX: &str = "POSTRIDER__";
const JOINT: &str = "__";

/// Reads every variable with the prefix. An unknown key is a problem, as in the file.
pub(super) fn read(schema: Schema, environment: &Environment, reading: &mut Reading) {
    for (name, path, value) in environment.starting_with(PREFIX) {
        let path = path.to_ascii_lowercase();
        let mut path: Vec<&str> = path.split(JOINT).collect();
        let known = known_name(reading, &path);
        if let (Some(known), [_, name, .., _]) = (&known, &mut path[..]) {
            *name = known;
            let key = path.len() - 1;
            path.drain(2..key);
        }
        let (raw, origin) = (Raw::Loose(value.to_owned()), Origin::Env(name.to_owned()));
        reading.take_path(schema, &path, JOINT, raw, origin);
    }
}

/// The name in the file that a variable means: variables distinguish neither case nor `-` and `_`.
fn known_name(reading: &Reading, path: &[&str]) -> Option<String> {
    let [section, middle @ .., _] = path else { return None };
    let (section, spelt) = (Section::top(section)?, middle.join(JOINT));
    let names = reading.groups.iter().filter(|(group, _)| group.section == section);
    names.filter_map(|(group, _)| group.name.clone()).find(|name| as_variable(name) == spelt)
}

fn as_variable(name: &str) -> String {
    name.to_ascii_lowercase().replace(['-', '.'], "_")
}
