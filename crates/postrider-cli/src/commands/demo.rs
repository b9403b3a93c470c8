//! `postrider demo`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use postrider::{Code, Error};

use crate::context::Context;
use crate::demo::destination::{Analytics, AuditFile, Receiver};
use crate::demo::folder::Folder;
use crate::demo::plan::Plan;
use crate::demo::run::run;
use crate::demo::view::{View, summary};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider demo                                watch it for 15 seconds, or until Ctrl-C
  postrider demo --folder /tmp/shop             the same, and keep the files
  postrider demo --events 20000 --exit --json   for scripts: full speed, figures as JSON";

/// Default duration of the demo.
const OPEN_FOR: Duration = Duration::from_secs(15);

/// The same with the dashboard: long enough to look around.
const OPEN_FOR_DASHBOARD: Duration = Duration::from_secs(600);

/// How long `analytics` takes for a batch with the live view.
const ANALYTICS_DELAY: Duration = Duration::from_millis(8);

/// Run a demo: a small shop on a new SQLite file
///
/// Writers commit orders with their events, or roll both back; a relay delivers the events to a file (audit)
/// and to a handler in this process (analytics), which fails sometimes and is down for a while. At the end,
/// the committed events are compared with those that arrived: exit code 1 if an event is lost, invented or
/// out of order. Ctrl-C closes the shop early, a second one exits immediately; the exit code is then 130.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Demo {
    /// Close the shop after this many seconds [default: 15, unless --events is given]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,

    /// Close the shop after this many committed events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub events: Option<u64>,

    /// No live view and no outage: write at full speed and exit when all events have arrived
    #[arg(long)]
    pub exit: bool,

    /// Print one line per second instead of the live view
    #[arg(long)]
    pub plain: bool,

    /// Also serve the dashboard of the shop, for ten minutes unless --seconds or --events is given
    #[cfg(feature = "dashboard")]
    #[arg(long)]
    pub dashboard: bool,

    /// Keep the temporary folder with the database and the delivered events
    #[arg(long, conflicts_with = "folder")]
    pub keep: bool,

    /// Write the files to this folder, and keep them
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

impl Demo {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let folder = match &self.folder {
            Some(path) => Folder::named(path)?,
            None => Folder::temporary(self.keep)?,
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
                Error::new(Code::RelayStopped, "cannot start a runtime for the relay").with_source(error)
            })?;
        self.serve_dashboard(context, &folder)?;
        // The live view would cover the link.
        let mut view = View::open(context.output, self.plain || self.has_dashboard())?;
        let report = runtime.block_on(run(&self.plan(), &folder, self.receivers(&folder)?, &mut view));
        // The terminal is restored before anything is printed.
        drop(view);
        let report = report?.in_folder(&folder);
        if context.output.is_json() {
            context.output.json(&report)?;
        } else {
            context.output.text(summary(&report, context.output.paint()))?;
        }
        report.ended()
    }

    #[cfg(feature = "dashboard")]
    fn has_dashboard(&self) -> bool {
        self.dashboard
    }

    #[cfg(not(feature = "dashboard"))]
    fn has_dashboard(&self) -> bool {
        false
    }

    #[cfg(feature = "dashboard")]
    fn serve_dashboard(&self, context: &Context, folder: &Folder) -> Result<(), Failure> {
        if self.dashboard { super::dashboard::serve_demo(context, &folder.database()) } else { Ok(()) }
    }

    #[cfg(not(feature = "dashboard"))]
    fn serve_dashboard(&self, _: &Context, _: &Folder) -> Result<(), Failure> {
        Ok(())
    }

    fn plan(&self) -> Plan {
        let open_for = self.seconds.map(Duration::from_secs);
        let default = if self.has_dashboard() { OPEN_FOR_DASHBOARD } else { OPEN_FOR };
        let open_for = open_for.or_else(|| self.events.is_none().then_some(default));
        Plan { open_for, events: self.events, hurry: self.exit }
    }

    fn receivers(&self, folder: &Folder) -> Result<Vec<Receiver>, Failure> {
        let audit = folder.audit();
        let delay = if self.exit { Duration::ZERO } else { ANALYTICS_DELAY };
        Ok(vec![
            Receiver {
                name: "audit",
                target: "to audit.jsonl".into(),
                destination: Arc::new(AuditFile::open(&audit)?),
            },
            Receiver {
                name: "analytics",
                target: "to a handler that fails sometimes".into(),
                destination: Arc::new(Analytics::new(delay)),
            },
        ])
    }
}
