//! Names to addresses, each checked before it is connected to.
//!
//! The HTTP client resolves the name for every new connection and connects to the returned addresses, so a name that
//! changes its addresses between check and connection does not bypass the check.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use postrider::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::guard::Guard;

/// Resolves a host. Tests implement it with fixed addresses.
pub(super) trait Lookup: Send + Sync + 'static {
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
#[derive(Debug)]
pub(super) struct SystemResolver;

impl Lookup for SystemResolver {
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A resolver for the HTTP client that returns only checked addresses.
pub(super) struct GuardedResolver {
    pub(super) guard: Guard,
    pub(super) lookup: Arc<dyn Lookup>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, lookup) = (self.guard.clone(), self.lookup.clone());
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let found = checked(&guard, &*lookup, host).await?;
            // The client sets the URL's port.
            let addresses = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// The addresses of a host. A single forbidden address is enough to refuse the name: a legitimate public host has none.
pub(super) async fn checked(
    guard: &Guard,
    lookup: &dyn Lookup,
    host: String,
) -> Result<Vec<IpAddr>, Box<dyn std::error::Error + Send + Sync>> {
    let found = lookup.lookup(host.clone()).await?;
    for address in &found {
        guard.check(&host, *address)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Answers(Vec<&'static str>);

    impl Lookup for Answers {
        fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let answers = self.0.iter().map(|text| text.parse().unwrap()).collect();
            Box::pin(std::future::ready(Ok(answers)))
        }
    }

    async fn resolved(answers: Vec<&'static str>) -> Result<usize, String> {
        let guarded = GuardedResolver { guard: Guard::default(), lookup: Arc::new(Answers(answers)) };
        let found = guarded.resolve("hooks.example".parse().unwrap()).await;
        found.map(Iterator::count).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn every_address_of_a_name_is_checked() {
        assert_eq!(resolved(vec!["1.1.1.1", "2606:4700::1"]).await, Ok(2));
        for answers in [vec!["127.0.0.1"], vec!["1.1.1.1", "10.0.0.1"], vec!["1.1.1.1", "::ffff:127.0.0.1"]] {
            let error = resolved(answers).await.unwrap_err();
            assert!(error.starts_with("hooks.example resolves to "), "{error}");
        }
    }
}
