//! `postrider dashboard`

use std::net::SocketAddr;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use postrider::store::admin::Admin;
use postrider::{Code, Error};
use postrider_dashboard::{Finding, Login, Role, Severity, Source, Token};
use tokio::net::TcpListener;

use super::outbox_arg::OutboxArg;
use crate::config::Settings;
use crate::config::settings::DashboardSettings;
use crate::context::Context;
use crate::database::Database;
use crate::doctor;
use crate::failure::Failure;
use crate::interrupt::{Interrupts, Threads, block_on};
use crate::{log, operator};

const EXAMPLES: &str = "Examples:
  postrider dashboard                     prints a link for this machine, for one person who may look
  postrider dashboard --role operator     the same, for a person who may also change events
  postrider dashboard --outbox shop       only one outbox
  postrider dashboard --set dashboard.listen=127.0.0.1:8080";

/// A transaction that is open for longer than this is reported on the page of the doctor.
const TRANSACTION_AGE_MAX: std::time::Duration = std::time::Duration::from_secs(5 * 60);

/// Serve a page in the browser that shows where every event is, and why
///
/// It reads the databases of the configuration, and works whether a relay runs or not. Without `tokens` in the
/// configuration it prints a link that works once, for one person on this machine; with `tokens`, people log in with
/// theirs, and each has a role: a viewer sees no payload, a reader does, an operator changes events. Every change has a
/// reason and an entry in the audit trail. Ctrl-C ends it, and all sessions.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Dashboard {
    /// Role of the person who uses the link; tokens have roles of their own
    #[arg(long, value_enum, default_value_t = LinkRole::Viewer)]
    role: LinkRole,

    #[command(flatten)]
    outbox: OutboxArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LinkRole {
    /// Sees states, keys, types and errors, but no payload
    Viewer,
    /// Also sees payloads, each time with an entry in the audit trail
    Reader,
    /// Also changes events and subscriptions
    Operator,
}

impl From<LinkRole> for Role {
    fn from(role: LinkRole) -> Self {
        match role {
            LinkRole::Viewer => Self::Viewer,
            LinkRole::Reader => Self::Reader,
            LinkRole::Operator => Self::Operator,
        }
    }
}

/// An outbox of the configuration.
struct Configured(Arc<Database>);

impl Source for Configured {
    fn admin(&self) -> &dyn Admin {
        self.0.admin()
    }
}

impl Dashboard {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        log::start(&settings.relay, None, context.output);
        block_on(Threads::Many, self.serve(context, &settings))
    }

    async fn serve(&self, context: &Context, settings: &Settings) -> Result<(), Failure> {
        let mut interrupts = Interrupts::listen()?;
        let of = &settings.dashboard;
        let outboxes = self.outbox.all_or_named(settings)?;
        let socket = TcpListener::bind(of.listen).await.map_err(|e| {
            let what = format!("cannot listen on {} ([dashboard] listen)", of.listen);
            Error::new(Code::HttpListen, what).with_source(e)
        })?;
        let address = socket.local_addr().unwrap_or(of.listen);
        let (login, link) = login(of, address, self.role.into())?;
        let mut dashboard = postrider_dashboard::Dashboard::new(login).redact(&of.redact);
        for (name, outbox) in outboxes {
            dashboard = dashboard.outbox(name, Configured(outbox.database.clone()));
        }
        let checked = Arc::new(settings.clone());
        let router = dashboard.checks(move || findings(checked.clone())).router();
        match link {
            Some(secret) => context.output.text(format_args!("http://{address}/login#link={secret}"))?,
            None => context.output.text(format_args!("http://{address}/"))?,
        }
        match link_note(of) {
            Some(note) => context.output.say(note),
            None => context.output.say("people log in with their tokens; Ctrl-C ends it"),
        }
        tokio::select! {
            ended = postrider_dashboard::serve(socket, router) => {
                let failed = |e| Error::new(Code::HttpListen, "the dashboard accepts no more connections").with_source(e);
                Ok(ended.map_err(failed)?)
            }
            () = interrupts.next() => Ok(()),
        }
    }
}

/// Serves the outbox of the demo in a thread of its own, until the process ends, and prints the link.
#[cfg(feature = "sqlite")]
pub(super) fn serve_demo(context: &Context, database: &std::path::Path) -> Result<(), Failure> {
    let admin = postrider::store::admin::SqliteAdmin::new(database, None)?;
    let (login, secret) = Login::link(operator::name(), Role::Operator)?;
    let (bound, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        block_on(Threads::One, async {
            let listen = SocketAddr::from(([127, 0, 0, 1], 0));
            let failed = |e| Error::new(Code::HttpListen, "the dashboard cannot listen").with_source(e);
            let socket = TcpListener::bind(listen).await.map_err(failed)?;
            let address = socket.local_addr().map_err(failed)?;
            let dashboard = postrider_dashboard::Dashboard::new(login.address(address)).outbox("shop", admin);
            let _ = bound.send(address);
            Ok(postrider_dashboard::serve(socket, dashboard.router()).await.map_err(failed)?)
        })
    });
    let address = address.recv().map_err(|_| Error::new(Code::HttpListen, "the dashboard cannot listen"))?;
    context.output.say(format!("dashboard: http://{address}/login#link={secret}"));
    Ok(())
}

fn link_note(of: &DashboardSettings) -> Option<&'static str> {
    let note = "open this link in the browser: it works once, within 15 minutes; Ctrl-C ends the dashboard";
    of.tokens.is_empty().then_some(note)
}

/// Who may log in; without tokens, the secret of a link too.
fn login(of: &DashboardSettings, address: SocketAddr, role: Role) -> Result<(Login, Option<String>), Error> {
    let (login, link) = if of.tokens.is_empty() {
        let (login, secret) = Login::link(operator::name(), role)?;
        (login, Some(secret))
    } else {
        let token = |token: &crate::config::settings::TokenSettings| {
            let role = Role::from_word(&token.role).unwrap_or(Role::Viewer);
            Token::new(&token.name, role, token.token.expose_secret())
        };
        (Login::tokens(of.tokens.iter().map(token))?, None)
    };
    let login = of.hosts.iter().fold(login, |login, host| login.host(host));
    Ok((login.address(address).https(of.https), link))
}

/// The checks of `postrider doctor`. Their futures stay on one thread, so they get one of their own.
async fn findings(settings: Arc<Settings>) -> Vec<Finding> {
    let run = move || {
        let options = doctor::Options { deep: false, transaction_age_max: TRANSACTION_AGE_MAX };
        block_on(Threads::One, async { Ok(doctor::check(&settings, &options).await) })
    };
    let report = match tokio::task::spawn_blocking(run).await {
        Ok(Ok(report)) => report,
        Ok(Err(_)) | Err(_) => doctor::Report::default(),
    };
    let finding = |of: &doctor::report::Finding| Finding {
        severity: match of.outcome {
            doctor::Severity::Ok => Severity::Ok,
            doctor::Severity::Warn => Severity::Warn,
            doctor::Severity::Fail => Severity::Fail,
        },
        code: of.code.clone(),
        subject: of.subject.clone(),
        what: of.what.clone(),
        meaning: of.meaning.to_owned(),
        fix: of.fix.clone(),
    };
    report.findings().iter().map(finding).collect()
}
