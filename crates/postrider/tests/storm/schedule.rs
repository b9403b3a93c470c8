//! One interleaving, step by step, for design errors that need a moment which the storm may not reach.
//!
//! The quick writer registers first, and the slow one takes the first position, for key k0. The quick one commits the
//! second position, for k1. The reader polls twice: it knows the hole, and which writers may fill it. In the last pause
//! of its third poll, the slow writer commits, and then the quick one writes and commits k0.

use std::sync::Arc;

use postrider::{BoxFuture, Result};
use postrider_testkit::verify::{Sighting, Verdict};

use super::database::{Database, Session};
use super::designs::{Design, ReaderState};
use super::reader::Log;

/// Runs a design in this schedule, on an empty outbox and a server without other activity.
pub(crate) async fn run<D: Database>(database: &Arc<D>, design: Design) -> Result<Verdict> {
    let (mut slow, mut quick) = (database.connect().await?, database.connect().await?);
    let mut reader: Reader<D> =
        Reader { state: ReaderState::default(), probe: database.probe().await?, design, log: Log::default() };
    quick.begin(None).await?;
    quick.register_early().await?;
    slow.begin(None).await?;
    slow.write("k0").await?;
    quick.write("k1").await?;
    quick.commit().await?;

    reader.poll(&mut None).await?;
    reader.poll(&mut None).await?;
    let commits = async move {
        slow.commit().await.unwrap();
        quick.begin(None).await.unwrap();
        quick.write("k0").await.unwrap();
        quick.commit().await.unwrap();
    };
    let mut meanwhile: Option<BoxFuture<'static, ()>> = Some(Box::pin(commits));
    reader.poll(&mut meanwhile).await?;
    if let Some(commits) = meanwhile {
        // The poll had no pause.
        commits.await;
    }
    for _ in 0..12 {
        reader.poll(&mut None).await?;
    }
    let committed: Vec<Sighting> =
        database.committed().await?.into_iter().map(|event| event.sighting).collect();
    Ok(reader.log.verify(&committed))
}

struct Reader<D: Database> {
    state: ReaderState,
    probe: D::Probe,
    design: Design,
    log: Log,
}

impl<D: Database> Reader<D> {
    /// One poll. The future runs in its last pause.
    async fn poll(&mut self, meanwhile: &mut Option<BoxFuture<'static, ()>>) -> Result<()> {
        let mut pauses_left = if self.design == Design::TwoStatements { 2 } else { 1 };
        let mut delay = || -> BoxFuture<'static, ()> {
            pauses_left -= 1;
            let happens = if pauses_left == 0 { meanwhile.take() } else { None };
            happens.unwrap_or_else(|| Box::pin(std::future::ready(())))
        };
        let found = self.state.poll(&mut self.probe, self.design, &mut delay).await?;
        found.into_iter().for_each(|event| self.log.deliver(event.sighting));
        Ok(())
    }
}
