//! Who may log in: tokens with names and roles, or one link.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider::{Code, Error, Result};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

/// Minimum length of a token in characters: what a password generator makes by default.
const SECRET_CHARS_MIN: usize = 16;

/// How long the link can be used.
const LINK_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// What a person may do. Each role may do what the ones before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Sees states, keys, types and errors, but no payload, header or parameter of an event.
    Viewer,
    /// Also sees payloads, each time with a row in the audit trail.
    Reader,
    /// Also changes events and subscriptions.
    Operator,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Reader, Self::Operator];

    /// Its name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Reader => "reader",
            Self::Operator => "operator",
        }
    }

    /// The role with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

/// A token: its name is that of the person or program in the audit trail.
#[derive(Clone)]
pub struct Token {
    name: String,
    role: Role,
    secret: [u8; 32],
    chars: usize,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

impl Token {
    /// A token. Only a hash of the secret stays in memory.
    pub fn new(name: impl Into<String>, role: Role, secret: &str) -> Self {
        Self { name: name.into(), role, secret: digest(secret), chars: secret.chars().count() }
    }
}

/// Who logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    /// For the audit trail.
    pub(crate) name: String,
    pub(crate) role: Role,
}

/// A link that can be used once.
struct Link {
    person: Person,
    secret: [u8; 32],
    used: AtomicBool,
    made_at: Instant,
}

/// Who may log in, and under which names browsers reach the dashboard.
#[derive(Default)]
pub struct Login {
    tokens: Vec<Token>,
    link: Option<Link>,
    hosts: Vec<String>,
    /// Addresses that it listens on: a browser may use them instead of a name.
    addresses: Vec<IpAddr>,
    https: bool,
    failures: Mutex<Failures>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("tokens", &self.tokens)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl Login {
    /// People log in with one of these tokens.
    ///
    /// # Errors
    /// [`Code::ConfigValue`] if there is none, one is shorter than 16 characters, or two are the same.
    pub fn tokens(tokens: impl IntoIterator<Item = Token>) -> Result<Self> {
        let tokens: Vec<Token> = tokens.into_iter().collect();
        let wrong =
            |what: String| Err(Error::new(Code::ConfigValue, what).with_effect("nothing was started"));
        if tokens.is_empty() {
            return wrong("the dashboard has no token".to_owned());
        }
        for (number, token) in tokens.iter().enumerate() {
            if token.chars < SECRET_CHARS_MIN {
                return wrong(format!(
                    "the token {:?} has fewer than {SECRET_CHARS_MIN} characters: it can be guessed",
                    token.name
                ));
            }
            if let Some(other) = tokens.iter().take(number).find(|other| other.secret == token.secret) {
                return wrong(format!("the tokens {:?} and {:?} are the same", other.name, token.name));
            }
        }
        Ok(Self { tokens, ..Self::default() })
    }

    /// One person logs in with a link that works once, for 15 minutes. Returns its secret too.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub fn link(name: impl Into<String>, role: Role) -> Result<(Self, String)> {
        let secret = random()?;
        let person = Person { name: name.into(), role };
        let link =
            Link { person, secret: digest(&secret), used: AtomicBool::new(false), made_at: Instant::now() };
        Ok((Self { link: Some(link), ..Self::default() }, secret))
    }

    /// Browsers reach it under this name, such as `ops.example.com`. A request for any other name is refused: a page of
    /// another site could have pointed its own name at this address.
    #[must_use]
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into().to_lowercase());
        self
    }

    /// Browsers reach it at this address: as a number, and as `localhost` if it is a loopback address.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.addresses.push(address.ip());
        self
    }

    /// Browsers reach it with HTTPS only, through a proxy: cookies are never sent without it.
    #[must_use]
    pub fn https(mut self, only: bool) -> Self {
        self.https = only;
        self
    }

    pub(crate) fn is_https(&self) -> bool {
        self.https
    }

    /// Whether there are tokens to ask for; otherwise there is a link.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Whether a browser may use this value of the header `Host`. The port does not matter: a name that leads here is what
    /// DNS rebinding needs, and a number is none.
    pub(crate) fn allows_host(&self, host: &str) -> bool {
        let name = without_port(host).to_lowercase();
        if self.hosts.contains(&name) {
            return true;
        }
        match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) => {
                address.is_loopback()
                    || self.addresses.iter().any(|own| own.is_unspecified() || *own == address)
            }
            Err(_) => name == "localhost",
        }
    }

    /// The person with this token or link. Compares with every token, in constant time.
    pub(crate) fn person(&self, secret: &str) -> Option<Person> {
        let given = digest(secret.trim());
        let mut found = None;
        for token in &self.tokens {
            if bool::from(token.secret.ct_eq(&given)) {
                found = Some(Person { name: token.name.clone(), role: token.role });
            }
        }
        let link = self.link.as_ref().filter(|link| {
            bool::from(link.secret.ct_eq(&given))
                && link.made_at.elapsed() < LINK_TIME_MAX
                && !link.used.swap(true, Ordering::SeqCst)
        });
        found.or_else(|| link.map(|link| link.person.clone()))
    }

    /// Whether this address may try to log in now.
    pub(crate) fn may_try(&self, from: Option<IpAddr>) -> bool {
        self.failures.lock().is_ok_and(|mut failures| failures.may_try(from, Instant::now()))
    }

    /// A login failed.
    pub(crate) fn note_failure(&self, from: Option<IpAddr>) {
        if let Ok(mut failures) = self.failures.lock() {
            failures.recent.push((from, Instant::now()));
        }
    }
}

/// Failed logins of the last minute.
#[derive(Default)]
struct Failures {
    recent: Vec<(Option<IpAddr>, Instant)>,
}

impl Failures {
    const PERIOD: Duration = Duration::from_secs(60);
    /// From one address.
    const OF_ADDRESS_MAX: usize = 5;
    /// From all addresses; also the length of the list.
    const OF_ALL_MAX: usize = 100;

    fn may_try(&mut self, from: Option<IpAddr>, now: Instant) -> bool {
        self.recent.retain(|(_, at)| now.duration_since(*at) < Self::PERIOD);
        let of_address = self.recent.iter().filter(|(address, _)| *address == from).count();
        of_address < Self::OF_ADDRESS_MAX && self.recent.len() < Self::OF_ALL_MAX
    }
}

/// The name in a `Host` header.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|b| b.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

/// 256 random bits as text.
pub(crate) fn random() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::new(Code::RelayStopped, format!("the system has no random numbers: {e}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(crate) fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login {
        Login::tokens([Token::new("alice", Role::Operator, "0123456789abcdef")]).unwrap()
    }

    #[test]
    fn only_configured_names_and_addresses_are_hosts() {
        let login = login().host("Ops.Example.com").address("192.0.2.7:80".parse().unwrap());
        for host in [
            "ops.example.com",
            "OPS.example.com:8443",
            "localhost:1",
            "127.0.0.1",
            "[::1]:80",
            "192.0.2.7:80",
        ] {
            assert!(login.allows_host(host), "{host}");
        }
        for host in [
            "evil.example",
            "ops.example.com.evil",
            "192.0.2.8",
            "",
            "127.0.0.1.evil.example",
            "[::2]",
            "localhost.evil",
        ] {
            assert!(!login.allows_host(host), "{host}");
        }
        let everywhere = Login::default().address("0.0.0.0:80".parse().unwrap());
        assert!(everywhere.allows_host("192.0.2.8") && !everywhere.allows_host("evil.example"));
    }

    #[test]
    fn short_and_repeated_tokens_are_refused() {
        assert!(Login::tokens([]).is_err());
        assert!(Login::tokens([Token::new("a", Role::Viewer, "short")]).is_err());
        let same = [
            Token::new("a", Role::Viewer, "0123456789abcdef"),
            Token::new("b", Role::Operator, "0123456789abcdef"),
        ];
        let error = Login::tokens(same).unwrap_err();
        assert!(!error.to_string().contains("0123456789abcdef"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_works_once_and_not_for_ever() {
        let (login, secret) = Login::link("alice@host", Role::Viewer).unwrap();
        assert_eq!(login.person("wrong"), None);
        assert_eq!(login.person(&secret).map(|person| person.name), Some("alice@host".to_owned()));
        assert_eq!(login.person(&secret), None);
        let (login, secret) = Login::link("alice@host", Role::Viewer).unwrap();
        tokio::time::advance(LINK_TIME_MAX).await;
        assert_eq!(login.person(&secret), None);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_logins_of_one_address_do_not_lock_out_another() {
        let login = login();
        let (one, two) = (Some("192.0.2.1".parse().unwrap()), Some("192.0.2.2".parse().unwrap()));
        (0..5).for_each(|_| login.note_failure(one));
        assert!(!login.may_try(one) && login.may_try(two));
        tokio::time::advance(Failures::PERIOD).await;
        assert!(login.may_try(one));
        assert!(login.failures.lock().unwrap().recent.is_empty());
    }
}
