//! `[dashboard]`

use std::collections::BTreeMap;
use std::net::SocketAddr;

use postrider::Code;

use super::ConfigTable;
use crate::config::problem::Problem;
use crate::config::secret::Secret;
use crate::config::value::Value;

/// The shortest token.
const TOKEN_CHARS_MIN: usize = 16;

/// The dashboard of this program.
#[derive(Debug, Clone)]
pub struct DashboardSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The names under which browsers reach it.
    pub hosts: Vec<String>,
    /// Browsers reach it with HTTPS only.
    pub https: bool,
    /// Who may log in. Empty: the person with the link that the program prints.
    pub tokens: Vec<TokenSettings>,
    /// Members of payloads that are never shown.
    pub redact: Vec<String>,
}

/// A token.
#[derive(Debug, Clone)]
pub struct TokenSettings {
    /// The name in the audit trail.
    pub name: String,
    /// `viewer`, `reader` or `operator`.
    pub role: String,
    /// The token.
    pub token: Secret,
}

impl DashboardSettings {
    pub(super) fn read(table: &ConfigTable<'_>) -> Result<Self, Problem> {
        let text = table.required("listen", table.text("listen")?)?;
        let why = "write it as ADDRESS:PORT, such as 127.0.0.1:9465 or [::1]:9465";
        let listen: SocketAddr = text.parse().map_err(|_| table.problem("listen", Code::ConfigValue, why))?;
        let tokens = table.tables("tokens")?.unwrap_or_default();
        let tokens: Vec<TokenSettings> =
            tokens.iter().map(|fields| token(table, fields)).collect::<Result<_, _>>()?;
        if !listen.ip().is_loopback() && tokens.is_empty() {
            let why = "other machines can reach this address, and there is no token";
            let hint = "add for example: tokens = [{ name = \"alice\", role = \"viewer\", token = \"env:ALICE_TOKEN\" }], \
                        or use a loopback address";
            return Err(table.problem("listen", Code::ConfigValue, why).with_hint(hint));
        }
        for (number, of) in tokens.iter().enumerate() {
            let others = tokens.iter().take(number);
            let why = match &of.token {
                _ if others.clone().any(|other| other.name == of.name) => "has the same name as another one",
                token if others.clone().any(|other| other.token == *token) => "is the same as another one",
                token if token.expose_secret().chars().count() < TOKEN_CHARS_MIN => {
                    "has fewer than 16 characters: it can be guessed"
                }
                _ => continue,
            };
            return Err(table.problem(
                "tokens",
                Code::ConfigValue,
                &format!("the token of {:?} {why}", of.name),
            ));
        }
        let hosts = table.list("hosts")?.unwrap_or_default();
        let (https, redact) = (table.bool("https")?, table.list("redact")?.unwrap_or_default());
        Ok(Self { listen, hosts, https, tokens, redact })
    }
}

fn token(table: &ConfigTable<'_>, fields: &BTreeMap<String, Value>) -> Result<TokenSettings, Problem> {
    let text = |name: &str| match fields.get(name) {
        Some(Value::Text(text)) => text.clone(),
        _ => String::new(),
    };
    let secret = table.secret_field("tokens", fields, "token")?.unwrap_or_default();
    Ok(TokenSettings { name: text("name"), role: text("role"), token: Secret::new(secret) })
}
