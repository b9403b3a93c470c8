//! What a failover of the database means for a subscription.

/// What to do when the server is at a later timeline of the same cluster than the one the progress is about: a
/// standby was promoted, or the cluster was recovered to a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterFailover {
    /// The subscription halts until an operator accepts the new history.
    #[default]
    Halt,
    /// The subscription goes on if the highest event it has seen is still where it was, with its id, and the
    /// sequence is not behind anything known to be done; else it halts. Either way a warning is logged.
    ///
    /// Nothing can be skipped by going on: the progress travels with the database, so what the failover took away
    /// of the events it took away of the progress too, and what is left undone is delivered. What this cannot
    /// notice: events that were published, and then lost by the failover together with the progress about them.
    /// Consumers then know events that the database does not, and their positions are given to other events. A
    /// standby that had received everything (synchronous replication) loses nothing.
    Check,
}
