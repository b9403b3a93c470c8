//! The policy for a failover of the database.

/// What to do if the server is at a later timeline of the same cluster than the recorded progress: a standby was
/// promoted, or the cluster was recovered to a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AfterFailover {
    /// The subscription halts until an operator accepts the new history.
    #[default]
    Halt,
    /// The subscription continues if the highest event it has seen still has its position and id, and the sequence has
    /// reached every position that is done. Else it halts. A warning is logged in both cases.
    ///
    /// Continuing skips no event: progress and events are in the same database, so a failover that loses events also
    /// loses the progress about them, and every event that is not done is delivered. It cannot detect events that were
    /// published and then lost by the failover together with their progress. Consumers have then received events that
    /// the database no longer contains, and their positions are assigned to other events. A standby that had received
    /// everything (synchronous replication) loses nothing.
    Check,
}
