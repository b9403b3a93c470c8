//! The schemas of a sink: files and registry.

use postrider::encode::schema::{CheckedSchema, SchemaCheck, SchemaConfig, SchemaEncoder};

use super::{Check, Subject};

pub(super) async fn check(config: &SchemaConfig, subject: &mut Subject<'_>) {
    let encoder = match SchemaEncoder::open(config) {
        Ok(encoder) => encoder,
        Err(error) => return subject.fail(Check::SchemasReadable, error.one_line()),
    };
    let count = config.schemas.len();
    subject.ok(Check::SchemasReadable, format!("{count} schema(s) of encoder {}", config.format.name()));
    let Some(address) = encoder.registry_address() else { return };
    let checked = match encoder.check().await {
        Ok(checked) => checked,
        Err(error) => return subject.fail(Check::SchemasRegistered, error.one_line()),
    };
    let register = config.registry.as_ref().is_some_and(|registry| registry.register);
    let problems: Vec<String> = checked.iter().filter_map(|schema| problem(schema, register)).collect();
    match problems.is_empty() {
        true => subject.ok(Check::SchemasRegistered, format!("{address} accepts all {}", checked.len())),
        false => problems.into_iter().for_each(|what| subject.fail(Check::SchemasRegistered, what)),
    }
}

fn problem(schema: &CheckedSchema, register: bool) -> Option<String> {
    let subject = &schema.subject;
    match schema.registry.as_ref()? {
        SchemaCheck::Known { .. } => None,
        SchemaCheck::NewSubject | SchemaCheck::Compatible if register => None,
        SchemaCheck::Incompatible(words) => {
            Some(format!("subject {subject:?} does not accept the schema: {words}"))
        }
        _ => Some(format!(
            "the registry does not know the schema of subject {subject:?}, and `register` is not set"
        )),
    }
}
