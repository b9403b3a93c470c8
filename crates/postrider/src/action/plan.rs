//! What an action wants to change.

use std::any::{Any, TypeId};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::names::{NameKind, NameRegistry};
use super::staged::{Place, Staged, StagedAll};
use super::{Entity, Model, Named, Shard};
use crate::event::{IntoEvent, TypedEvent};
use crate::{Clock, Code, Error, Event, Limits, Result, SystemClock, Timestamp};

/// Rows of one plan: a larger action is a job that should commit in parts.
const ROWS_MAX: usize = 100_000;

/// Payloads of the events of one plan, which stay in memory until they are committed.
const PAYLOADS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How a row is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// It is inserted.
    Add,
    /// It is updated.
    Update,
}

/// One staged row, as a test reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StagedRow {
    /// How it is changed.
    pub kind: ChangeKind,
    /// The name of its type.
    pub entity: &'static str,
    /// Its id.
    pub id: String,
    /// The version that was read, or its first version.
    pub version: i64,
    /// The shard that it is stored on.
    pub shard: Shard,
}

/// The changes and events of one execution of an action. An action stages on it; the executor writes it in one transaction.
/// It has no connection, and nothing is written if the action fails, or if staging failed.
pub struct Plan {
    context: PlanContext,
    changes: Vec<Change>,
    staged: HashSet<(TypeId, String)>,
    events: Vec<StagedEvent>,
    /// The bytes of the payloads of all events.
    payload_bytes: usize,
    /// The code and the message of the first error of staging. A plan with one is not written, even if the action ignores it.
    failed: Option<(Code, String)>,
}

/// The execution that a plan belongs to.
#[derive(Clone)]
pub(super) struct PlanContext {
    pub(super) action_id: Uuid,
    pub(super) principal: Option<String>,
    pub(super) started: Timestamp,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) names: Arc<NameRegistry>,
    /// The number of events that the persister takes.
    pub(super) events_max: usize,
}

/// An event and the shard of its model.
pub(super) struct StagedEvent {
    pub(super) shard: Shard,
    pub(super) event: Event,
}

/// Rows of one type that are written together.
pub(super) struct Change {
    kind: ChangeKind,
    shard: Shard,
    entity: TypeId,
    name: &'static str,
    rows: Box<dyn Rows>,
}

/// A `Vec` of any entity type.
trait Rows: Any + Send + Sync {
    fn len(&self) -> usize;
    fn staged(&self) -> Vec<(String, i64)>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<M: Entity> Rows for Vec<M> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn staged(&self) -> Vec<(String, i64)> {
        self.iter().map(|row| (row.id().to_string(), row.version())).collect()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Change {
    pub(super) fn kind(&self) -> ChangeKind {
        self.kind
    }

    pub(super) fn shard(&self) -> Shard {
        self.shard
    }

    pub(super) fn entity(&self) -> TypeId {
        self.entity
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn rows<M: Entity>(&self) -> Option<&[M]> {
        self.rows.as_any().downcast_ref::<Vec<M>>().map(Vec::as_slice)
    }
}

impl Plan {
    /// A plan without an executor, for a test that calls [`Action::perform`](super::Action::perform) itself.
    pub fn for_test() -> Self {
        let clock = Arc::new(SystemClock::new());
        Self::new(PlanContext {
            action_id: Uuid::now_v7(),
            principal: None,
            started: clock.now().wall,
            clock,
            names: Arc::default(),
            events_max: Limits::default().events_per_call_max,
        })
    }

    pub(super) fn new(context: PlanContext) -> Self {
        Self {
            context,
            changes: Vec::new(),
            staged: HashSet::new(),
            events: Vec::new(),
            payload_bytes: 0,
            failed: None,
        }
    }

    /// The id of this execution, the same on all of its rows and over its retries.
    pub fn action_id(&self) -> Uuid {
        self.context.action_id
    }

    /// On whose behalf the action runs, if the caller or the executor's builder set it.
    pub fn principal(&self) -> Option<&str> {
        self.context.principal.as_deref()
    }

    /// When the execution started.
    pub fn started(&self) -> Timestamp {
        self.context.started
    }

    /// The time of the executor's clock.
    pub fn now(&self) -> Timestamp {
        self.context.clock.now().wall
    }

    /// Stages a new row.
    ///
    /// # Errors
    /// [`Code::PlanInvalid`] if the id is staged already, [`Code::NameTwice`] if another type has the same name.
    pub fn add<M: Entity>(&mut self, row: M) -> Result<Staged<'_, M>> {
        self.stage(ChangeKind::Add, row)
    }

    /// Stages the new state of a row that was read.
    ///
    /// # Errors
    /// As [`Plan::add`].
    pub fn update<M: Entity>(&mut self, row: M) -> Result<Staged<'_, M>> {
        self.stage(ChangeKind::Update, row)
    }

    /// Stages several new rows. They are inserted together. [`StagedAll::events`] stages an event for each.
    ///
    /// # Errors
    /// As [`Plan::add`].
    pub fn add_all<M: Entity>(&mut self, rows: impl IntoIterator<Item = M>) -> Result<StagedAll<'_, M>> {
        self.stage_all(ChangeKind::Add, rows)
    }

    /// Stages the new states of several rows.
    ///
    /// # Errors
    /// As [`Plan::add`].
    pub fn update_all<M: Entity>(&mut self, rows: impl IntoIterator<Item = M>) -> Result<StagedAll<'_, M>> {
        self.stage_all(ChangeKind::Update, rows)
    }

    /// Whether everything was staged. The executor checks this too, before any SQL: an action that ignores an error of its
    /// plan is not written.
    ///
    /// # Errors
    /// The first error of staging, with its code.
    pub fn check(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some((code, message)) => {
                let what = format!("the action ignored an error of its plan: {message}");
                Err(Error::new(*code, what)
                    .with_effect("nothing was written")
                    .with_hint("return the errors of the plan from the action, with `?`"))
            }
        }
    }

    /// Remembers an error, so that the plan is not written.
    fn noted<T>(&mut self, staged: Result<T>) -> Result<T> {
        if let Err(error) = &staged {
            self.failed.get_or_insert_with(|| (error.code(), error.message().to_owned()));
        }
        staged
    }

    fn stage<M: Entity>(&mut self, kind: ChangeKind, row: M) -> Result<Staged<'_, M>> {
        let place = self.try_stage(kind, row);
        let place = self.noted(place)?;
        Ok(Staged::new(self, place))
    }

    fn stage_all<M: Entity>(
        &mut self,
        kind: ChangeKind,
        rows: impl IntoIterator<Item = M>,
    ) -> Result<StagedAll<'_, M>> {
        let places: Result<Vec<Place>> = rows.into_iter().map(|row| self.try_stage(kind, row)).collect();
        let places = self.noted(places)?;
        Ok(StagedAll::new(self, places))
    }

    fn try_stage<M: Entity>(&mut self, kind: ChangeKind, row: M) -> Result<Place> {
        self.context.names.reserve::<M>(NameKind::Model, M::NAME)?;
        let (id, shard) = (row.id().to_string(), row.shard());
        if self.staged.len() >= ROWS_MAX {
            let what = format!("the plan has more than {ROWS_MAX} rows");
            return Err(Error::new(Code::PlanInvalid, what));
        }
        if !self.staged.insert((TypeId::of::<M>(), id.clone())) {
            let what = format!("{} {id} is staged twice in one plan", M::NAME);
            return Err(Error::new(Code::PlanInvalid, what));
        }
        let (change, number) = self.push(kind, shard, row);
        Ok(Place { id, shard, change, number })
    }

    /// Rows that were staged one after another are one change, if they are of one type and shard: one statement can write
    /// them. Returns the number of the change, and that of the row in it.
    fn push<M: Entity>(&mut self, kind: ChangeKind, shard: Shard, row: M) -> (usize, usize) {
        let changes = self.changes.len();
        let last = self.changes.last_mut().filter(|change| (change.kind, change.shard) == (kind, shard));
        if let Some(rows) = last.and_then(|change| change.rows.as_any_mut().downcast_mut::<Vec<M>>()) {
            rows.push(row);
            return (changes - 1, rows.len() - 1);
        }
        let rows = Box::new(vec![row]);
        self.changes.push(Change { kind, shard, entity: TypeId::of::<M>(), name: M::NAME, rows });
        (changes, 0)
    }

    /// A staged row.
    pub(super) fn row<M: Entity>(&self, at: &Place) -> Option<&M> {
        self.changes.get(at.change)?.rows::<M>()?.get(at.number)
    }

    /// Stages an event of a staged row.
    pub(super) fn stage_event<M: Model, E: TypedEvent + 'static>(
        &mut self,
        of: &Place,
        event: &E,
        complete: impl FnOnce(Event) -> Event,
    ) -> Result<()> {
        let staged = self.try_stage_event::<M, E>(of, event, complete);
        self.noted(staged)
    }

    fn try_stage_event<M: Model, E: TypedEvent + 'static>(
        &mut self,
        of: &Place,
        event: &E,
        complete: impl FnOnce(Event) -> Event,
    ) -> Result<()> {
        self.context.names.reserve::<E>(NameKind::Event, E::TYPE)?;
        let too_large = |what: String| {
            Error::new(Code::PlanInvalid, what)
                .with_hint("split the action; each part is committed by itself")
        };
        let events_max = self.context.events_max;
        if self.events.len() >= events_max {
            return Err(too_large(format!("the plan has more than {events_max} events")));
        }
        let declared = (E::AGGREGATE, event.aggregate_id());
        let is_other = declared.0.is_some_and(|kind| kind != M::NAME)
            || declared.1.is_some_and(|id| declared.0.is_some() && id != of.id);
        if is_other {
            let what = format!("the event {} is not about {} {}", E::TYPE, <M as Named>::NAME, of.id);
            return Err(Error::new(Code::PlanInvalid, what));
        }
        let now = self.now();
        let event = complete(event.into_event()?.with_time(now)).with_aggregate(M::NAME, of.id.clone());
        if event.event_type != E::TYPE {
            let what = format!("the event {} was given the type {:?}", E::TYPE, event.event_type);
            return Err(Error::new(Code::PlanInvalid, what)
                .with_hint("the type of an event is that of its Rust type"));
        }
        self.payload_bytes = self.payload_bytes.saturating_add(event.payload.len());
        if self.payload_bytes > PAYLOADS_BYTES_MAX {
            let what = format!("the events of the plan have more than {PAYLOADS_BYTES_MAX} bytes of payload");
            return Err(too_large(what));
        }
        self.events.push(StagedEvent { shard: of.shard, event });
        Ok(())
    }

    /// Every staged row, in the order of staging.
    pub fn rows(&self) -> Vec<StagedRow> {
        let of = |change: &Change| {
            let (kind, entity, shard) = (change.kind, change.name, change.shard);
            let row = move |(id, version)| StagedRow { kind, entity, id, version, shard };
            change.rows.staged().into_iter().map(row).collect::<Vec<_>>()
        };
        self.changes.iter().flat_map(of).collect()
    }

    /// The staged rows of one type that are changed in this way, in the order of staging.
    pub fn rows_of<M: Entity>(&self, kind: ChangeKind) -> Vec<&M> {
        let changes = self.changes.iter().filter(|change| change.kind == kind);
        changes.filter_map(Change::rows).flatten().collect()
    }

    /// The staged events, in the order of staging.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().map(|staged| &staged.event)
    }

    /// How many rows and events are staged.
    pub(super) fn len(&self) -> (usize, usize) {
        (self.changes.iter().map(Change::len).sum(), self.events.len())
    }

    /// Its rows and events.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(super) fn into_parts(self) -> Result<(Vec<Change>, Vec<StagedEvent>)> {
        self.check()?;
        Ok((self.changes, self.events))
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<&str> = self.events().map(|event| event.event_type.as_str()).collect();
        f.debug_struct("Plan").field("rows", &self.rows()).field("events", &types).finish_non_exhaustive()
    }
}
