//! Selects the outboxes and the subscription.

use postrider::adopt::AdoptSource;
use postrider::layout::RowLayout;
use postrider::{Code, Error};

use crate::config::Settings;
use crate::config::settings::{OutboxSettings, configured_name};
use crate::failure::Failure;

/// An outbox of the configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedOutbox<'a> {
    pub(super) name: &'a str,
    pub(super) outbox: &'a OutboxSettings,
}

impl NamedOutbox<'_> {
    /// The name of its layout.
    pub(super) fn layout(&self) -> &'static str {
        self.outbox.database.admin().layout().map_or("postrider", |layout| layout.name())
    }
}

/// The outbox with this name, otherwise the only one with this layout.
pub(super) fn find_outbox<'a>(
    settings: &'a Settings,
    flag: &str,
    wanted: &str,
) -> Result<NamedOutbox<'a>, Failure> {
    let all = || settings.outboxes.iter().map(|(name, outbox)| NamedOutbox { name, outbox });
    let is_named = |of: &NamedOutbox<'_>| of.name == wanted || configured_name(of.name) == wanted;
    let mut like: Vec<NamedOutbox<'_>> = all().filter(is_named).collect();
    if like.is_empty() {
        like = all().filter(|named| named.layout() == wanted).collect();
    }
    let error = match like.as_slice() {
        [only] => return Ok(*only),
        [] => Error::new(
            Code::ConfigReference,
            format!("{flag}: no outbox has the name or layout {wanted:?}"),
        )
        .with_hint(format!(
            "configure both outboxes: [outbox.NAME] with the same url, layout = {wanted:?}, and a separate \
                 schema if the database has schemas"
        )),
        several => {
            let names: Vec<&str> = several.iter().map(|named| named.name).collect();
            let what = format!("{flag}: outboxes {} have the name or layout {wanted:?}", names.join(", "));
            Error::new(Code::ConfigReference, what).with_hint("pass the name of one of them")
        }
    };
    Err(error.into())
}

/// Rejects outboxes between which events cannot be moved.
pub(super) fn check(from: NamedOutbox<'_>, to: NamedOutbox<'_>) -> Result<(), Failure> {
    let (here, there) = (from.outbox.database.location(), to.outbox.database.location());
    let what = match (from.outbox.database.admin().layout(), to.outbox.database.admin().layout()) {
        (None, Some(RowLayout::Custom)) => {
            let what = format!(
                "outbox {:?} has the layout custom, and Postrider does not write to such tables",
                to.name
            );
            return Err(Error::new(Code::AdoptionRefused, what)
                .with_hint("insert the rows with your own program; adoption works only from such a table")
                .into());
        }
        (Some(_), Some(_)) => {
            format!("events cannot be moved directly from layout {} to {}", from.layout(), to.layout())
        }
        (None, None) => format!("outboxes {:?} and {:?} both have the layout postrider", from.name, to.name),
        _ if here != there => {
            let what = format!(
                "outbox {:?} is in {here} and {:?} in {there}, but one transaction must cover both",
                from.name, to.name
            );
            return Err(Error::new(Code::AdoptionRefused, what)
                .with_hint(
                    "create the other outbox in the same database, and configure the same url for both",
                )
                .into());
        }
        _ => return Ok(()),
    };
    Err(Error::new(Code::AdoptionRefused, what).into())
}

/// The requested subscription, otherwise the only one.
pub(super) async fn find_subscription(
    settings: &Settings,
    source: &dyn AdoptSource,
    from: NamedOutbox<'_>,
    to: NamedOutbox<'_>,
    wanted: Option<&str>,
) -> Result<String, Failure> {
    if let Some(wanted) = wanted {
        return Ok(wanted.to_owned());
    }
    let mut names: Vec<String> =
        source.overview(0).await?.subscriptions.into_iter().map(|of| of.name).collect();
    if from.outbox.database.admin().layout().is_some() {
        // No relay has served the table yet: use the configured subscription of this or of the other outbox.
        for outbox in [from.name, to.name] {
            if names.is_empty() {
                let of_it = settings.subscriptions.iter().filter(|(_, of)| of.reads(outbox));
                names = of_it.map(|(name, _)| name.clone()).collect();
            }
        }
    }
    match names.as_slice() {
        [only] => Ok(only.clone()),
        [] => {
            Err(Error::new(Code::SubscriptionUnknown, format!("outbox {:?} has no subscription", from.name))
                .with_hint("name the subscription with --subscription NAME")
                .into())
        }
        several => {
            let what = format!("outbox {:?} has subscriptions {}", from.name, several.join(", "));
            Err(Error::new(Code::ConfigReference, what)
                .with_hint("name one with --subscription NAME: its undelivered events are moved")
                .into())
        }
    }
}
