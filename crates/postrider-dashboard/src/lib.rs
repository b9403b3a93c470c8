//! The dashboard: a page in the browser that shows where every event of an outbox is, and why, and from which an operator
//! acts on everything that matches a filter.
//!
//! [`Dashboard::router`] is an axum `Router` to mount in a program of your own; the command `postrider dashboard` serves it
//! alone. It reads and changes the outbox only through [`postrider::operate`], as the command line does, with the same
//! filters, counts and audit rows. Pages are rendered on the server and work without JavaScript; nothing is loaded from
//! another host.
//!
//! ```no_run
//! use postrider_dashboard::{Dashboard, Login, Role, Token};
//! # async fn example(admin: impl postrider::store::admin::Admin + 'static) -> postrider::Result<()> {
//! let token = Token::new("alice", Role::Operator, "a secret of at least 16 characters");
//! let login = Login::tokens([token])?.host("ops.example.com").https(true);
//! let dashboard = Dashboard::new(login).prefix("/postrider").outbox("shop", admin);
//! let router: axum::Router = axum::Router::new().nest("/postrider", dashboard.router());
//! # Ok(())
//! # }
//! ```
//!
//! # How a request is answered
//!
//! 1. `guard`: the host, the origin of a change, the security headers of every response
//! 2. `routes`: the one table of all routes, each with the role that it needs
//! 3. `sessions`: who has logged in; `login` the tokens and the link
//! 4. `pages`: one file per page
//! 5. `plans`: a change, from its count to its result
//!
//! `outboxes` holds the databases and the one query that all open pages share; `history` and `chart` draw from it.

mod chart;
mod checks;
mod filters;
mod guard;
mod history;
mod login;
mod outboxes;
mod pages;
mod payload;
mod plans;
mod request;
mod respond;
mod routes;
mod sessions;
mod words;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use postrider::store::admin::Admin;

pub use login::{Login, Role, Token};
pub use outboxes::{Finding, Severity, Source};
#[doc(hidden)]
pub use routes::route_table;

use outboxes::Outboxes;
use plans::Plans;
use sessions::Sessions;

/// A dashboard over some outboxes.
pub struct Dashboard {
    login: Login,
    prefix: String,
    redacted: Vec<String>,
    sources: Vec<(String, Arc<dyn Source>)>,
    checks: Option<checks::Run>,
}

/// What all requests share.
pub(crate) struct App {
    pub(crate) login: Login,
    /// The path under which the router is mounted: empty, or with a slash at its start only.
    pub(crate) prefix: String,
    /// Members of JSON payloads whose values are never shown, in lower case.
    pub(crate) redacted: Vec<String>,
    pub(crate) sessions: Sessions,
    pub(crate) outboxes: Arc<Outboxes>,
    pub(crate) plans: Plans,
    pub(crate) checks: checks::Checks,
}

impl App {
    /// The path of the first page.
    pub(crate) fn home(&self) -> &str {
        if self.prefix.is_empty() { "/" } else { &self.prefix }
    }
}

impl Dashboard {
    /// A dashboard without outboxes.
    pub fn new(login: Login) -> Self {
        Self { login, prefix: String::new(), redacted: Vec::new(), sources: Vec::new(), checks: None }
    }

    /// The path under which the router will be mounted, such as `/postrider`. Links and cookies need it.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        let path = prefix.trim_matches('/');
        self.prefix = if path.is_empty() { String::new() } else { format!("/{path}") };
        self
    }

    /// Shows this outbox under this name.
    #[must_use]
    pub fn outbox(mut self, name: impl Into<String>, source: impl Source) -> Self {
        self.sources.push((name.into(), Arc::new(source)));
        self
    }

    /// Never shows the values of members with these names in JSON payloads, at any depth, in any case. A payload that is not
    /// JSON is then not shown at all.
    #[must_use]
    pub fn redact(mut self, members: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.redacted.extend(members.into_iter().map(|name| name.into().to_lowercase()));
        self
    }

    /// Shows the findings of these checks, such as those of `postrider doctor`. They run when a person opens their page.
    #[must_use]
    pub fn checks<F>(mut self, run: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Vec<Finding>> + Send + 'static,
    {
        self.checks = Some(Arc::new(move || Box::pin(run())));
        self
    }

    /// The routes. Needs a tokio runtime: from now on the state of the outboxes is read every few seconds, until the router
    /// is dropped.
    ///
    /// Serve it with `into_make_service_with_connect_info::<SocketAddr>()`, so that failed logins are counted per address.
    pub fn router(self) -> Router {
        let outboxes = Outboxes::watch(self.sources);
        let app = App {
            sessions: Sessions::default(),
            plans: Plans::default(),
            checks: checks::Checks::new(self.checks),
            login: self.login,
            prefix: self.prefix,
            redacted: self.redacted,
            outboxes,
        };
        routes::router(Arc::new(app))
    }
}

/// Serves a router until the future is dropped.
///
/// # Errors
/// The error of the operating system, if it no longer accepts connections.
pub async fn serve(socket: tokio::net::TcpListener, router: Router) -> std::io::Result<()> {
    axum::serve(socket, router.into_make_service_with_connect_info::<SocketAddr>()).await
}

impl<A: Admin + 'static> Source for A {
    fn admin(&self) -> &dyn Admin {
        self
    }
}
