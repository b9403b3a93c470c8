//! The person who runs a command, and the question before a change.

use std::io::{self, IsTerminal, Write};

use postrider::operate::Operator;
use postrider::{Code, Error};

use crate::config::settings::OutboxSettings;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};

/// Opens an outbox for an operation, and closes it afterwards.
///
/// # Errors
/// That of the operation, or that the database cannot be opened.
pub(crate) fn run<T, E>(
    outbox: &OutboxSettings,
    operation: impl AsyncFnOnce(&Operator) -> Result<T, E>,
) -> Result<T, Failure>
where
    Failure: From<E>,
{
    block_on(Threads::One, run_async(outbox, operation))
}

/// The same within a runtime.
///
/// # Errors
/// As [`run`].
pub(crate) async fn run_async<T, E>(
    outbox: &OutboxSettings,
    operation: impl AsyncFnOnce(&Operator) -> Result<T, E>,
) -> Result<T, Failure>
where
    Failure: From<E>,
{
    let store = outbox.database.open().await?;
    let done = operation(&Operator::new(store.clone(), name())).await;
    store.close().await;
    Ok(done?)
}

/// User and host, for the audit trail. Environment variables are only what the user claims to be; the database adds the
/// user that it has authenticated.
pub(crate) fn name() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = ["SUDO_USER", "USER", "LOGNAME", "USERNAME"].iter().find_map(|name| variable(name));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .or_else(|| variable("HOSTNAME"))
        .or_else(|| variable("COMPUTERNAME"));
    format!("{}@{}", user.as_deref().unwrap_or("unknown"), host.as_deref().unwrap_or("unknown"))
}

/// Asks before a change, on a terminal. Without one, `--yes` is needed.
///
/// # Errors
/// [`Failure::Declined`] if the answer is not yes, [`Code::ConfigValue`] without a terminal.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Error::new(
            Code::ConfigValue,
            "this command changes events and cannot ask without a terminal",
        )
        .with_effect("nothing was changed")
        .with_hint("add --yes")
        .into());
    }
    let mut stderr = io::stderr().lock();
    let mut answer = String::new();
    let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    if asked.and_then(|()| io::stdin().read_line(&mut answer)).is_err() {
        return Err(Failure::Interrupted);
    }
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Declined),
    }
}
