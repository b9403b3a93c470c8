//! Taking the lease, and the load that comes with it.

use tokio_postgres::Row;

use super::super::lease::{refusal, take, unknown};
use super::super::row::{count, get};
use super::super::session::Work;
use super::super::time::Time;
use super::book::{Book, Entry, Stage};
use super::sql::Sql;
use crate::layout::RowTable;
use crate::ledger::{Intervals, ParkedRow, ParkedState, Progress, Trial};
use crate::store::{Acquired, Epoch, LeaseRequest, Loaded};
use crate::{Code, Error, Position, Result, Timestamp};

/// A row that left the straight way, and where it stands in the order.
struct Noted {
    id: String,
    created: Timestamp,
    limit: u32,
    /// There is a row of ours about it.
    is_noted: bool,
    row: ParkedRow,
}

/// What is to be done about a note.
enum Verdict {
    /// It still says what is.
    Keep(Box<Noted>),
    /// The row is gone, delivered, or was given another chance.
    Stale(String),
}

/// See [`Store::acquire`](crate::store::Store::acquire). With the lease comes the book of the session.
pub(super) async fn acquire(
    work: &Work<'_>,
    lease: &LeaseRequest,
    table: &RowTable,
) -> Result<(Acquired, Option<Book>)> {
    let sql = Sql::of(table.layout);
    let name = &lease.subscription;
    // Relays that stand by ask often; they must not lock the row that the owner settles on.
    if let Some(refused) = refusal(work, lease).await? {
        return Ok((refused, None));
    }
    // Index: the primary key (name).
    let lock = "SELECT epoch, clean, paused, trial, trial_deaths
                FROM {schema}.subscriptions WHERE name = $1 FOR UPDATE";
    let row = work.query_opt(lock, &[name]).await?.ok_or_else(|| unknown(name))?;
    if let Some(refused) = refusal(work, lease).await? {
        return Ok((refused, None));
    }
    let epoch = Epoch(get::<i64>(&row, 0)? + 1);
    take(work, lease, epoch).await?;
    let recovered = give_back(work, &sql, name, epoch).await?;
    if recovered > 0 {
        tracing::warn!(
            subscription = name,
            rows = recovered,
            "rows of an owner that died are due again; some may arrive twice"
        );
    }
    refuse_strangers(work, &sql, table).await?;
    let noted = noted(work, &sql, table).await?;
    let (mut book, mut parked, mut dead) = (Book::new(epoch), Vec::new(), Vec::new());
    for Noted { id, limit, is_noted, mut row, .. } in noted {
        let stage = if row.state.is_final() { Stage::Ended } else { Stage::Parked };
        let entry = Entry { id: id.into(), stage, is_noted, tried_before: 0, limit, claim: None };
        row.position = book.enter(entry);
        match row.state {
            ParkedState::Dead => dead.push(row),
            ParkedState::Expired => {}
            _ => parked.push(row),
        }
    }
    let (done, parked_count) = (Intervals::up_to(book.last()), book.len() as u64);
    let trial = trial(&row, table, &mut book)?;
    let loaded = Loaded {
        epoch,
        progress: Progress { done, highest: None, trial },
        parked_count,
        parked,
        dead,
        clean: get(&row, 1)?,
        paused: get(&row, 2)?,
        // A row is due by its state, whichever server tells it.
        origin: None,
    };
    Ok((Acquired::Granted(Box::new(loaded)), Some(book)))
}

/// Gives back the rows that were claimed and not settled. Answers how many.
pub(super) async fn give_back(work: &Work<'_>, sql: &Sql, name: &str, epoch: Epoch) -> Result<i64> {
    let Some(statement) = sql.give_back else { return Ok(0) };
    let row = work.query_opt(statement, &[&name, &epoch.0]).await?;
    row.map_or(Ok(0), |row| get(&row, 0))
}

/// Refuses to begin while somebody else publishes, unless that was said, and tells of rows that somebody left behind.
/// All claims of ours are given back by now.
async fn refuse_strangers(work: &Work<'_>, sql: &Sql, table: &RowTable) -> Result<()> {
    let Some(statement) = sql.foreign else { return Ok(()) };
    let (recent, all): (i64, i64) = match work.query_opt(statement, &[]).await? {
        Some(row) => (get(&row, 0)?, get(&row, 1)?),
        None => (0, 0),
    };
    if recent > 0 && !table.is_shared {
        let what = format!(
            "somebody else has marked {recent} rows of {} as PUBLISHING within ten minutes",
            table.name
        );
        return Err(Error::new(Code::ForeignPublisher, what));
    }
    if all > 0 && table.foreign_claim_timeout.is_none() {
        tracing::warn!(
            rows = all,
            "rows are marked as PUBLISHING by somebody else and left alone; see foreign_claim_timeout"
        );
    }
    Ok(())
}

/// Everything that left the straight way, in the order of the table. Notes that say nothing any more are deleted.
async fn noted(work: &Work<'_>, sql: &Sql, table: &RowTable) -> Result<Vec<Noted>> {
    let mut all = Vec::new();
    let mut stale: Vec<String> = Vec::new();
    for row in work.query(sql.load, &[&i64::from(table.max_attempts)]).await? {
        match verdict(&row)? {
            Verdict::Keep(noted) => all.push(*noted),
            Verdict::Stale(id) => stale.push(id),
        }
    }
    if !stale.is_empty() {
        // Index: the primary key (row_id).
        work.execute("DELETE FROM {schema}.row_notes WHERE row_id = ANY ($1)", &[&stale]).await?;
    }
    if let Some(statement) = sql.waiting {
        for row in work.query(statement, &[]).await? {
            all.push(waiting(&row, table)?);
        }
    }
    all.sort_by(|a, b| (a.created, number(&a.id), &a.id).cmp(&(b.created, number(&b.id), &b.id)));
    Ok(all)
}

/// Ids that are numbers stand in the order of numbers.
fn number(id: &str) -> i64 {
    id.parse().unwrap_or(0)
}

fn verdict(row: &Row) -> Result<Verdict> {
    let id: String = get(row, 0)?;
    let word: &str = get(row, 3)?;
    let state = ParkedState::from_word(word)
        .ok_or_else(|| Error::new(Code::RowDamaged, format!("the note of row {id} has state {word:?}")))?;
    let Some(created) = get::<Option<Time>>(row, 7)? else { return Ok(Verdict::Stale(id)) };
    let (is_done, is_given_up): (bool, bool) = (get(row, 8)?, get(row, 9)?);
    // Who takes a row out of the state it was given up in wants it tried again; who gives it up for us has the last word.
    let ended = matches!(state, ParkedState::Dead | ParkedState::Expired | ParkedState::Unrouted);
    if is_done || ended != is_given_up {
        return Ok(Verdict::Stale(id));
    }
    Ok(Verdict::Keep(Box::new(Noted {
        created: created.0,
        limit: limit(get(row, 10)?),
        is_noted: true,
        row: ParkedRow {
            position: Position::ZERO,
            key: get(row, 1)?,
            destination: get(row, 2)?,
            state,
            attempts: count(row, 4)?,
            next_attempt_at: get::<Option<Time>>(row, 5)?.map(|time| time.0),
            last_error: get(row, 6)?,
        },
        id,
    })))
}

/// A row that somebody else has tried, and wants to be tried again later.
fn waiting(row: &Row, table: &RowTable) -> Result<Noted> {
    Ok(Noted {
        id: get(row, 0)?,
        created: get::<Time>(row, 4)?.0,
        limit: table.max_attempts,
        is_noted: false,
        row: ParkedRow {
            position: Position::ZERO,
            key: get(row, 1)?,
            destination: None,
            state: ParkedState::Retry,
            attempts: u32::try_from(get::<i64>(row, 2)?).unwrap_or(0),
            next_attempt_at: Some(get::<Time>(row, 3)?.0),
            last_error: None,
        },
    })
}

fn limit(limit: Option<i64>) -> u32 {
    limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(1).max(1)
}

/// The rows that were being tried when the last owner died, under positions of this session.
fn trial(row: &Row, table: &RowTable, book: &mut Book) -> Result<Option<Trial>> {
    let Some(words) = get::<Option<&str>>(row, 3)? else { return Ok(None) };
    let mut positions = Vec::new();
    for id in words.split_ascii_whitespace() {
        let known = book.position_of(id);
        positions.push(known.unwrap_or_else(|| {
            book.enter(Entry {
                id: id.into(),
                stage: Stage::Reserved,
                is_noted: false,
                tried_before: 0,
                limit: table.max_attempts,
                claim: None,
            })
        }));
    }
    Ok(Some(Trial { positions, deaths: count(row, 4)? }))
}
