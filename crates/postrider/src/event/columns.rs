//! Headers and action of an event as the JSON of their columns.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{ActionContext, Headers};
use crate::{Code, Error, Result};

/// The column `headers`: an object of strings, or `None` if there are no headers.
pub(crate) fn headers_to_json(headers: &Headers) -> Result<Option<String>> {
    if headers.is_empty() {
        return Ok(None);
    }
    let object: BTreeMap<_, _> = headers.iter().collect();
    serde_json::to_string(&object).map(Some).map_err(|e| refused("the headers", e))
}

/// Reads the column `headers`. A value that is not a string, which only other writers can write, becomes its JSON text.
#[cfg(feature = "_store")]
pub(crate) fn headers_from_json(text: &str) -> Result<Headers> {
    let object: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|e| damaged("its headers are not a JSON object", e))?;
    let value = |value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(object.into_iter().map(|(name, json)| (name, value(json))).collect())
}

/// The JSON of an action. Its params are embedded as JSON, not as a string.
#[derive(Serialize, Deserialize)]
struct ActionColumn {
    id: Uuid,
    name: String,
    params: Box<RawValue>,
    started: i64,
    completed: i64,
}

/// The column `action`.
pub(crate) fn action_to_json(action: &ActionContext) -> Result<String> {
    let params = RawValue::from_string(action.params.clone())
        .map_err(|e| Error::new(Code::ParamsInvalid, "the action's params are not JSON").with_source(e))?;
    let column = ActionColumn {
        id: action.id,
        name: action.name.clone(),
        params,
        started: action.started.as_micros(),
        completed: action.completed.as_micros(),
    };
    serde_json::to_string(&column).map_err(|e| refused("the action", e))
}

/// Reads the column `action`.
#[cfg(feature = "_store")]
pub(crate) fn action_from_json(text: &str) -> Result<ActionContext> {
    let column: ActionColumn =
        serde_json::from_str(text).map_err(|e| damaged("its action is not valid", e))?;
    Ok(ActionContext {
        id: column.id,
        name: column.name,
        params: column.params.get().to_owned(),
        started: crate::Timestamp::from_micros(column.started),
        completed: crate::Timestamp::from_micros(column.completed),
    })
}

fn refused(what: &str, cause: serde_json::Error) -> Error {
    Error::new(Code::PayloadSerialise, format!("{what} cannot be written as JSON")).with_source(cause)
}

#[cfg(feature = "_store")]
fn damaged(what: &str, cause: serde_json::Error) -> Error {
    Error::new(Code::RowDamaged, what).with_source(cause)
}
