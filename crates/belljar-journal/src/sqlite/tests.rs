use super::*;

fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

fn event() -> NewEvent {
    NewEvent::new("test", 1, Timestamp(0), &"body").unwrap()
}

async fn pragma(pool: &SqlitePool, name: &'static str) -> String {
    let row = sqlx::query(name).fetch_one(pool).await.unwrap();
    row.try_get::<String, _>(0)
        .or_else(|_| row.try_get::<i64, _>(0).map(|number| number.to_string()))
        .unwrap()
}

/// What makes an acknowledged event survive a power failure, which no test here can cause.
#[tokio::test]
async fn the_connections_are_durable_and_strict() {
    let directory = tempfile::tempdir().unwrap();
    let store = Sqlite::open(directory.path()).await.unwrap();
    for pool in [&store.writer, &store.readers] {
        assert_eq!(pragma(pool, "PRAGMA journal_mode").await, "wal");
        assert_eq!(pragma(pool, "PRAGMA synchronous").await, "2");
        assert_eq!(pragma(pool, "PRAGMA foreign_keys").await, "1");
        assert_eq!(pragma(pool, "PRAGMA busy_timeout").await, "5000");
    }
    let written = sqlx::query("DELETE FROM runs")
        .execute(&store.readers)
        .await;
    assert!(written.is_err(), "a reader can write");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = Sqlite::open(directory.path()).await.unwrap();
    store.append(&run("a"), 0, &[event()]).await.unwrap();
    let newer = sqlx::query("PRAGMA user_version = 99");
    newer.execute(&store.writer).await.unwrap();
    let error = Sqlite::open(directory.path()).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::NewerSchema {
                found: 99,
                known: 1,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("made by a newer Belljar"),
        "{error}"
    );
    assert_eq!(store.last_seq(&run("a")).await.unwrap(), 1);
}

#[tokio::test]
async fn a_writer_that_keeps_the_file_too_long_is_told_as_a_lock() {
    let directory = tempfile::tempdir().unwrap();
    let store = Sqlite::open(directory.path()).await.unwrap();
    let other = Sqlite::open(directory.path()).await.unwrap();
    // Shorter than usual, so that the test is too.
    let timeout = sqlx::query("PRAGMA busy_timeout = 20");
    timeout.execute(&store.writer).await.unwrap();
    let holding = other.writer.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let error = store.append(&run("a"), 0, &[event()]).await.unwrap_err();
    assert!(
        matches!(error, AppendError::Journal(Error::Locked(_))),
        "{error:?}"
    );
    // Readers don't wait for writers.
    assert_eq!(store.last_seq(&run("a")).await.unwrap(), 0);
    holding.rollback().await.unwrap();
    assert_eq!(store.append(&run("a"), 0, &[event()]).await.unwrap(), 1);
}

#[tokio::test]
async fn a_missing_event_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let store = Sqlite::open(directory.path()).await.unwrap();
    let batch = [event(), event(), event()];
    store.append(&run("a"), 0, &batch).await.unwrap();
    let hole = sqlx::query("DELETE FROM events WHERE seq = 2");
    hole.execute(&store.writer).await.unwrap();
    let error = Store::read(&store, &run("a"), 0, 10).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
}

#[tokio::test]
async fn a_damaged_page_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let store = Sqlite::open(directory.path()).await.unwrap();
    store
        .append(&run("a"), 0, &vec![event(); 1000])
        .await
        .unwrap();
    // The last to close moves all from the log into the file, if it may write.
    store.readers.close().await;
    store.writer.close().await;
    let mut bytes = std::fs::read(&store.path).unwrap();
    let after_the_schema = 4096..;
    bytes[after_the_schema].fill(0xAA);
    std::fs::write(&store.path, bytes).unwrap();

    let store = Sqlite::open(directory.path()).await.unwrap();
    let error = Store::read(&store, &run("a"), 0, 1000).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
    let error = store.append(&run("a"), 1000, &[event()]).await.unwrap_err();
    assert!(
        matches!(error, AppendError::Journal(Error::Corrupt { .. })),
        "{error:?}"
    );
}

/// A page must not cost more in a journal of millions of events.
#[tokio::test]
async fn every_query_goes_by_an_index() {
    let directory = tempfile::tempdir().unwrap();
    let store = Sqlite::open(directory.path()).await.unwrap();
    for query in [LAST_SEQ, READ, RUNS] {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {query}"));
        let rows = sqlx::query(explain)
            .fetch_all(&store.readers)
            .await
            .unwrap();
        assert!(!rows.is_empty());
        for row in rows {
            let step: String = row.try_get("detail").unwrap();
            assert!(step.starts_with("SEARCH"), "{query}: {step}");
        }
    }
}
