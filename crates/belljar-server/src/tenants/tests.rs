//! What each store must guarantee: the same tests on SQLite and on a real PostgreSQL.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar_journal::failpoint;
use belljar_sandbox::protocol::Walls;

use super::*;

#[path = "../../../belljar-journal/tests/postgres/mod.rs"]
mod postgres;

/// Where records are, for as long as a test needs them.
enum Place {
    File(tempfile::TempDir),
    Database(String),
}

impl Place {
    fn all() -> [Self; 2] {
        [
            Self::File(tempfile::tempdir().unwrap()),
            Self::Database(postgres::database()),
        ]
    }

    /// As another process has them.
    async fn open(&self) -> Tenants {
        match self {
            Self::File(directory) => Tenants::open(directory.path()).await.unwrap(),
            Self::Database(address) => Tenants::connect(address).await.unwrap(),
        }
    }
}

fn a() -> TenantName {
    "a".parse().unwrap()
}

/// An expired key is refused, and it is known when a valid one was last used.
#[tokio::test]
async fn a_key_expires_and_its_last_use_is_known() {
    for place in Place::all() {
        let tenants = place.open().await;
        let day = Duration::from_hours(24);
        let valid = tenants.create_key(&a(), &[], Some(day)).await.unwrap();
        let expired = tenants.create_key(&a(), &[], Some(Duration::ZERO)).await;
        let expired = expired.unwrap();
        assert_eq!(tenants.check(&expired.text).await.unwrap(), None);
        assert!(!tenants.is_valid(&expired.info.prefix).await);
        let found = tenants.check(&valid.text).await.unwrap().unwrap();
        assert_eq!((found.expires, found.used), (valid.info.expires, None));
        tenants.keep_uses().await.unwrap();
        for key in tenants.keys().await.unwrap() {
            assert_eq!(key.used.is_some(), key.prefix == valid.info.prefix);
            assert_eq!(key.is_valid(), key.prefix == valid.info.prefix);
        }
    }
}

#[tokio::test]
async fn the_first_key_is_made_once_by_whoever_is_first() {
    for place in Place::all() {
        let (one, other) = (place.open().await, place.open().await);
        let (one_key, other_key) = tokio::join!(one.first_key(), other.first_key());
        let made = [one_key.unwrap(), other_key.unwrap()];
        let made: Vec<_> = made.into_iter().flatten().collect();
        assert_eq!(made.len(), 1);
        let found = other.check(&made[0].text).await.unwrap().unwrap();
        assert_eq!(found.scopes, Scope::ALL);
        assert_eq!(one.keys().await.unwrap(), [found]);
        // What no key looks like is no fault.
        for text in ["bj_\0_x", "bj__", "bj_%_x", "bj_\u{e9}_x", ""] {
            assert_eq!(one.check(text).await.unwrap(), None, "{text:?}");
        }
        assert!(!one.revoke("\0").await.unwrap());
    }
}

/// K1: whoever revokes a key, each process refuses it soon.
#[tokio::test]
async fn a_revoked_key_is_refused_by_other_processes_within_two_seconds() {
    for place in Place::all() {
        let (one, other) = (place.open().await, place.open().await);
        let key = one.create_key(&a(), &[Scope::Runs], None).await.unwrap();
        assert!(other.check(&key.text).await.unwrap().is_some());
        assert!(one.revoke(&key.info.prefix).await.unwrap());
        assert!(!one.revoke(&key.info.prefix).await.unwrap());
        assert_eq!(one.check(&key.text).await.unwrap(), None);
        let begin = Instant::now();
        while other.check(&key.text).await.unwrap().is_some() {
            assert!(begin.elapsed() < Duration::from_secs(2));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!other.is_valid(&key.info.prefix).await);
    }
}

/// K1 without a database: the last word is believed for a second, and then nobody is let in.
#[tokio::test]
async fn no_key_is_believed_for_long_without_the_database() {
    let server = postgres::Server::start("");
    let tenants = Tenants::connect(&server.database()).await.unwrap();
    let key = tenants.create_key(&a(), &[], None).await.unwrap();
    assert!(tenants.check(&key.text).await.unwrap().is_some());
    server.stop("-KILL");
    let begin = Instant::now();
    while let Ok(found) = tenants.check(&key.text).await {
        assert!(found.is_some());
        assert!(begin.elapsed() < Duration::from_secs(2));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!tenants.is_valid(&key.info.prefix).await);
    let refused = tenants.check(&key.text).await.unwrap_err();
    assert_eq!(refused.storage_fault(), Some(StorageFault::Failed));
    // A revocation holds here at once, and everywhere as soon as the database is back.
    let revoked = tenants.revoke(&key.info.prefix).await;
    assert!(revoked.is_err());
    server.start_again();
    assert_eq!(tenants.check(&key.text).await.unwrap(), None);
    assert!(tenants.keys().await.unwrap()[0].revoked.is_some());
    tenants.keep_revocations().await.unwrap();
    let audit = tenants.audit(None, 1).await.unwrap();
    assert_eq!(audit[0].act, "key_revoked");
}

#[tokio::test]
async fn quotas_and_isolation_are_set_removed_and_written_down() {
    for place in Place::all() {
        let (one, other) = (place.open().await, place.open().await);
        let before = other.last_act().await.unwrap();
        let changes = [(Quota::Tokens, Some(5)), (Quota::Runs, None)].into();
        one.set_quotas(&a(), &changes).await.unwrap();
        let changes = BTreeMap::from([(Quota::Tokens, Some(6)), (Quota::Events, Some(1))]);
        other.set_quotas(&a(), &changes).await.unwrap();
        let removed = [(Quota::Events, None)].into();
        other.set_quotas(&a(), &removed).await.unwrap();
        let quotas = one.quotas().await.unwrap();
        assert_eq!(quotas[&a()], Amounts::from([(Quota::Tokens, 6)]));
        for least in [Walls::Full, Walls::Gvisor] {
            let set = one.set_least_isolation(&a(), Some(least)).await;
            set.unwrap();
            assert_eq!(other.least_isolation().await.unwrap()[&a()], least);
        }
        one.set_least_isolation(&a(), None).await.unwrap();
        assert!(other.least_isolation().await.unwrap().is_empty());
        assert_eq!(other.names().await.unwrap(), [a()]);
        let audit = one.audit(None, 100).await.unwrap();
        let details: Vec<_> = audit.iter().map(|event| event.detail.as_str()).collect();
        let expected = [
            "none",
            "gvisor",
            "full",
            "events=none",
            "tokens=6",
            "events=1",
            "tokens=5",
            "runs=none",
        ];
        let mut sorted = [details.clone(), expected.to_vec()];
        for list in &mut sorted {
            list.sort_unstable();
        }
        assert_eq!(sorted[0], sorted[1]);
        assert_eq!(details[..3], expected[..3]);
        let ids: Vec<_> = audit.iter().map(|event| event.id).collect();
        assert!(ids.is_sorted_by(|one, other| one > other), "{ids:?}");
        assert_eq!(other.last_act().await.unwrap(), ids[0]);
        assert!(ids[0] > before);
        let page = one.audit(Some(ids[1]), 2).await.unwrap();
        assert_eq!(page, audit[2..4]);
    }
}

/// Many writers at once: no event is missing, and none becomes visible below one that was seen.
#[tokio::test]
async fn audit_events_become_visible_in_their_order() {
    for place in Place::all() {
        let mut writers = tokio::task::JoinSet::new();
        for number in 0..4_u64 {
            let tenants = place.open().await;
            writers.spawn(async move {
                let tenant: TenantName = format!("t{number}").parse().unwrap();
                for amount in 0..10 {
                    let changes = BTreeMap::from([
                        (Quota::Tokens, Some(amount)),
                        (Quota::Events, Some(amount)),
                    ]);
                    tenants.set_quotas(&tenant, &changes).await.unwrap();
                }
            });
        }
        let reader = place.open().await;
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < 80 {
            let last = seen.last().copied().unwrap_or(0);
            let all = reader.audit(None, 100).await.unwrap();
            for event in all {
                assert!(event.id > last || seen.contains(&event.id), "{}", event.id);
                seen.insert(event.id);
            }
        }
        writers.join_all().await;
    }
}

#[tokio::test]
async fn use_is_kept_by_day_and_read_again() {
    for place in Place::all() {
        let tenants = place.open().await;
        let amounts = |tokens| Amounts::from([(Quota::Tokens, tokens), (Quota::Events, 1)]);
        for tokens in [3, 5] {
            let all = [(100, a(), amounts(tokens)), (101, a(), amounts(1))];
            tenants.keep_spent(&all).await.unwrap();
        }
        let tenants = place.open().await;
        assert_eq!(tenants.spent(100).await.unwrap()[&a()], amounts(5));
        assert_eq!(tenants.spent(101).await.unwrap()[&a()], amounts(1));
        assert!(tenants.spent(102).await.unwrap().is_empty());
        let [here, elsewhere] = tenants.spent_here_and_elsewhere(100).await.unwrap();
        assert_eq!((here.len(), elsewhere.len()), (1, 0));
    }
}

/// Each node writes its own rows, and reads those of the others.
#[tokio::test]
async fn nodes_add_up_what_a_tenant_uses() {
    let place = Place::Database(postgres::database());
    let data = tempfile::tempdir().unwrap();
    let mut nodes = Vec::new();
    for (name, tokens) in [("n1", 3), ("n2", 4)] {
        let mut node = place.open().await;
        let data = data.path().join(name);
        node.serve_node(name, &data).await.unwrap();
        let used = [(100, a(), Amounts::from([(Quota::Tokens, tokens)]))];
        // Twice, as after an answer that was lost.
        node.keep_spent(&used).await.unwrap();
        node.keep_spent(&used).await.unwrap();
        // What it leaves for its next start is its own.
        let key = RequestKey {
            tenant: a(),
            key: name.to_owned(),
            hash: [1; 32],
        };
        node.keep_request_keys(std::slice::from_ref(&key))
            .await
            .unwrap();
        nodes.push((node, key));
    }
    assert_eq!(
        nodes[0].0.spent(100).await.unwrap()[&a()][&Quota::Tokens],
        7
    );
    let [here, elsewhere] = nodes[0].0.spent_here_and_elsewhere(100).await.unwrap();
    assert_eq!(
        (here[&a()][&Quota::Tokens], elsewhere[&a()][&Quota::Tokens]),
        (3, 4)
    );
    for (node, key) in &nodes {
        let kept = node.request_keys().await.unwrap();
        assert_eq!(kept, std::slice::from_ref(key));
    }
    // A request that began a run is known by its run, on each node.
    let (one, other) = (&nodes[0].0, &nodes[1].0);
    assert!(
        one.keep_run_of_key(&a(), "n2", &[1; 32], "r")
            .await
            .unwrap()
    );
    assert_eq!(other.request_keys().await.unwrap(), []);
}

#[tokio::test]
async fn a_request_has_one_run_whoever_gets_it() {
    for place in Place::all() {
        let (one, other) = (place.open().await, place.open().await);
        let b: TenantName = "b".parse().unwrap();
        assert!(
            one.keep_run_of_key(&a(), "k", &[1; 32], "r1")
                .await
                .unwrap()
        );
        assert!(
            !other
                .keep_run_of_key(&a(), "k", &[1; 32], "r2")
                .await
                .unwrap()
        );
        assert!(
            other
                .keep_run_of_key(&b, "k", &[2; 32], "r3")
                .await
                .unwrap()
        );
        let found = other.run_of_key(&a(), "k").await.unwrap();
        assert_eq!(found, Some(("r1".to_owned(), vec![1; 32])));
        // That of another tenant is another.
        one.forget_run(&b, "r1").await.unwrap();
        assert_eq!(other.run_of_key(&a(), "k").await.unwrap(), found);
        one.forget_run(&a(), "r1").await.unwrap();
        let found = other.run_of_key(&a(), "k").await.unwrap();
        assert_eq!(found, Some((String::new(), vec![1; 32])));
        assert_eq!(other.run_of_key(&a(), "other").await.unwrap(), None);
    }
}

/// A write that fails leaves nothing, and the next one succeeds.
#[tokio::test]
async fn a_write_that_fails_leaves_nothing() {
    for place in Place::all() {
        let tenants = place.open().await;
        failpoint::arm("tenants.create_key", 5);
        let refused = tenants.create_key(&a(), &[], None).await.unwrap_err();
        assert_eq!(failpoint::disarm(), 1);
        assert_eq!(refused.storage_fault(), Some(StorageFault::Failed));
        assert!(tenants.keys().await.unwrap().is_empty());
        assert!(tenants.audit(None, 10).await.unwrap().is_empty());
        tenants.create_key(&a(), &[], None).await.unwrap();
        assert_eq!(place.open().await.keys().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn audit_events_are_only_added() {
    for place in Place::all() {
        let tenants = place.open().await;
        tenants.create_key(&a(), &[], None).await.unwrap();
        for statement in ["DELETE FROM audit", "UPDATE audit SET actor = 'nobody'"] {
            let mut write = tenants.store.write("tenants.record").await.unwrap();
            assert!(write.execute(statement, &[]).await.is_err(), "{statement}");
        }
        assert_eq!(tenants.audit(None, 10).await.unwrap().len(), 1);
    }
}

/// A file of the first version is taken over.
#[tokio::test]
async fn an_older_file_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let none = Tenants::open_existing(&directory.path().join("none")).await;
    assert!(none.unwrap().is_none());
    assert!(!directory.path().join("none").exists());
    let tenants = Tenants::open(directory.path()).await.unwrap();
    tenants.create_key(&a(), &[], None).await.unwrap();
    let Store::Sqlite {
        writer, readers, ..
    } = &tenants.store
    else {
        panic!("a file is one of SQLite");
    };
    for statement in [
        "DROP TABLE quotas",
        "DROP TABLE spent",
        "DROP TABLE audit",
        "DROP TABLE run_keys",
        "DROP TABLE sessions",
        "DROP TABLE request_keys",
        "DROP TABLE least_isolation",
        "DROP TABLE run_labels",
        "DROP TABLE run_shares",
        "ALTER TABLE keys DROP COLUMN expires",
        "ALTER TABLE keys DROP COLUMN used",
        "PRAGMA user_version = 1",
    ] {
        sqlx::raw_sql(statement).execute(writer).await.unwrap();
    }
    readers.close().await;
    writer.close().await;
    let tenants = Tenants::open(directory.path()).await.unwrap();
    assert_eq!(tenants.keys().await.unwrap().len(), 1);
    let changes = [(Quota::Tokens, Some(5))].into();
    tenants.set_quotas(&a(), &changes).await.unwrap();
    let quotas = tenants.quotas().await.unwrap();
    assert_eq!(quotas[&a()], Amounts::from([(Quota::Tokens, 5)]));
}
