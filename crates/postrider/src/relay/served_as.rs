//! Whether a subscription is a handler of a program. The audit trail records it, so that another relay that has a sink
//! under the same name does not take the handler's events by accident. See adr/0065-handlers-are-subscriptions.md.

use super::Subscription;
use crate::operate::{AuditEntry, AuditQuery, AuditRecord};
use crate::store::Store;
use crate::{Code, Error, Result};

/// What the audit trail says when a program serves the subscription with functions of its own.
const AS_HANDLER: &str = "serve as handler";

/// The same for a sink that replaces a handler.
const AS_SINK: &str = "serve as sink";

/// The name of these records. No subscription has it, because of the colon.
fn record_name(subscription: &str) -> String {
    format!("handler:{subscription}")
}

/// The program that registered a subscription as its handler, if it is one: the entry of the audit trail.
///
/// # Errors
/// The database's error.
pub async fn handler_registration(store: &dyn Store, subscription: &str) -> Result<Option<AuditEntry>> {
    let query = AuditQuery::default().subscription(Some(record_name(subscription))).commands_max(1);
    let last = store.list_audit(query).await?.into_iter().next();
    Ok(last.filter(|entry| entry.action == AS_HANDLER))
}

/// Refuses a sink under the name of a handler, before anything is changed. Returns what is to be recorded when the
/// subscription exists.
///
/// # Errors
/// [`Code::SubscriptionIsHandler`], or that the database does not answer.
pub(super) async fn check(
    store: &dyn Store,
    subscription: &Subscription,
    relay: &str,
) -> Result<Option<AuditRecord>> {
    let registered = match handler_registration(store, &subscription.name).await {
        Ok(registered) => registered,
        Err(error) if error.code().may_recover_by_itself() => return Err(error),
        // A store without an audit trail, or a user that may not read it.
        Err(error) => {
            tracing::debug!(
                subscription = subscription.name,
                error = error.one_line(),
                "handlers are not known"
            );
            return Ok(None);
        }
    };
    match (subscription.is_handler, registered) {
        (true, None) => Ok(Some(record(relay, AS_HANDLER))),
        (false, Some(_)) if subscription.replaces_handler => Ok(Some(record(relay, AS_SINK))),
        (false, Some(registered)) => {
            let AuditEntry { made_by, made_at, .. } = registered;
            let name = &subscription.name;
            let what = format!(
                "subscription {name:?} is a handler of a program: {made_by} registered it at {made_at}"
            );
            Err(Error::new(Code::SubscriptionIsHandler, what))
        }
        _ => Ok(None),
    }
}

fn record(relay: &str, action: &str) -> AuditRecord {
    AuditRecord::new(relay, action, "", None)
}

/// Records what [`check`] returned. A user that may not do that serves its subscription all the same.
///
/// # Errors
/// That the database does not answer.
pub(super) async fn note(store: &dyn Store, subscription: &str, record: Option<AuditRecord>) -> Result<()> {
    let Some(record) = record else { return Ok(()) };
    match store.note_audit(&record_name(subscription), record).await {
        Err(error) if error.code().may_recover_by_itself() => Err(error),
        Err(error) => {
            tracing::debug!(subscription, error = error.one_line(), "its kind was not recorded");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
