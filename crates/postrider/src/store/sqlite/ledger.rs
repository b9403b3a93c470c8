//! The tables of subscriptions, leases and relays. An outbox of the default layout and a table with a state per row may
//! be in the same file, for example while one is moved to the other, so each has separate tables.

/// The tables of one outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ledger {
    /// Of the default layout.
    Log,
    /// Of a table with a state per row.
    Rows,
}

impl Ledger {
    /// The statement with `{subscriptions}`, `{leases}` and `{relays}` replaced.
    pub(super) fn put_into(self, statement: &str) -> String {
        let [subscriptions, leases, relays] = match self {
            Self::Log => ["postrider_subscriptions", "postrider_leases", "postrider_relays"],
            Self::Rows => ["postrider_row_subscriptions", "postrider_row_leases", "postrider_row_relays"],
        };
        statement
            .replace("{subscriptions}", subscriptions)
            .replace("{leases}", leases)
            .replace("{relays}", relays)
    }
}
