//! Events in PostgreSQL: for any number of nodes.

mod connections;
mod database;
mod migrate;
mod writes;

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::TryStreamExt;
use serde_json::value::RawValue;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Arguments, Connection, Executor, Row};

use crate::failpoint;
use crate::store::{PAGE_BYTES, Store, StoreFuture};
use crate::{AppendError, Entry, Error, NewEvent, RunId, RunSummary, Timestamp};
pub(crate) use connections::{Connections, Taken, fault, within};
pub use database::{Database, DatabaseWrite};
pub use migrate::Migrations;
use writes::{WRITE, Writes};

/// Of one node. A beat of its life has one more.
const CONNECTIONS: usize = 8;

/// The most entries of a page: the server looks at each to add up their sizes.
const PAGE: usize = 4096;

/// The epoch of a run that no node has claimed.
pub(crate) const UNCLAIMED: i64 = 0;

/// The check and the events in one statement, so in one round trip and one transaction.
const APPEND: &str = "WITH run AS ( \
        UPDATE belljar.runs SET last_seq = last_seq + cardinality($1) \
        WHERE id = $5 AND last_seq = $6 AND epoch = $7 RETURNING number) \
    INSERT INTO belljar.events (run, seq, at, version, kind, body) \
    SELECT run.number, $6 + new.place, new.at, new.version, new.kind, new.body \
    FROM run, unnest($1, $2, $3, $4) WITH ORDINALITY AS new (at, version, kind, body, place)";

/// A deliberate mistake, with which the tests of clusters must fail: the sequence number is no fence.
const APPEND_UNFENCED: &str = "WITH run AS ( \
        UPDATE belljar.runs SET last_seq = last_seq + cardinality($1) \
        WHERE id = $5 AND last_seq = $6 AND $7::bigint >= 0 RETURNING number) \
    INSERT INTO belljar.events (run, seq, at, version, kind, body) \
    SELECT run.number, $6 + new.place, new.at, new.version, new.kind, new.body \
    FROM run, unnest($1, $2, $3, $4) WITH ORDINALITY AS new (at, version, kind, body, place)";

/// A run that is ready comes behind the other ready runs of its tenant, and not before what is next: so tenants take
/// turns, however many runs one of them has waiting.
const CREATE: &str = "WITH run AS ( \
        INSERT INTO belljar.runs (id, last_seq, tenant, state, turn) \
        SELECT $5, cardinality($1), $6, $7, CASE WHEN $7 = 'ready' THEN greatest( \
            (SELECT max(turn) + 1 FROM belljar.runs WHERE state = 'ready' AND tenant = $6), \
            (SELECT turn FROM belljar.runs WHERE state = 'ready' ORDER BY turn, number LIMIT 1), 0) \
            ELSE 0 END \
        ON CONFLICT (id) DO NOTHING RETURNING number) \
    INSERT INTO belljar.events (run, seq, at, version, kind, body) \
    SELECT run.number, new.place, new.at, new.version, new.kind, new.body \
    FROM run, unnest($1, $2, $3, $4) WITH ORDINALITY AS new (at, version, kind, body, place)";

/// A run in the hands of the life that makes it, unless that is over.
const BEGIN: &str = "WITH run AS ( \
        INSERT INTO belljar.runs (id, last_seq, tenant, state, epoch, life, node) \
        SELECT $5, cardinality($1), $6, 'driven', 1, life, node FROM belljar.lives \
        WHERE life = $7 AND NOT dead \
        ON CONFLICT (id) DO NOTHING RETURNING number) \
    INSERT INTO belljar.events (run, seq, at, version, kind, body) \
    SELECT run.number, new.place, new.at, new.version, new.kind, new.body \
    FROM run, unnest($1, $2, $3, $4) WITH ORDINALITY AS new (at, version, kind, body, place)";

const STATE: &str =
    "SELECT last_seq, epoch FROM belljar.runs WHERE id = $1 AND ($2::text IS NULL OR tenant = $2)";

/// The sizes are added up by the server: it would send all of the bodies, whoever stops reading.
const READ: &str = "SELECT seq, at, version, kind, body FROM ( \
        SELECT *, sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before FROM ( \
            SELECT e.* FROM belljar.events e \
            WHERE e.run = (SELECT number FROM belljar.runs WHERE id = $1 AND ($5::text IS NULL OR tenant = $5)) \
                AND e.seq > $2 \
            ORDER BY e.seq LIMIT $3) AS page) AS sized \
    WHERE before < $4 ORDER BY seq";

macro_rules! runs {
    ($which:literal) => {
        concat!(
            "SELECT id, fseq, fat, fversion, fkind, fbody, lseq, lat, lversion, lkind, lbody FROM ( \
        SELECT *, sum(size) OVER (ORDER BY number DESC) - size AS before FROM ( \
            SELECT r.number, r.id, \
                f.seq AS fseq, f.at AS fat, f.version AS fversion, f.kind AS fkind, f.body AS fbody, \
                l.seq AS lseq, l.at AS lat, l.version AS lversion, l.kind AS lkind, l.body AS lbody, \
                octet_length(f.body) + octet_length(l.body) AS size \
            FROM belljar.runs r \
            JOIN belljar.events f ON f.run = r.number AND f.seq = 1 \
            JOIN belljar.events l ON l.run = r.number AND l.seq = r.last_seq \
            WHERE ",
            $which,
            " ORDER BY r.number DESC LIMIT $2) AS page) AS sized \
    WHERE before < $3 ORDER BY number DESC"
        )
    };
}

const RUNS: &str = runs!("r.number < $1");

const RUNS_OF_TENANT: &str = runs!("r.tenant = $4 AND r.number < $1");

const NUMBER: &str =
    "SELECT number FROM belljar.runs WHERE id = $1 AND ($2::text IS NULL OR tenant = $2)";

const REMOVE: &str = "DELETE FROM belljar.runs WHERE id = $1 AND ($2::text IS NULL OR tenant = $2) \
    RETURNING number";

const BODIES: &str = "SELECT body FROM belljar.events WHERE $1::text IS NULL \
    OR run IN (SELECT number FROM belljar.runs WHERE tenant = $1)";

#[derive(Clone, Debug)]
pub(crate) struct Postgres {
    connections: Connections,
    writes: Writes,
    /// Whose runs it has; all of them without one.
    tenant: Option<Arc<str>>,
}

impl Postgres {
    pub(crate) async fn connect(database: &str) -> Result<Self, Error> {
        let connections = Connections::open(database, CONNECTIONS)?;
        migrate::migrate(&connections, migrate::JOURNAL).await?;
        Ok(Self {
            connections,
            writes: Writes::default(),
            tenant: None,
        })
    }

    /// The runs of a tenant, as if there were no others.
    pub(crate) fn of_tenant(&self, tenant: &str) -> Self {
        Self {
            tenant: Some(tenant.into()),
            ..self.clone()
        }
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    pub(crate) fn fault(&self, error: sqlx::Error) -> Error {
        fault(&self.connections, error)
    }

    /// Appends to a run with this epoch, of which events up to `known` were acknowledged.
    pub(crate) async fn append_at(
        &self,
        epoch: i64,
        run: &RunId,
        expected: u64,
        known: u64,
        events: &[NewEvent],
    ) -> Result<u64, AppendError> {
        let unfenced = failpoint::is_set(failpoint::UNFENCED);
        let statement = if unfenced { APPEND_UNFENCED } else { APPEND };
        let arguments = |arguments: &mut PgArguments| {
            arguments.add(run.as_str())?;
            arguments.add(signed(expected))?;
            arguments.add(epoch)
        };
        if self.write(run, statement, events, arguments).await? {
            return Ok(expected + events.len() as u64);
        }
        // Seldom, so it may cost a second round trip. The statement itself can't tell: it sees the run as it was when
        // the statement began.
        let row = self
            .row(STATE, run)
            .await
            .map_err(|error| self.fault(error))?;
        let state = row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        let state = state.transpose().map_err(|error| self.fault(error))?;
        let (actual, found) = state.map_or((0, epoch), |(last, epoch)| (unsigned(last), epoch));
        if actual < known {
            Err(AppendError::Rewound { known, actual })
        } else if found == epoch || unfenced {
            Err(AppendError::Conflict { expected, actual })
        } else {
            Err(AppendError::Fenced)
        }
    }

    /// Makes a run with its first events.
    pub(crate) async fn create(
        &self,
        run: &RunId,
        tenant: &str,
        state: &str,
        events: &[NewEvent],
    ) -> Result<u64, AppendError> {
        let arguments = |arguments: &mut PgArguments| {
            arguments.add(run.as_str())?;
            arguments.add(tenant)?;
            arguments.add(state)
        };
        if self.write(run, CREATE, events, arguments).await? {
            return Ok(events.len() as u64);
        }
        let actual = self
            .last_seq(run)
            .await
            .map_err(|error| self.fault(error))?;
        Err(AppendError::Conflict {
            expected: 0,
            actual,
        })
    }

    /// Makes a run with its first events, of which this life is the first owner, with epoch 1.
    pub(crate) async fn begin(
        &self,
        run: &RunId,
        tenant: &str,
        life: i64,
        events: &[NewEvent],
    ) -> Result<u64, AppendError> {
        let arguments = |arguments: &mut PgArguments| {
            arguments.add(run.as_str())?;
            arguments.add(tenant)?;
            arguments.add(life)
        };
        if self.write(run, BEGIN, events, arguments).await? {
            return Ok(events.len() as u64);
        }
        let actual = self.last_seq(run).await;
        match actual.map_err(|error| self.fault(error))? {
            0 => Err(AppendError::Fenced),
            actual => Err(AppendError::Conflict {
                expected: 0,
                actual,
            }),
        }
    }

    /// Whether a statement has written these events.
    async fn write(
        &self,
        run: &RunId,
        statement: &'static str,
        events: &[NewEvent],
        more: impl FnOnce(&mut PgArguments) -> Result<(), sqlx::error::BoxDynError>,
    ) -> Result<bool, Error> {
        let mut arguments = PgArguments::default();
        add_events(&mut arguments, events)
            .and_then(|()| more(&mut arguments))
            .map_err(|error| self.fault(sqlx::Error::Encode(error)))?;
        failpoint::reach(failpoint::BEFORE_APPEND);
        let write = self
            .writes
            .write(&self.connections, run, statement, arguments);
        let written = write.await.map_err(|error| self.fault(error))?;
        failpoint::reach(failpoint::BEFORE_ACKNOWLEDGE);
        Ok(written > 0)
    }

    async fn row(&self, query: &'static str, run: &RunId) -> sqlx::Result<Option<PgRow>> {
        let mut connection = self.connections.take().await?;
        let query = sqlx::query(query)
            .bind(run.as_str())
            .bind(self.tenant.as_deref());
        let row = within(WRITE, query.fetch_optional(&mut *connection)).await;
        connection.finish(row)
    }

    async fn last_seq(&self, run: &RunId) -> sqlx::Result<u64> {
        let row = self.row(STATE, run).await?;
        row.map_or(Ok(0), |row| Ok(unsigned(row.try_get(0)?)))
    }

    async fn read(&self, run: &RunId, after: u64, limit: usize) -> sqlx::Result<Vec<Entry>> {
        let mut connection = self.connections.take().await?;
        let rows = sqlx::query(READ)
            .bind(run.as_str())
            .bind(signed(after))
            .bind(signed(limit.min(PAGE) as u64))
            .bind(signed(PAGE_BYTES as u64))
            .bind(self.tenant.as_deref())
            .fetch_all(&mut *connection);
        let rows = within(WRITE, rows).await;
        let rows = connection.finish(rows)?;
        let mut page = Vec::with_capacity(rows.len());
        for (row, seq) in rows.into_iter().zip(after.saturating_add(1)..) {
            let entry = entry(run.clone(), &row, 0)?;
            if entry.seq != seq {
                return Err(sqlx::Error::Decode("an event is missing".into()));
            }
            page.push(entry);
        }
        Ok(page)
    }

    /// Two statements: the second sees what a writer has appended until the first had the run's row.
    async fn remove(&self, run: &RunId) -> sqlx::Result<()> {
        let mut connection = self.connections.take().await?;
        let removed = async {
            let mut transaction = connection.begin().await?;
            let row = sqlx::query(REMOVE)
                .bind(run.as_str())
                .bind(self.tenant.as_deref());
            let row = row.fetch_optional(&mut *transaction);
            if let Some(row) = row.await? {
                let events = sqlx::query("DELETE FROM belljar.events WHERE run = $1");
                let number: i64 = row.try_get(0)?;
                events.bind(number).execute(&mut *transaction).await?;
            }
            transaction.commit().await
        };
        let removed = removed.await;
        connection.finish(removed)
    }

    async fn each_body(&self, see: &mut (dyn FnMut(&str) + Send)) -> sqlx::Result<()> {
        let mut connection = self.connections.take().await?;
        let bodies = sqlx::query(BODIES).bind(self.tenant.as_deref());
        let mut rows = bodies.fetch(&mut *connection);
        while let Some(row) = rows.try_next().await? {
            see(row.try_get(0)?);
        }
        drop(rows);
        connection.finish(Ok(()))
    }

    /// The space is for new events: a server returns it to the disk only while nobody else may use the table.
    async fn compact(&self) -> sqlx::Result<()> {
        let mut connection = self.connections.take().await?;
        let vacuum = connection.execute("VACUUM belljar.events, belljar.runs");
        let vacuumed = vacuum.await;
        connection.finish(vacuumed.map(drop))
    }

    async fn runs(&self, before: Option<&RunId>, limit: usize) -> Result<Vec<RunSummary>, Error> {
        let fault = |error| self.fault(error);
        let before = match before {
            None => i64::MAX,
            Some(run) => self
                .row(NUMBER, run)
                .await
                .and_then(|row| row.map(|row| row.try_get(0)).transpose())
                .map_err(fault)?
                .ok_or_else(|| Error::UnknownRun(run.clone()))?,
        };
        self.runs_before(before, limit).await.map_err(fault)
    }

    async fn runs_before(&self, before: i64, limit: usize) -> sqlx::Result<Vec<RunSummary>> {
        let mut connection = self.connections.take().await?;
        let statement = if self.tenant.is_some() {
            RUNS_OF_TENANT
        } else {
            RUNS
        };
        let mut query = sqlx::query(statement)
            .bind(before)
            .bind(signed(limit.min(PAGE) as u64))
            .bind(signed(PAGE_BYTES as u64));
        if let Some(tenant) = &self.tenant {
            query = query.bind(&**tenant);
        }
        let rows = query.fetch_all(&mut *connection);
        let rows = within(WRITE, rows).await;
        let rows = connection.finish(rows)?;
        rows.iter()
            .map(|row| {
                let run = run_id(row, 0)?;
                let first = entry(run.clone(), row, 1)?;
                let last = entry(run, row, 6)?;
                Ok(RunSummary { first, last })
            })
            .collect()
    }
}

impl Store for Postgres {
    fn append<'a>(
        &'a self,
        run: &'a RunId,
        expected: u64,
        events: &'a [NewEvent],
    ) -> StoreFuture<'a, u64, AppendError> {
        Box::pin(async move {
            if self.tenant.is_some() {
                let why = "a run of a tenant is written by its owner".to_owned();
                return Err(Error::Invalid(why).into());
            }
            if expected == 0 {
                self.create(run, "", "free", events).await
            } else {
                self.append_at(UNCLAIMED, run, expected, 0, events).await
            }
        })
    }

    fn read<'a>(&'a self, run: &'a RunId, after: u64, limit: usize) -> StoreFuture<'a, Vec<Entry>> {
        Box::pin(async move {
            let page = self.read(run, after, limit).await;
            page.map_err(|error| self.fault(error))
        })
    }

    fn remove<'a>(&'a self, run: &'a RunId) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let removed = self.remove(run).await;
            removed.map_err(|error| self.fault(error))
        })
    }

    fn each_body<'a>(&'a self, see: &'a mut (dyn FnMut(&str) + Send)) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let seen = self.each_body(see).await;
            seen.map_err(|error| self.fault(error))
        })
    }

    fn compact(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let compacted = self.compact().await;
            compacted.map_err(|error| self.fault(error))
        })
    }

    fn last_seq<'a>(&'a self, run: &'a RunId) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let last = self.last_seq(run).await;
            last.map_err(|error| self.fault(error))
        })
    }

    fn runs<'a>(
        &'a self,
        before: Option<&'a RunId>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<RunSummary>> {
        Box::pin(self.runs(before, limit))
    }
}

fn add_events(
    arguments: &mut PgArguments,
    events: &[NewEvent],
) -> Result<(), sqlx::error::BoxDynError> {
    let column = events.iter();
    arguments.add(column.clone().map(|event| event.at.0).collect::<Vec<_>>())?;
    let versions = column.clone().map(|event| event.version.cast_signed());
    arguments.add(versions.collect::<Vec<_>>())?;
    let kinds: Vec<_> = column.clone().map(|event| escape(&event.kind)).collect();
    arguments.add(kinds.iter().map(AsRef::as_ref).collect::<Vec<&str>>())?;
    arguments.add(column.map(|event| event.body.get()).collect::<Vec<&str>>())
}

/// The entry whose columns begin at `column`.
fn entry(run: RunId, row: &PgRow, column: usize) -> sqlx::Result<Entry> {
    Ok(Entry {
        run,
        seq: unsigned(row.try_get(column)?),
        at: Timestamp(row.try_get(column + 1)?),
        version: row.try_get::<i32, _>(column + 2)?.cast_unsigned(),
        kind: unescape(row.try_get(column + 3)?),
        body: RawValue::from_string(row.try_get(column + 4)?)
            .map_err(|error| sqlx::Error::Decode(error.into()))?,
    })
}

pub(crate) fn run_id(row: &PgRow, column: usize) -> sqlx::Result<RunId> {
    RunId::try_from(row.try_get::<String, _>(column)?)
        .map_err(|error| sqlx::Error::Decode(error.into()))
}

/// PostgreSQL's text has no zero byte, and a kind is any text. A body is JSON, which has none.
fn escape(kind: &str) -> Cow<'_, str> {
    if kind.contains(['\\', '\0']) {
        kind.replace('\\', r"\\").replace('\0', r"\0").into()
    } else {
        kind.into()
    }
}

fn unescape(kind: String) -> String {
    if !kind.contains('\\') {
        return kind;
    }
    let (mut plain, mut characters) = (String::new(), kind.chars());
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' if characters.next() == Some('0') => '\0',
            character => character,
        });
    }
    plain
}

/// SQL has no unsigned integers; a number that doesn't fit is beyond every event.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The schema keeps sequence numbers above 0.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
