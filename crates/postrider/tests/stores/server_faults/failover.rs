//! A replica is promoted after its primary died.

use postrider::store::AfterFailover;
use postrider_testkit::eventually;

use super::history::accept;
use super::*;

/// A server that can have a replica.
pub(crate) trait Replicated: TestServer {
    /// How a relay connects to whichever of two servers is the primary.
    type Route;

    /// The part of the halt reason that names what changed.
    const ANOTHER: &'static str;

    /// An asynchronous replica of this server: it may lack the last commits. It accepts no writes.
    async fn follower(&self) -> Result<Self>;

    async fn route(&self, follower: &Self) -> Result<Self::Route>;

    /// A store that is not connected yet.
    fn store_by(&self, route: &Self::Route, choice: AfterFailover) -> Result<Arc<dyn Store>>;

    /// Promotes a follower to primary, and redirects the connections to it.
    async fn promote(&self, route: &Self::Route) -> Result<()>;

    /// The floor of the subscription on the follower.
    async fn floor_seen(&self) -> Option<i64>;

    /// Deletes the event at a position.
    async fn lose(&self, position: i64) -> Result<()>;
}

/// A primary with an outbox, and its replica.
pub(crate) struct Pair<W: Replicated> {
    pub(crate) primary: W,
    pub(crate) follower: W,
    route: W::Route,
}

impl<W: Replicated> Pair<W> {
    pub(crate) async fn new() -> Result<Option<Self>> {
        let Some(primary) = W::new(Setup::Plain).await? else { return Ok(None) };
        let follower = primary.follower().await?;
        let route = primary.route(&follower).await?;
        Ok(Some(Self { primary, follower, route }))
    }

    /// A relay on the primary has delivered 20 events, which the follower has received.
    pub(crate) async fn delivering(choice: AfterFailover) -> Result<Option<(Self, Recorder, Relay)>> {
        let Some(pair) = Self::new().await? else { return Ok(None) };
        let sink = Recorder::new();
        let relay = pair.relay(choice, &sink).await?;
        pair.deliver(20, &sink).await?;
        Ok(Some((pair, sink, relay)))
    }

    /// A relay that connects to whichever of them is the primary.
    async fn relay(&self, choice: AfterFailover, sink: &Recorder) -> Result<Relay> {
        relay_at(self.primary.store_by(&self.route, choice)?, sink).await
    }

    /// Commits events and waits until all are delivered, settled, and replicated.
    pub(crate) async fn deliver(&self, events: usize, sink: &Recorder) -> Result<()> {
        write(&self.primary, events).await?;
        let all = self.primary.committed().await?.len();
        sink.wait_for(all).await;
        let floor = Some(all as i64);
        eventually("the follower has all", async || self.follower.floor_seen().await == floor).await;
        Ok(())
    }

    /// The primary dies and the follower takes its place.
    async fn fail_over(&self) -> Result<()> {
        self.primary.act(Action::Kill).await;
        self.follower.promote(&self.route).await
    }

    /// The follower is stopped, and misses events that are committed, delivered and then lost with the primary.
    pub(crate) async fn fail_over_without(&self, events: usize, sink: &Recorder) -> Result<()> {
        self.follower.act(Action::Stop).await;
        write(&self.primary, events).await?;
        let all = self.primary.committed().await?.len();
        sink.wait_for(all).await;
        settled(&self.primary, all).await;
        self.primary.act(Action::Kill).await;
        self.follower.act(Action::Start).await;
        self.follower.promote(&self.route).await
    }
}

/// After 20 events that were kept and 5 that were lost, an operator accepts the history.
pub(crate) async fn continues_once_accepted<W: TestServer>(
    server: &W,
    sink: &Recorder,
    relay: Relay,
) -> Result<()> {
    // The positions of the lost events are reused.
    write(server, 5).await?;
    assert_eq!(sink.delivered().len(), 25, "nothing is delivered before an operator has decided");
    accept(server, 21).await?;
    sink.wait_for(30).await;
    relay.shutdown().await?;
    let verdict = verdict(server, sink).await?;
    assert_eq!((verdict.lost, verdict.phantom, verdict.duplicates), (0, 5, 0), "{verdict}");
    Ok(())
}

pub(crate) async fn a_failover_that_lost_events_halts_and_continues_once_accepted<W: Replicated>()
-> Result<()> {
    let Some((pair, sink, relay)) = Pair::<W>::delivering(AfterFailover::Halt).await? else { return Ok(()) };
    pair.fail_over_without(5, &sink).await?;
    let reason = halted(&pair.follower).await;
    assert!(reason.contains(W::ANOTHER), "{reason}");
    continues_once_accepted(&pair.follower, &sink, relay).await
}

pub(crate) async fn a_checked_failover_that_kept_everything_continues_by_itself<W: Replicated>() -> Result<()>
{
    let Some((pair, sink, relay)) = Pair::<W>::delivering(AfterFailover::Check).await? else { return Ok(()) };
    pair.fail_over().await?;
    write(&pair.follower, 5).await?;
    sink.wait_for(25).await;
    recovered(&relay).await;
    relay.shutdown().await?;
    assert_eq!(overview(&pair.follower).await?.halted, None);
    let verdict = verdict(&pair.follower, &sink).await?;
    assert!(verdict.is_clean() && verdict.duplicates == 0, "{verdict}");
    Ok(())
}

pub(crate) async fn a_checked_failover_halts_the_relay_that_saw_events_it_lost<W: Replicated>() -> Result<()>
{
    let Some((pair, sink, relay)) = Pair::<W>::delivering(AfterFailover::Check).await? else { return Ok(()) };
    pair.fail_over_without(5, &sink).await?;
    let reason = halted(&pair.follower).await;
    assert!(reason.contains("position 25") && reason.contains("has 20"), "{reason}");
    continues_once_accepted(&pair.follower, &sink, relay).await
}

pub(crate) async fn a_checked_failover_halts_if_the_last_event_seen_is_missing<W: Replicated>() -> Result<()>
{
    let Some((pair, sink, relay)) = Pair::<W>::delivering(AfterFailover::Check).await? else { return Ok(()) };
    // The next relay has seen none of the events.
    relay.shutdown().await?;
    pair.fail_over().await?;
    pair.follower.lose(20).await?;
    let relay = pair.relay(AfterFailover::Check, &sink).await?;
    let reason = halted(&pair.follower).await;
    assert!(reason.contains(W::ANOTHER) && reason.contains("no longer exists"), "{reason}");
    relay.shutdown().await?;
    assert_eq!(sink.delivered().len(), 20);
    Ok(())
}
