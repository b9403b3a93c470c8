//! Which tables hold subscriptions and leases. An outbox of the default layout and one with a state per row may share
//! a file, as they do while one is copied into the other, so each has its own.

/// The tables of one outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ledger {
    /// Of the default layout.
    Log,
    /// Of a table with a state per row.
    Rows,
}

impl Ledger {
    /// The statement with `{subscriptions}`, `{leases}` and `{relays}` put in.
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
