//! The state of a subscription in words, for the overview and its own page.

use postrider::Timestamp;
use postrider::store::{Overview, ParkedState, RelayOverview, SubscriptionOverview, SubscriptionState};

use crate::filters::Kind;
use crate::login::digest;
use crate::outboxes::{Outbox, Seen};
use crate::words::{When, age, bounded, grouped, per_second};
use crate::{chart, request::encoded};

/// Samples in a sparkline: ten minutes.
const SPARK_SAMPLES: usize = 120;

/// A state with a mark, so that it is not only a colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Badge {
    /// `ok`, `warn`, `bad` or `off`.
    pub(crate) class: &'static str,
    pub(crate) mark: &'static str,
    pub(crate) text: &'static str,
}

/// A subscription, ready to show.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// An id in the page that the name cannot break.
    pub(crate) dom: String,
    pub(crate) outbox: String,
    pub(crate) name: String,
    pub(crate) href: String,
    pub(crate) badge: Badge,
    pub(crate) details: Vec<String>,
    pub(crate) oldest: Option<String>,
    pub(crate) backlog: String,
    pub(crate) rate: Option<String>,
    pub(crate) spark: Option<String>,
    pub(crate) waiting: u64,
    pub(crate) waiting_text: String,
    pub(crate) waiting_href: String,
    pub(crate) dead: u64,
    pub(crate) dead_text: String,
    pub(crate) dead_href: String,
    pub(crate) relay: Option<String>,
    pub(crate) epoch: String,
    pub(crate) last_error: Option<String>,
}

impl Row {
    pub(crate) fn new(base: &str, outbox: &Outbox, of: &SubscriptionOverview, now: Timestamp) -> Self {
        let path = format!("{base}/o/{}", encoded(&outbox.name));
        let count = |kind: Kind| kind.states().iter().map(|state| of.parked.count(*state)).sum::<u64>();
        let (waiting, dead) = (count(Kind::Waiting), count(Kind::Dead));
        let query = format!("subscription={}", encoded(&of.name));
        let leader = leader(of, now);
        let down = leader.iter().flat_map(|relay| &relay.down).map(|down| down.error.clone());
        let last_error = down.chain(of.parked.last_error().map(str::to_owned)).next();
        Self {
            dom: digest(&format!("{}\0{}", outbox.name, of.name))[..6]
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect(),
            outbox: outbox.name.clone(),
            name: of.name.clone(),
            href: format!("{path}/subscriptions/{}", encoded(&of.name)),
            badge: badge(of, now),
            details: details(of, now),
            oldest: of.oldest().map(|oldest| age(oldest.until(now))),
            backlog: bounded(of.backlog.events, of.backlog.more),
            rate: leader.and_then(|relay| relay.facts.rate()).map(per_second),
            spark: outbox
                .history(&of.name, |history| chart::sparkline(&history.recent(SPARK_SAMPLES)))
                .flatten(),
            waiting,
            waiting_text: bounded(waiting, of.parked.more && waiting > 0),
            waiting_href: format!("{path}/waiting?{query}"),
            dead,
            dead_text: bounded(dead, of.parked.more && dead > 0),
            dead_href: format!("{path}/dead?{query}"),
            relay: of.leader(now).map(|lease| lease.holder.clone()),
            epoch: grouped(u64::try_from(of.epoch.0).unwrap_or_default()),
            last_error,
        }
    }
}

/// The relay that leads, by its last report.
pub(crate) fn leader(of: &SubscriptionOverview, now: Timestamp) -> Option<&RelayOverview> {
    let holder = &of.leader(now)?.holder;
    of.relays.iter().find(|relay| relay.relay == *holder)
}

fn badge(of: &SubscriptionOverview, now: Timestamp) -> Badge {
    let is_down = leader(of, now).is_some_and(|relay| !relay.down.is_empty());
    let has_work = of.backlog.events > 0 || of.parked.count(ParkedState::Retry) > 0;
    let (class, mark, text) = match of.state(now) {
        SubscriptionState::Halted(_) => ("bad", "■", "Halted"),
        SubscriptionState::Paused(_) => ("warn", "❚❚", "Paused"),
        SubscriptionState::Leading(_) if is_down => ("bad", "▲", "Destination down"),
        SubscriptionState::Leading(_) if has_work => ("ok", "▶", "Delivering"),
        SubscriptionState::Leading(_) => ("ok", "●", "Up to date"),
        _ if has_work => ("bad", "○", "No relay"),
        _ => ("off", "○", "No relay"),
    };
    Badge { class, mark, text }
}

/// What explains the state, in sentences.
fn details(of: &SubscriptionOverview, now: Timestamp) -> Vec<String> {
    let mut all = Vec::new();
    match of.state(now) {
        SubscriptionState::Halted(reason) => all.push(reason.to_owned()),
        SubscriptionState::Paused(reason) => all.push(format!("Reason: {reason}")),
        SubscriptionState::Leading(_) => {}
        _ => all.extend(of.lease.as_ref().map(|lease| {
            format!("The lease of {} expired {} ago.", lease.holder, age(lease.expires_at.until(now)))
        })),
    }
    for down in leader(of, now).iter().flat_map(|relay| &relay.down) {
        let next = match down.next_probe_at > now {
            true => format!("next probe in {}", age(now.until(down.next_probe_at))),
            false => "a probe is due".to_owned(),
        };
        let since = age(down.since.until(now));
        all.push(format!(
            "{} is down for {since}; {next}. No attempt of an event is used up.",
            down.destination
        ));
    }
    all
}

/// The figures above the table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub(crate) subscriptions: usize,
    pub(crate) in_trouble: usize,
    pub(crate) oldest: Option<String>,
    pub(crate) backlog: String,
    pub(crate) rate: Option<String>,
    pub(crate) waiting: String,
    pub(crate) dead: String,
    pub(crate) has_dead: bool,
}

impl Totals {
    pub(crate) fn of(seen: &[Seen], rows: &[Row]) -> Self {
        let overviews: Vec<&Overview> = seen.iter().filter_map(|seen| seen.overview.as_deref()).collect();
        let all = || {
            overviews.iter().flat_map(|of| of.subscriptions.iter().map(|subscription| (subscription, of.now)))
        };
        let oldest = all().filter_map(|(of, now)| Some(of.oldest()?.until(now))).max();
        let rates: Vec<f64> = all().filter_map(|(of, now)| leader(of, now)?.facts.rate()).collect();
        let is_bounded = all().any(|(of, _)| of.parked.more);
        let dead: u64 = rows.iter().map(|row| row.dead).sum();
        Self {
            subscriptions: rows.len(),
            in_trouble: rows.iter().filter(|row| row.badge.class == "bad").count()
                + seen.iter().filter(|seen| seen.error.is_some()).count(),
            oldest: oldest.map(age),
            backlog: bounded(
                all().map(|(of, _)| of.backlog.events).sum(),
                all().any(|(of, _)| of.backlog.more),
            ),
            rate: (!rates.is_empty()).then(|| per_second(rates.iter().sum())),
            waiting: bounded(rows.iter().map(|row| row.waiting).sum(), is_bounded),
            dead: bounded(dead, is_bounded && dead > 0),
            has_dead: dead > 0,
        }
    }
}

/// A relay of a subscription.
#[derive(Debug, Clone)]
pub(crate) struct RelayRow {
    pub(crate) name: String,
    pub(crate) role: &'static str,
    pub(crate) mark: &'static str,
    pub(crate) class: &'static str,
    pub(crate) since: Option<When>,
    pub(crate) seen: When,
    pub(crate) version: String,
    pub(crate) in_flight: String,
    pub(crate) read_ahead: String,
    pub(crate) error: Option<String>,
}

impl RelayRow {
    /// The relays of a subscription, the leader first.
    pub(crate) fn all(of: &SubscriptionOverview, now: Timestamp) -> Vec<Self> {
        let holder = of.leader(now).map(|lease| lease.holder.as_str());
        let mut relays: Vec<&RelayOverview> = of.relays.iter().collect();
        relays.sort_by_key(|relay| (holder != Some(relay.relay.as_str()), !relay.is_current(now)));
        relays.into_iter().map(|relay| Self::new(relay, holder, now)).collect()
    }

    fn new(of: &RelayOverview, holder: Option<&str>, now: Timestamp) -> Self {
        let (role, mark, class) = match (holder == Some(of.relay.as_str()), of.is_current(now)) {
            (true, _) => ("leads", "●", "ok"),
            (false, true) => ("standby", "◐", "off"),
            (false, false) => ("lost", "✕", "bad"),
        };
        let facts = &of.facts;
        let error = facts.last_error.as_ref().map(|error| {
            let state = if error.until.is_some() { "over" } else { "lasts" };
            format!("{} {} ({state}, began {} ago)", error.code, error.message, age(error.since.until(now)))
        });
        Self {
            name: of.relay.clone(),
            role,
            mark,
            class,
            // A report of an earlier version has no facts.
            since: (!facts.version.is_empty()).then(|| When::new(facts.since, now)),
            seen: When::new(of.seen_at, now),
            version: facts.version.clone(),
            in_flight: grouped(facts.in_flight),
            read_ahead: grouped(facts.read_ahead_events),
            error,
        }
    }
}
