//! Positions that are taken and not committed, on every server: no event is skipped, and none is delayed longer than
//! necessary.

use std::time::Duration;

use postrider::ledger::{Intervals, Progress};
use postrider::store::{Budget, Claimed, Claimer, Page, Store};
use postrider::{Position, Result};

use crate::failed;

/// A position that is not reported empty within this time never will be.
const LONG: Duration = Duration::from_secs(60);

/// The number of claims after which a wrong rule would have declared a hole empty that can still get an event.
const CLAIMS: usize = 20;

const PLENTY: Budget = Budget::new(1_000, 1 << 26);

/// An outbox on a server, and the connections of its writers.
#[allow(async_fn_in_trait, reason = "only tests call it")]
pub(crate) trait HoleCase {
    type Writer;

    async fn open_store(&self) -> Result<Box<dyn Store>>;

    async fn open_store_with_holes_max(&self, holes_max: usize) -> Result<Box<dyn Store>>;

    /// Writes an event and commits it.
    async fn committed(&self, event: &str) -> Result<i64>;

    /// A new connection with an open transaction.
    async fn begin(&self) -> Result<Self::Writer>;

    /// A new connection with an open transaction that can be prepared under this name.
    async fn begin_global(&self, name: &str) -> Result<Self::Writer>;

    async fn write(&self, writer: &mut Self::Writer, event: &str) -> Result<()>;

    /// Writes many events with one statement, from the first position on, and returns their number.
    async fn write_many(&self, writer: &mut Self::Writer) -> Result<i64>;

    async fn execute(&self, writer: &mut Self::Writer, sql: &str) -> Result<()>;

    async fn prepare(&self, writer: &mut Self::Writer, name: &str) -> Result<()>;

    async fn disconnect(&self, writer: Self::Writer) -> Result<()>;

    async fn commit_prepared(&self, name: &str) -> Result<()>;

    async fn roll_back_prepared(&self, name: &str) -> Result<()>;
}

/// A claimer from the beginning, and what it has returned so far.
pub(crate) struct Reader {
    claimer: Box<dyn Claimer>,
    pub(crate) read: Vec<i64>,
    pub(crate) empty: Intervals,
}

impl Reader {
    pub(crate) fn of(store: &dyn Store) -> Self {
        Self { claimer: store.claimer(&Progress::default()), read: Vec::new(), empty: Intervals::default() }
    }

    pub(crate) async fn on(case: &impl HoleCase) -> Result<Self> {
        Ok(Self::of(&*case.open_store().await?))
    }

    pub(crate) async fn claim(&mut self) -> Result<Page> {
        let Claimed::Page(page) = self.claimer.claim(PLENTY).await? else {
            panic!("the history did not change")
        };
        self.read.extend(page.events.iter().map(|event| event.position.get()));
        page.empty_positions.iter().for_each(|(first, last)| self.empty.insert_range(*first, *last));
        Ok(page)
    }

    pub(crate) fn is_empty_at(&self, position: i64) -> bool {
        self.empty.contains(Position::new(position))
    }

    pub(crate) async fn until_empty(&mut self, position: i64) -> Result<()> {
        let waiting = async {
            while !self.is_empty_at(position) {
                self.claim().await?;
            }
            Ok(())
        };
        tokio::time::timeout(LONG, waiting).await.map_err(failed)?
    }

    pub(crate) async fn stays_a_hole(&mut self, position: i64) -> Result<()> {
        for _ in 0..CLAIMS {
            self.claim().await?;
        }
        assert!(!self.is_empty_at(position), "{position} can still be committed");
        Ok(())
    }
}

pub(crate) async fn a_late_commit_is_delivered_after_earlier_commits(case: &impl HoleCase) -> Result<()> {
    let mut reader = Reader::on(case).await?;
    for _ in 1..=4 {
        case.committed("early").await?;
    }
    let mut late = case.begin().await?;
    case.write(&mut late, "late").await?;
    case.committed("fast").await?;
    reader.claim().await?;
    assert_eq!(reader.read, [1, 2, 3, 4, 6]);
    reader.stays_a_hole(5).await?;
    case.execute(&mut late, "COMMIT").await?;
    reader.claim().await?;
    assert_eq!(reader.read, [1, 2, 3, 4, 6, 5]);
    case.committed("next").await?;
    let page = reader.claim().await?;
    assert_eq!((page.holes, reader.read.last()), (0, Some(&7)));
    Ok(())
}

/// Listed as open sessions first, as prepared transactions later, and then without a connection.
pub(crate) async fn a_prepared_transaction_keeps_its_positions_open(case: &impl HoleCase) -> Result<()> {
    let mut writers = Vec::new();
    for name in ["late", "gone"] {
        let mut writer = case.begin_global(name).await?;
        case.write(&mut writer, name).await?;
        writers.push((writer, name));
    }
    case.committed("fast").await?;
    let mut reader = Reader::on(case).await?;
    reader.stays_a_hole(1).await?;
    for (writer, name) in &mut writers {
        case.prepare(writer, name).await?;
    }
    reader.stays_a_hole(1).await?;
    for (writer, _) in writers {
        case.disconnect(writer).await?;
    }
    reader.stays_a_hole(1).await?;
    reader.stays_a_hole(2).await?;
    // A second reader has never seen the sessions.
    let mut second = Reader::on(case).await?;
    second.stays_a_hole(1).await?;
    case.commit_prepared("late").await?;
    case.roll_back_prepared("gone").await?;
    for reader in [&mut reader, &mut second] {
        reader.until_empty(2).await?;
        assert_eq!((reader.read.as_slice(), reader.is_empty_at(1)), (&[3, 1][..], false));
    }
    Ok(())
}

pub(crate) async fn positions_rolled_back_to_a_savepoint_die_and_the_rest_is_delivered(
    case: &impl HoleCase,
) -> Result<()> {
    let mut writer = case.begin().await?;
    case.execute(&mut writer, "SAVEPOINT s").await?;
    case.write(&mut writer, "rolled back").await?;
    case.execute(&mut writer, "ROLLBACK TO s").await?;
    case.write(&mut writer, "kept").await?;
    case.committed("fast").await?;
    let mut reader = Reader::on(case).await?;
    reader.stays_a_hole(2).await?;
    case.execute(&mut writer, "COMMIT").await?;
    reader.until_empty(1).await?;
    assert_eq!((reader.read.as_slice(), reader.is_empty_at(2)), (&[3, 2][..], false));
    Ok(())
}

pub(crate) async fn a_large_late_transaction_is_read_in_order_page_by_page(
    case: &impl HoleCase,
) -> Result<Reader> {
    let mut late = case.begin().await?;
    let events = case.write_many(&mut late).await?;
    let fast = case.committed("fast").await?;
    let mut reader = Reader::on(case).await?;
    assert_eq!(reader.claim().await?.holes, 1);
    case.execute(&mut late, "COMMIT").await?;
    let next = case.committed("next").await?;
    while reader.claim().await?.more_at_once {}
    let expected: Vec<i64> = std::iter::once(fast).chain(1..=events).chain([next]).collect();
    assert_eq!(reader.read, expected);
    Ok(reader)
}

pub(crate) async fn too_many_holes_pause_the_tail_and_are_reported_until_one_closes(
    case: &impl HoleCase,
) -> Result<()> {
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut writer = case.begin().await?;
        case.write(&mut writer, "open").await?;
        open.push(writer);
        case.committed("kept").await?;
    }
    let mut reader = Reader::of(&*case.open_store_with_holes_max(2).await?);
    reader.claim().await?;
    case.committed("beyond").await?;
    let page = reader.claim().await?;
    assert_eq!((page.holes, page.holes_full), (2, true));
    assert_eq!((page.more_at_once, page.has_unread), (false, true));
    assert_eq!(reader.read, [2, 4]);
    case.execute(&mut open[0], "COMMIT").await?;
    let page = reader.claim().await?;
    assert_eq!((page.holes_full, page.more_at_once, page.has_unread), (false, true, true));
    reader.claim().await?;
    assert_eq!(reader.read, [2, 4, 1, 5]);
    Ok(())
}
