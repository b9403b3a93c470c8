//! Responses: pages, redirects, and failures as pages.

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use axum::response::Response;
use postrider::{Code, Error};

use crate::App;
use crate::login::{Person, Role};
use crate::request::encoded;

/// What a page returns.
pub(crate) type Answer = Result<Response, Failure>;

/// Why there is no page.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An operation failed.
    Error(Error),
    /// The request was wrong.
    Refused { status: StatusCode, title: &'static str, what: String },
}

impl Failure {
    pub(crate) fn not_found(what: &str) -> Self {
        Self::Refused { status: StatusCode::NOT_FOUND, title: "Not found", what: what.to_owned() }
    }

    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        Self::Refused { status: StatusCode::BAD_REQUEST, title: "That does not work", what: what.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// What the frame of every page shows.
#[derive(Debug, Clone)]
pub(crate) struct PageContext {
    /// The path under which the dashboard is mounted.
    pub(crate) base: String,
    /// The first page: the path under which the dashboard is mounted, or a slash.
    pub(crate) home: String,
    /// The outbox of this page, else the first one.
    pub(crate) outbox: String,
    /// The part of every link into that outbox.
    pub(crate) outbox_path: String,
    pub(crate) outboxes: Vec<String>,
    pub(crate) person: Option<Person>,
    /// The last part of the path that the navigation knows.
    pub(crate) section: String,
    /// The page before a change could be made.
    pub(crate) can_change: bool,
    pub(crate) can_read: bool,
}

impl PageContext {
    pub(crate) fn new(app: &App, person: Option<&Person>, outbox: Option<String>, path: &str) -> Self {
        let outboxes: Vec<String> = app.outboxes.names().map(str::to_owned).collect();
        let outbox = outbox.filter(|name| outboxes.contains(name));
        let section = match (path.split('/').nth(3), path) {
            (Some(section), _) => section.to_owned(),
            (None, "/") => "overview".to_owned(),
            (None, path) => path.trim_start_matches('/').to_owned(),
        };
        let outbox = outbox.or_else(|| outboxes.first().cloned()).unwrap_or_default();
        let is = |role| person.is_some_and(|person| person.role >= role);
        Self {
            base: app.prefix.clone(),
            home: app.home().to_owned(),
            outbox_path: format!("{}/o/{}", app.prefix, encoded(&outbox)),
            outbox,
            outboxes,
            person: person.cloned(),
            section,
            can_change: is(Role::Operator),
            can_read: is(Role::Reader),
        }
    }

    /// `page` if the page belongs to that part of the navigation.
    pub(crate) fn current(&self, section: &str) -> &'static str {
        if self.section == section { "page" } else { "false" }
    }

    /// The same page of another outbox.
    pub(crate) fn of_outbox(&self, outbox: &str) -> String {
        let section = match self.section.as_str() {
            section @ ("events" | "waiting" | "dead" | "audit" | "inbox" | "handlers") => section,
            _ => "waiting",
        };
        format!("{}/o/{}/{section}", self.base, encoded(outbox))
    }
}

/// A page.
pub(crate) fn page(template: &impl Template) -> Answer {
    html(StatusCode::OK, template)
}

/// A page with another status.
pub(crate) fn html(status: StatusCode, template: &impl Template) -> Answer {
    let text = template.render().map_err(|e| {
        Error::new(Code::RelayStopped, format!("the page cannot be shown: {e}"))
            .with_hint("report this as a bug")
    })?;
    Ok(with_type(status, "text/html; charset=utf-8", text))
}

/// After a POST: the browser loads this page, and a reload repeats nothing.
pub(crate) fn see_other(target: &str) -> Response {
    let mut response = plain(StatusCode::SEE_OTHER, "");
    if let Ok(target) = HeaderValue::from_str(target) {
        response.headers_mut().insert(LOCATION, target);
    }
    response
}

pub(crate) fn plain(status: StatusCode, text: &str) -> Response {
    with_type(status, "text/plain; charset=utf-8", text.to_owned())
}

pub(crate) fn with_type(status: StatusCode, content: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content));
    response
}

#[derive(Template)]
#[template(path = "failure.html")]
struct FailurePage {
    page: PageContext,
    title: String,
    what: String,
    code: Option<String>,
    effect: Option<String>,
    hint: Option<String>,
}

/// The page of a failure.
pub(crate) fn failure(page: PageContext, failure: Failure) -> Response {
    let (status, shown) = match failure {
        Failure::Refused { status, title, what } => {
            let title = title.to_owned();
            (status, FailurePage { page, title, what, code: None, effect: None, hint: None })
        }
        Failure::Error(error) => {
            let status = status_of(error.code());
            let title = match status {
                StatusCode::NOT_FOUND => "Not found",
                StatusCode::BAD_REQUEST => "That does not work",
                _ => "The database did not do this",
            };
            let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let shown = FailurePage {
                page,
                title: title.to_owned(),
                what: error.message().to_owned(),
                code: Some(error.code().to_string()),
                effect: text(error.effect()),
                hint: text(error.hint()),
            };
            (status, shown)
        }
    };
    html(status, &shown).unwrap_or_else(|_| plain(status, "the page cannot be shown\n"))
}

fn status_of(code: Code) -> StatusCode {
    match code {
        Code::SubscriptionUnknown | Code::EventUnknown => StatusCode::NOT_FOUND,
        Code::LayoutDiffers | Code::ConfigValue | Code::HistoryChanged | Code::NameInvalid => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// For a path that no route has. Says nothing about the outboxes.
pub(crate) fn not_found(app: &App) -> Response {
    let page = PageContext::new(app, None, None, "");
    failure(page, Failure::not_found("There is no such page."))
}

/// For a person whose role is not enough.
pub(crate) fn forbidden(app: &App, person: &Person, needed: Role) -> Response {
    let page = PageContext::new(app, Some(person), None, "");
    let what = format!(
        "This needs the role {}. {} has the role {}.",
        needed.as_str(),
        person.name,
        person.role.as_str()
    );
    failure(page, Failure::Refused { status: StatusCode::FORBIDDEN, title: "Not allowed", what })
}
