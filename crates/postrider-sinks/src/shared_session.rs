//! A connection that the batches of a sink share, and that is opened again when it is lost.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// The current connection, if there is one.
pub(crate) struct SharedSession<S> {
    current: Mutex<Current<S>>,
}

struct Current<S> {
    session: Option<Arc<S>>,
    /// When and why the last connection attempt failed.
    failed: Option<(Instant, String)>,
}

impl<S> Default for SharedSession<S> {
    fn default() -> Self {
        Self { current: Mutex::new(Current { session: None, failed: None }) }
    }
}

impl<S> SharedSession<S> {
    /// The connection, or why there is none. Batches that wait for the same attempt share its result.
    pub(crate) async fn get(
        &self,
        is_usable: impl Fn(&S) -> bool,
        open: impl Future<Output = Result<S, String>>,
    ) -> Result<Arc<S>, String> {
        let began = Instant::now();
        let mut current = self.current.lock().await;
        if let Some(session) = current.session.as_ref().filter(|session| is_usable(session)) {
            return Ok(session.clone());
        }
        if let Some((_, why)) = current.failed.as_ref().filter(|(when, _)| *when > began) {
            return Err(why.clone());
        }
        current.session = None;
        match open.await {
            Ok(session) => {
                let session = Arc::new(session);
                current.session = Some(session.clone());
                Ok(session)
            }
            Err(why) => {
                current.failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    /// The connection, which no later batch gets.
    pub(crate) async fn take(&self) -> Option<Arc<S>> {
        self.current.lock().await.session.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn batches_that_wait_share_a_failed_attempt_and_later_ones_try_again() {
        let (shared, attempts) = (SharedSession::<()>::default(), AtomicUsize::new(0));
        let fails = || async {
            attempts.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(5)).await;
            Err("refused".to_owned())
        };
        let get = || shared.get(|()| true, fails());
        let (one, two, three) = tokio::join!(get(), get(), get());
        assert!([one, two, three].iter().all(|got| *got == Err("refused".to_owned())));
        assert_eq!(attempts.load(Ordering::SeqCst), 1);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(get().await.is_err());
        assert_eq!(attempts.load(Ordering::SeqCst), 2);
        assert!(shared.get(|()| true, async { Ok(()) }).await.is_ok());
    }
}
