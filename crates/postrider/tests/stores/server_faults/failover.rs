//! A replica that follows the server is made the primary in the place of one that died.

use postrider::store::AfterFailover;

use super::history::accept;
use super::*;

/// A server that another server can follow.
pub(crate) trait Followed: TestServer {
    /// How a relay finds whichever of two servers is the primary.
    type Way;

    /// What the reason of a halt says that is another.
    const ANOTHER: &'static str;

    /// A replica that follows this server, asynchronously: it may lack the last commits. It takes no writes.
    async fn follower(&self) -> Result<Self>;

    async fn way(&self, follower: &Self) -> Result<Self::Way>;

    /// A store that is not connected yet.
    fn store_by(&self, way: &Self::Way, choice: AfterFailover) -> Result<Arc<dyn Store>>;

    /// Makes a follower the primary, and the way lead to it.
    async fn promote(&self, way: &Self::Way) -> Result<()>;

    /// How far the subscription has come, as far as a follower knows.
    async fn floor_seen(&self) -> Option<i64>;

    /// Takes the event at a position away, as nobody may.
    async fn lose(&self, position: i64) -> Result<()>;
}

/// A primary with an outbox, and a replica that follows it.
pub(crate) struct Pair<W: Followed> {
    pub(crate) primary: W,
    pub(crate) follower: W,
    way: W::Way,
}

impl<W: Followed> Pair<W> {
    pub(crate) async fn new() -> Result<Option<Self>> {
        let Some(primary) = W::new(Wanted::Plain).await? else { return Ok(None) };
        let follower = primary.follower().await?;
        let way = primary.way(&follower).await?;
        Ok(Some(Self { primary, follower, way }))
    }

    /// A relay that goes to whichever of them is the primary.
    async fn relay(&self, choice: AfterFailover, sink: &Recorder) -> Result<Relay> {
        relay_at(self.primary.store_by(&self.way, choice)?, sink).await
    }

    /// Commits so many events and waits until all up to here are delivered, settled, and known to the follower.
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
        self.primary.act(Act::Kill).await;
        self.follower.promote(&self.way).await
    }

    /// Stopped, the follower misses what is committed, delivered and then lost with the primary.
    pub(crate) async fn fail_over_without(&self, events: usize, sink: &Recorder) -> Result<()> {
        self.follower.act(Act::Stop).await;
        write(&self.primary, events).await?;
        let all = self.primary.committed().await?.len();
        sink.wait_for(all).await;
        settled(&self.primary, all).await;
        self.primary.act(Act::Kill).await;
        self.follower.act(Act::Start).await;
        self.follower.promote(&self.way).await
    }
}

/// After 20 events that were kept and 5 that were lost, an operator lets it go on.
pub(crate) async fn goes_on_once_accepted<W: TestServer>(
    server: &W,
    sink: &Recorder,
    relay: Relay,
) -> Result<()> {
    // The positions of the lost events are given out again.
    write(server, 5).await?;
    assert_eq!(sink.delivered().len(), 25, "nothing is delivered before somebody has decided");
    accept(server, 21).await?;
    sink.wait_for(30).await;
    relay.shutdown().await?;
    let verdict = verdict(server, sink).await?;
    assert_eq!((verdict.lost, verdict.phantom, verdict.duplicates), (0, 5, 0), "{verdict}");
    Ok(())
}

pub(crate) async fn a_failover_that_lost_events_halts_and_continues_once_accepted<W: Followed>() -> Result<()>
{
    let Some(pair) = Pair::<W>::new().await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = pair.relay(AfterFailover::Halt, &sink).await?;
    pair.deliver(20, &sink).await?;
    pair.fail_over_without(5, &sink).await?;
    let reason = halted(&pair.follower).await;
    assert!(reason.contains(W::ANOTHER), "{reason}");
    goes_on_once_accepted(&pair.follower, &sink, relay).await
}

pub(crate) async fn a_checked_failover_that_kept_everything_continues_by_itself<W: Followed>() -> Result<()> {
    let Some(pair) = Pair::<W>::new().await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = pair.relay(AfterFailover::Check, &sink).await?;
    pair.deliver(20, &sink).await?;
    pair.fail_over().await?;
    write(&pair.follower, 5).await?;
    sink.wait_for(25).await;
    at_ease(&relay).await;
    relay.shutdown().await?;
    assert_eq!(overview(&pair.follower).await?.halted, None);
    let verdict = verdict(&pair.follower, &sink).await?;
    assert!(verdict.is_clean() && verdict.duplicates == 0, "{verdict}");
    Ok(())
}

pub(crate) async fn a_checked_failover_halts_the_relay_that_saw_events_it_lost<W: Followed>() -> Result<()> {
    let Some(pair) = Pair::<W>::new().await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = pair.relay(AfterFailover::Check, &sink).await?;
    pair.deliver(20, &sink).await?;
    pair.fail_over_without(5, &sink).await?;
    let reason = halted(&pair.follower).await;
    assert!(reason.contains("position 25") && reason.contains("has 20"), "{reason}");
    goes_on_once_accepted(&pair.follower, &sink, relay).await
}

pub(crate) async fn a_checked_failover_halts_if_the_last_event_seen_is_missing<W: Followed>() -> Result<()> {
    let Some(pair) = Pair::<W>::new().await? else { return Ok(()) };
    let sink = Recorder::new();
    let relay = pair.relay(AfterFailover::Check, &sink).await?;
    pair.deliver(20, &sink).await?;
    // Somebody who knows nothing of it comes later.
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
