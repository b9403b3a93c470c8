//! Who has logged in: in memory, so a restart ends all sessions.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use postrider::Result;
use tokio::time::Instant;

use crate::login::{Person, digest, random};

/// A session ends after this time, whether it is used or not.
pub(crate) const SESSION_TIME_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// Sessions at a time. The oldest one ends if there would be more.
const SESSIONS_MAX: usize = 1_000;

/// The name of the cookie.
pub(crate) const COOKIE: &str = "postrider_session";

/// All sessions, by the hash of the value in the cookie.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<[u8; 32], (Person, Instant)>>);

impl Sessions {
    /// Begins a session, and returns the value for the cookie.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub(crate) fn begin(&self, person: Person) -> Result<String> {
        let value = random()?;
        if let Ok(mut sessions) = self.0.lock() {
            sessions.retain(|_, (_, began)| began.elapsed() < SESSION_TIME_MAX);
            if sessions.len() >= SESSIONS_MAX
                && let Some(oldest) =
                    sessions.iter().min_by_key(|(_, (_, began))| *began).map(|(key, _)| *key)
            {
                sessions.remove(&oldest);
            }
            sessions.insert(digest(&value), (person, Instant::now()));
        }
        Ok(value)
    }

    /// Who has the session of this cookie.
    pub(crate) fn person(&self, cookie: &str) -> Option<Person> {
        let sessions = self.0.lock().ok()?;
        let (person, began) = sessions.get(&digest(cookie))?;
        (began.elapsed() < SESSION_TIME_MAX).then(|| person.clone())
    }

    /// Ends a session.
    pub(crate) fn end(&self, cookie: &str) {
        if let Ok(mut sessions) = self.0.lock() {
            sessions.remove(&digest(cookie));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_after_its_time_and_there_is_a_limit() {
        let sessions = Sessions::default();
        let person = || Person { name: "alice".to_owned(), role: Role::Viewer };
        let first = sessions.begin(person()).unwrap();
        assert_eq!(sessions.person(&first), Some(person()));
        assert_eq!(sessions.person("other"), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..SESSIONS_MAX {
            sessions.begin(person()).unwrap();
        }
        assert_eq!(sessions.person(&first), None, "the oldest one ended");
        let last = sessions.begin(person()).unwrap();
        tokio::time::advance(SESSION_TIME_MAX).await;
        assert_eq!(sessions.person(&last), None);
    }
}
