//! A replica that follows by the binary log. Drivers here know of no second address: something between relay and
//! servers leads to the primary, as a proxy, a name or an address that moves does.

use postrider::store::AfterFailover;
use postrider_testkit::proxy::Proxy;

use super::*;
use crate::server_faults::failover::Followed;
use crate::server_faults::reported;

impl<W: Which> Followed for MySqlServer<W> {
    type Way = Proxy;

    const ANOTHER: &'static str = "the progress belongs to the server";

    async fn follower(&self) -> Result<Self> {
        let replica = reported(&self.server, Server::replica).await;
        let administrator = Mutex::new(MySqlConfig::new(replica.server.url())?.client().await?);
        let follower = Self { server: Arc::new(replica.server), administrator, _which: PhantomData };
        follower.run(&replica.follow).await?;
        Ok(follower)
    }

    async fn way(&self, _: &Self) -> Result<Proxy> {
        Proxy::to(self.server.port()).await.map_err(failed)
    }

    fn store_by(&self, way: &Proxy, choice: AfterFailover) -> Result<Arc<dyn Store>> {
        let config = self.at(To { port: Some(way.port()), ..To::default() })?;
        Ok(Arc::new(MySqlStore::unconnected(&config.after_failover(choice))))
    }

    async fn promote(&self, way: &Proxy) -> Result<()> {
        // A relay that comes too early finds a server that takes no writes yet.
        way.lead_to(self.server.port());
        self.run(Server::PROMOTE).await
    }

    async fn floor_seen(&self) -> Option<i64> {
        let mut client = self.administrator().await.ok()?;
        client.query_first("SELECT floor FROM postrider.subscriptions").await.ok()?
    }

    async fn lose(&self, position: i64) -> Result<()> {
        self.run(&format!("DELETE FROM postrider.events WHERE position = {position}")).await
    }
}
