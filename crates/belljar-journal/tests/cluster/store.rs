//! The journal in PostgreSQL beyond what `tests/conformance` asks of each store.

use std::time::{Duration, Instant};

use belljar_journal::{AppendError, Error, Journal, NewEvent, RunId, Timestamp};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::postgres::{Server, database};
use crate::proxy::{Network, Proxy};

fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

fn event() -> NewEvent {
    NewEvent::new("test", 1, Timestamp(0), &"body").unwrap()
}

async fn sql(database: &str, statement: &str) -> Vec<sqlx::postgres::PgRow> {
    let mut connection = PgConnection::connect(database).await.unwrap();
    let query = sqlx::query(AssertSqlSafe(statement.to_owned()));
    query.fetch_all(&mut connection).await.unwrap()
}

#[tokio::test]
async fn one_version_ahead_is_accepted_and_two_are_refused() {
    let database = database();
    let journal = Journal::connect(&database).await.unwrap();
    journal.append(&run("a"), 0, &[event()]).await.unwrap();
    sql(
        &database,
        "UPDATE belljar.schema_version SET version = version + 1",
    )
    .await;
    // The other node of a rolling upgrade has brought it further.
    let older = Journal::connect(&database).await.unwrap();
    assert_eq!(older.append(&run("a"), 1, &[event()]).await.unwrap(), 2);
    sql(
        &database,
        "UPDATE belljar.schema_version SET version = version + 1",
    )
    .await;
    let error = Journal::connect(&database).await.unwrap_err();
    assert!(
        matches!(error, Error::NewerSchema { found, known, .. } if found == known + 2),
        "{error:?}"
    );
    assert_eq!(journal.last_seq(&run("a")).await.unwrap(), 2);
}

#[tokio::test]
async fn an_address_that_is_not_one_and_a_server_that_is_not_there() {
    let error = Journal::connect("postgres://u:secret@host:port/x")
        .await
        .unwrap_err();
    assert!(matches!(error, Error::InvalidDatabase(_)), "{error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
    let error = Journal::connect("mysql://u:secret@host/x")
        .await
        .unwrap_err();
    assert!(matches!(error, Error::InvalidDatabase(_)), "{error:?}");
    let nowhere = "postgres://u:secret@127.0.0.1:1/x?sslmode=disable";
    let error = Journal::connect(nowhere).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.storage_fault().is_some());
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(
            text.contains("127.0.0.1:1/x") && !text.contains("secret"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_database_of_another_encoding_is_refused() {
    let address = database();
    let name = format!("latin_{}", std::process::id());
    let make = format!("CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0");
    sql(&address, &make).await;
    let (server, query) = address.split_once('?').unwrap();
    let (server, _) = server.rsplit_once('/').unwrap();
    let latin = format!("{server}/{name}?{query}");
    let error = Journal::connect(&latin).await.unwrap_err();
    assert!(matches!(error, Error::Unsuitable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_password_is_shown_nowhere() {
    let address = database().replace("belljar@", "belljar:secret@");
    let journal = Journal::connect(&address).await.unwrap();
    let text = format!("{journal:?}");
    assert!(
        text.contains("postgres://") && !text.contains("secret"),
        "{text}"
    );
}

/// Whatever the database's settings are, an acknowledged event is on the disk.
#[tokio::test]
async fn commits_wait_for_the_disk() {
    let address = database();
    let name = &address[..address.find('?').unwrap()];
    let name = &name[name.rfind('/').unwrap() + 1..];
    sql(
        &address,
        &format!("ALTER DATABASE {name} SET synchronous_commit = off"),
    )
    .await;
    let level = format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'");
    sql(&address, &level).await;
    let journal = Journal::connect(&address).await.unwrap();
    // Its own connections can't be asked; a trigger sees them.
    sql(
        &address,
        "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF current_setting('synchronous_commit') <> 'on' \
             OR current_setting('transaction_isolation') <> 'read committed' \
         THEN RAISE 'not durable'; END IF; RETURN NEW; END $$",
    )
    .await;
    sql(
        &address,
        "CREATE TRIGGER see BEFORE INSERT ON belljar.events FOR EACH ROW EXECUTE FUNCTION see()",
    )
    .await;
    journal.append(&run("a"), 0, &[event()]).await.unwrap();
}

/// The server is restarted and killed below a journal that is in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_survives_restarts_of_the_server() {
    let server = Server::start("");
    let journal = Journal::connect(&server.database()).await.unwrap();
    let mut last = 0;
    for signal in ["-INT", "-KILL"] {
        for _ in 0..10 {
            last = journal.append(&run("a"), last, &[event()]).await.unwrap();
        }
        server.stop(signal);
        let error = journal
            .append(&run("a"), last, &[event()])
            .await
            .unwrap_err();
        assert!(
            matches!(error, AppendError::Journal(Error::Unreachable { .. })),
            "{error:?}"
        );
        server.start_again();
        // At once: a dead connection is not handed out twice.
        assert_eq!(journal.last_seq(&run("a")).await.unwrap(), last);
    }
    assert_eq!(
        journal.append(&run("a"), last, &[event()]).await.unwrap(),
        last + 1
    );
}

/// A lost answer leaves the events, a lost request doesn't; in both cases the caller gets an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_an_error_whether_or_not_the_events_are_there() {
    let server = Server::start("");
    server.sql("postgres", "CREATE DATABASE one");
    let proxy = Proxy::start(&server.socket()).await;
    let journal = Journal::connect(&proxy.address("one")).await.unwrap();
    journal.append(&run("a"), 0, &[event()]).await.unwrap();
    // The first prepares the statement, which is a request of its own.
    let mut last = journal.append(&run("a"), 1, &[event()]).await.unwrap();
    for (network, is_there) in [(Network::LosesAnswers, 1), (Network::LosesRequests, 0)] {
        proxy.set(network);
        let error = journal
            .append(&run("a"), last, &[event()])
            .await
            .unwrap_err();
        assert!(
            matches!(error, AppendError::Journal(Error::Unreachable { .. })),
            "{error:?}"
        );
        proxy.reset();
        last += is_there;
        assert_eq!(journal.last_seq(&run("a")).await.unwrap(), last);
    }
}

/// An append is one statement: one round trip, however many events it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_is_one_statement() {
    let server = Server::start("shared_preload_libraries = 'pg_stat_statements'");
    let address = server.database();
    sql(&address, "CREATE EXTENSION pg_stat_statements").await;
    let journal = Journal::connect(&address).await.unwrap();
    let mut last = journal.append(&run("a"), 0, &[event()]).await.unwrap();
    sql(&address, "SELECT pg_stat_statements_reset()").await;
    for size in [1, 10] {
        last = journal
            .append(&run("a"), last, &vec![event(); size])
            .await
            .unwrap();
    }
    let calls = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements \
        WHERE query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE '%set_config%'";
    let calls: i64 = sql(&address, calls).await[0].try_get(0).unwrap();
    assert_eq!(calls, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_used_and_the_certificate_is_checked() {
    // Its own, among the many of this machine: the port need not be free on the others.
    let [.., high, low] = std::process::id().to_be_bytes();
    let ip = format!("127.77.{high}.{low}");
    let server = Server::start(&format!("listen_addresses = '{ip}'"));
    server.sql("postgres", "CREATE DATABASE one");
    let certificate = server.serve_tls(&ip);
    let address = format!("postgres://belljar@{ip}/one?sslmode=verify-full");
    let good = format!("{address}&sslrootcert={}", certificate.display());
    let begin = Instant::now();
    let journal = loop {
        // The server takes a moment to load the certificate.
        match Journal::connect(&good).await {
            Ok(journal) => break journal,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(20), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    journal.append(&run("a"), 0, &[event()]).await.unwrap();
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
        WHERE ssl AND application_name = 'belljar'";
    assert_ne!(server.sql("one", encrypted), "0");
    // Nobody vouches for it among the authorities of this machine.
    let error = Journal::connect(&address).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}
