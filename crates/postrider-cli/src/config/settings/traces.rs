//! `[traces]`

use postrider::Code;

use super::ConfigTable;
use crate::config::problem::Problem;
use crate::config::secret::Secret;

/// Where a relay sends its spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracesSettings {
    /// The base URL of the collector, without a slash at its end.
    pub endpoint: String,
    /// The value of the header `Authorization`.
    pub authorization: Option<Secret>,
    /// The attribute `service.name`.
    pub service_name: String,
}

impl TracesSettings {
    pub(super) fn read(table: &ConfigTable<'_>) -> Result<Option<Self>, Problem> {
        let refused = |why| Err(table.problem("endpoint", Code::ConfigValue, why));
        let authorization = table.secret("authorization")?;
        let service_name = table.required("service_name", table.text("service_name")?)?;
        let Some(endpoint) = table.text("endpoint")? else { return Ok(None) };
        let after_scheme = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
        let Some(rest) = after_scheme.filter(|rest| !rest.is_empty()) else {
            return refused("write it as http://HOST:PORT or https://HOST:PORT");
        };
        // This value is printed by `config show` and may be logged.
        if rest.contains(['@', '?', '#']) {
            return refused("it must not contain a user, a password or a query; use `authorization`");
        }
        if rest.contains(|one: char| one.is_whitespace() || one.is_control()) {
            return refused("it contains white space or control characters");
        }
        if cfg!(not(feature = "otlp")) {
            return refused("this program was built without the feature `otlp`");
        }
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Ok(Some(Self { endpoint, authorization, service_name }))
    }
}
