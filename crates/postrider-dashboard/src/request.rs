//! A request, as pages see it.

use std::net::IpAddr;
use std::sync::Arc;

use postrider::operate::Operator;

use crate::App;
use crate::login::{Person, Role};
use crate::outboxes::Outbox;
use crate::respond::{Failure, PageContext};

/// Names and values, in their order.
pub(crate) type Pairs = Vec<(String, String)>;

/// A request of a person who may use its route.
pub(crate) struct Cx {
    pub(crate) app: Arc<App>,
    pub(crate) params: Pairs,
    pub(crate) query: Pairs,
    pub(crate) form: Pairs,
    pub(crate) path: String,
    /// `None` only on a route for everyone.
    pub(crate) person: Option<Person>,
    pub(crate) cookie: Option<String>,
    pub(crate) from: Option<IpAddr>,
}

impl Cx {
    /// A part of the path; the table of routes has it.
    pub(crate) fn param(&self, name: &str) -> &str {
        find(&self.params, name).unwrap_or_default()
    }

    /// A value of the query, if it is not empty.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        find(&self.query, name)
    }

    /// A value of the form, if it is not empty.
    pub(crate) fn form(&self, name: &str) -> Option<&str> {
        find(&self.form, name)
    }

    /// All values of the form with this name.
    pub(crate) fn form_all(&self, name: &str) -> Vec<String> {
        self.form.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect()
    }

    /// The outbox in the path.
    ///
    /// # Errors
    /// If there is none with this name.
    pub(crate) fn outbox(&self) -> Result<Arc<Outbox>, Failure> {
        self.app
            .outboxes
            .get(self.param("outbox"))
            .ok_or_else(|| Failure::not_found("There is no such outbox."))
    }

    /// The operations on an outbox, in the name of this person.
    ///
    /// # Errors
    /// The database's error.
    pub(crate) async fn operator(&self, outbox: &Outbox) -> Result<Operator, Failure> {
        Ok(Operator::new(outbox.store().await?, self.audit_name()))
    }

    /// This person's name in the audit trail.
    pub(crate) fn audit_name(&self) -> String {
        format!("{} (dashboard)", self.person.as_ref().map_or("-", |person| person.name.as_str()))
    }

    /// Whether this person has a role.
    pub(crate) fn is(&self, role: Role) -> bool {
        self.person.as_ref().is_some_and(|person| person.role >= role)
    }

    /// What the frame of a page shows.
    pub(crate) fn page_context(&self) -> PageContext {
        let outbox = find(&self.params, "outbox").map(str::to_owned);
        PageContext::new(&self.app, self.person.as_ref(), outbox, &self.path)
    }
}

/// A value, if it is there and not blank.
pub(crate) fn find<'a>(pairs: &'a Pairs, name: &str) -> Option<&'a str> {
    pairs
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

/// Reads a query or a form.
pub(crate) fn pairs(bytes: &[u8]) -> Pairs {
    form_urlencoded::parse(bytes).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// A text as a part of a path or query.
pub(crate) fn encoded(text: &str) -> String {
    // A space is `+` in a form only; `%20` is the same everywhere.
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// Pairs as a query, without those that are empty.
pub(crate) fn query_of(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
    pairs.map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}
