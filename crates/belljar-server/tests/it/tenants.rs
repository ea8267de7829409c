//! Keys, as they are kept.

use std::os::unix::fs::PermissionsExt as _;

use belljar_server::{Scope, Server, ServerError, ServerOptions, TenantName, Tenants};

use crate::support::world;

#[tokio::test]
async fn the_first_key_is_made_once_and_kept_hashed() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("new");
    let tenants = Tenants::open(&data).await.unwrap();
    let first = tenants.first_key().await.unwrap().unwrap();
    let parts: Vec<&str> = first.text.split('_').collect();
    assert_eq!((parts[0], parts[1].len(), parts[2].len()), ("bj", 8, 64));
    assert_eq!(first.info.scopes, Scope::ALL);
    assert!(!format!("{first:?}").contains(parts[2]));
    drop(tenants);

    let tenants = Tenants::open(&data).await.unwrap();
    assert!(tenants.first_key().await.unwrap().is_none());
    assert!(tenants.revoke(parts[1]).await.unwrap());
    assert!(!tenants.revoke(parts[1]).await.unwrap());
    assert!(tenants.first_key().await.unwrap().is_none());
    for entry in std::fs::read_dir(&data).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{entry:?}");
        let contents = std::fs::read(entry.path()).unwrap();
        let secret = parts[2].as_bytes();
        let found = contents
            .windows(secret.len())
            .any(|window| window == secret);
        assert!(!found, "{entry:?} has the secret");
    }
    assert_eq!(
        std::fs::metadata(&data).unwrap().permissions().mode() & 0o077,
        0
    );
}

#[tokio::test]
async fn there_is_no_start_without_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let tenants = Tenants::open(directory.path()).await.unwrap();
    let environment = belljar_sandbox::Environment::from_python("/usr/bin/python3".as_ref());
    let engine = belljar_sandbox::Engine::builder(environment.unwrap()).build();
    let refused = Server::new(engine, tenants, directory.path(), ServerOptions::default()).await;
    assert!(matches!(refused, Err(ServerError::NoKey)));
}

/// Two services with one directory would take each other's files away; what one that died left is removed.
#[tokio::test]
async fn a_directory_has_one_service() {
    let world = world().await;
    let spool = world.data.path().join("spool");
    std::fs::create_dir(spool.join("left")).unwrap();
    std::fs::write(spool.join("left/snapshot"), "x").unwrap();
    let start = async |data: &std::path::Path| {
        let tenants = Tenants::open(data).await.unwrap();
        let environment = belljar_sandbox::Environment::from_python("/usr/bin/python3".as_ref());
        let engine = belljar_sandbox::Engine::builder(environment.unwrap()).build();
        Server::new(engine, tenants, data, ServerOptions::default()).await
    };
    let refused = start(world.data.path()).await;
    assert!(matches!(refused, Err(ServerError::InUse(_))));
    assert!(spool.join("left").exists());
    let data = world.ends().await;
    start(data.path()).await.unwrap();
    assert!(!spool.join("left").exists());
}

/// K12: a tenant's name means nothing special anywhere.
#[test]
fn names_of_tenants_are_plain() {
    for name in ["a", "team-7", "0"] {
        assert!(name.parse::<TenantName>().is_ok(), "{name}");
    }
    for name in [
        "",
        "a.>",
        "*",
        "a b",
        "%",
        "A",
        "-a",
        "ä",
        "../a",
        &"a".repeat(65),
    ] {
        assert!(name.parse::<TenantName>().is_err(), "{name}");
    }
}

/// K13: sessions of one tenant come from one template, those of another from another.
#[tokio::test]
async fn tenants_share_no_template() {
    let world = world().await;
    let mut hashes = Vec::new();
    for tenant in ["a", "a", "b"] {
        let client = world.client(tenant).await;
        let session = client.session().await;
        hashes.push(client.printed(&session, "print(hash('x'))").await);
    }
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}
