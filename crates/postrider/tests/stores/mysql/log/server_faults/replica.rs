//! A replica that reads the binary log. Drivers for these servers take one address: a proxy between relay and servers
//! forwards to the primary, as a virtual address does.

use postrider::store::AfterFailover;
use postrider_testkit::proxy::Proxy;

use super::*;
use crate::server_faults::blocking;
use crate::server_faults::failover::Replicated;

impl<W: ServerKind> Replicated for MySqlServer<W> {
    type Route = Proxy;

    const ANOTHER: &'static str = "the progress belongs to the server";

    async fn follower(&self) -> Result<Self> {
        let replica = blocking(&self.server, Server::replica).await;
        let administrator = Mutex::new(MySqlConfig::new(replica.server.url())?.client().await?);
        let follower = Self { server: Arc::new(replica.server), administrator, _which: PhantomData };
        follower.run(&replica.follow).await?;
        Ok(follower)
    }

    async fn route(&self, _: &Self) -> Result<Proxy> {
        Proxy::to(self.server.port()).await.map_err(failed)
    }

    fn store_by(&self, route: &Proxy, choice: AfterFailover) -> Result<Arc<dyn Store>> {
        let config = self.at(Target { port: Some(route.port()), ..Target::default() })?;
        Ok(Arc::new(MySqlStore::unconnected(&config.after_failover(choice))))
    }

    async fn promote(&self, route: &Proxy) -> Result<()> {
        // A relay that connects before the promotion finds a server that accepts no writes yet.
        route.redirect_to(self.server.port());
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
