//! `--outbox`, for commands about one outbox or all.

use clap::Args;
use postrider::{Code, Error};

use crate::config::Settings;
use crate::config::settings::{OutboxSettings, configured_name};
use crate::config::suggest::did_you_mean;
use crate::failure::Failure;

/// The selected outbox.
#[derive(Debug, Args)]
pub(super) struct OutboxArg {
    /// Outbox of the configuration; NAME:GROUP.MEMBER for one of its shards
    #[arg(long = "outbox", id = "outbox", value_name = "NAME")]
    name: Option<String>,
}

impl OutboxArg {
    /// The selected outbox with all its shards, the selected shard, or all outboxes if none is selected.
    ///
    /// # Errors
    /// [`Code::ConfigReference`] if there is no outbox with this name, [`Code::ConfigKeyMissing`] if none is
    /// configured.
    pub(super) fn all_or_named<'a>(
        &self,
        settings: &'a Settings,
    ) -> Result<Vec<(&'a str, &'a OutboxSettings)>, Failure> {
        let all: Vec<_> = settings.outboxes.iter().map(|(name, outbox)| (name.as_str(), outbox)).collect();
        if all.is_empty() {
            return Err(Error::new(Code::ConfigKeyMissing, "no outbox is configured")
                .with_hint("create a config file with `postrider config init`, or pass --set outbox.NAME.url=sqlite:FILE")
                .into());
        }
        let Some(wanted) = &self.name else { return Ok(all) };
        let is_wanted = |name: &str| name == wanted || configured_name(name) == wanted;
        let found: Vec<_> = all.iter().filter(|(name, _)| is_wanted(name)).copied().collect();
        match found.is_empty() {
            false => Ok(found),
            true => {
                let error = Error::new(Code::ConfigReference, format!("there is no outbox {wanted:?}"));
                Err(match did_you_mean(wanted, all.iter().map(|(name, _)| *name)) {
                    Some(advice) => error.with_hint(advice).into(),
                    None => error.into(),
                })
            }
        }
    }

    /// The selected outbox, or all shards of the selected outbox, or the only one if none is selected.
    ///
    /// # Errors
    /// As [`OutboxArg::one`], except for shards of one outbox.
    pub(super) fn one_with_shards<'a>(
        &self,
        settings: &'a Settings,
    ) -> Result<Vec<(&'a str, &'a OutboxSettings)>, Failure> {
        let found = self.all_or_named(settings)?;
        let is_one = found.first().is_some_and(|(first, _)| {
            found.iter().all(|(name, _)| configured_name(name) == configured_name(first))
        });
        if is_one { Ok(found) } else { self.one(settings).map(|only| vec![only]) }
    }

    /// The selected outbox, or the only one if none is selected.
    ///
    /// # Errors
    /// As [`OutboxArg::all_or_named`], and [`Code::ConfigReference`] if there are several and none is selected.
    pub(super) fn one<'a>(&self, settings: &'a Settings) -> Result<(&'a str, &'a OutboxSettings), Failure> {
        match self.all_or_named(settings)?.as_slice() {
            [only] => Ok(*only),
            several => {
                let names: Vec<_> = several.iter().map(|(name, _)| *name).collect();
                let what = match several.iter().all(|(_, outbox)| outbox.shard.is_some()) {
                    true => "the outbox has several shards",
                    false => "several outboxes are configured",
                };
                Err(Error::new(Code::ConfigReference, format!("{what}: {}", names.join(", ")))
                    .with_hint("select one with --outbox NAME")
                    .into())
            }
        }
    }
}
