//! A service on an object store: sessions and snapshots without the directory of the service, and a store that fails.

use std::time::{Duration, Instant};

use belljar_journal::{ObjectCredentials, Objects};
use belljar_sandbox::Engine;
use belljar_server::{ServerError, ServerOptions};
use serde_json::json;

use crate::support::{Ask as _, Client, World, bare, options, soon, world_in, world_with};
use crate::weed::{self, proxy::Network, proxy::Proxy};

fn on(objects: &Objects) -> ServerOptions {
    options(|options| options.objects = Some(objects.clone()))
}

fn local_snapshots(world: &World) -> usize {
    let directory = world.data.path().join("sessions");
    directory.read_dir().unwrap().count()
}

/// The names of all objects but the one that names the owner.
async fn stored(objects: &Objects) -> Vec<String> {
    let mut names = Vec::new();
    let list = objects.list(|name, _| names.push(name.to_owned()));
    list.await.unwrap();
    names.retain(|name| name != "node");
    names
}

async fn hibernate(client: &Client, session: &str) {
    let hibernate = client.post(&format!("{session}/hibernate"), json!({}));
    hibernate.with(200).await;
}

#[tokio::test]
async fn a_hibernated_session_needs_no_directory() {
    let objects = weed::objects();
    let world = world_with(on(&objects)).await;
    let client = world.client("a").await;
    let asleep = client.session().await;
    client
        .run(&asleep, "x = 20\nopen('kept', 'w').write('file')")
        .await;
    hibernate(&client, &asleep).await;
    assert_eq!(local_snapshots(&world), 0);
    assert_eq!(stored(&objects).await.len(), 1);
    // What it will lack is read from the store; its snapshot is copied from there, and is one that can be loaded.
    hibernate(&client, &asleep).await;
    let copy = client.get(&format!("{asleep}/snapshot")).with(200).await;
    let copy = copy.bytes().await.unwrap();
    let loaded = client.request(reqwest::Method::POST, "/v1/sessions/from-snapshot");
    let loaded = loaded.header("content-type", "application/vnd.belljar.snapshot");
    let loaded = loaded.body(copy).json_with(201).await;
    let loaded = format!("/v1/sessions/{}", loaded["id"].as_str().unwrap());
    assert_eq!(client.printed(&loaded, "print(x)").await, "20\n");
    client.delete(&loaded).with(204).await;
    let awake = client.session().await;
    client.run(&awake, "y = 5").await;
    let gone = client.session().await;
    client.run(&gone, "z = 1").await;
    hibernate(&client, &gone).await;
    client.delete(&gone).with(204).await;
    soon(async || stored(&objects).await.len() == 1).await;

    let data = world.ends().await;
    assert_eq!(stored(&objects).await.len(), 2);
    std::fs::remove_dir_all(data.path().join("sessions")).unwrap();
    let world = world_in(data, on(&objects)).await;
    let client = world.client_by(client.key.clone());
    let printed = client
        .printed(&asleep, "print(x, open('kept').read())")
        .await;
    assert_eq!(printed, "20 file\n");
    assert_eq!(client.printed(&awake, "print(y)").await, "5\n");
    // Nothing is left of those that are awake.
    soon(async || stored(&objects).await.is_empty()).await;
    assert_eq!(local_snapshots(&world), 0);
    world.ends().await;
}

/// Of a service that was killed; and of one that had no store.
#[tokio::test]
async fn what_no_session_has_is_removed_and_files_are_found() {
    let objects = weed::objects();
    let world = world_with(ServerOptions::default()).await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "x = 1").await;
    let data = world.ends().await;
    let node = std::fs::read_to_string(data.path().join("node")).unwrap();
    let orphan = format!("sessions/{node}/orphan");
    objects.put(&orphan, "x").await.unwrap();
    objects.put("sessions/other/kept", "x").await.unwrap();
    let world = world_in(data, on(&objects)).await;
    let client = world.client_by(client.key.clone());
    assert_eq!(stored(&objects).await, ["sessions/other/kept"]);
    assert_eq!(client.printed(&session, "print(x)").await, "1\n");
    // Without the store again: the session is lost, and the reason is given.
    let data = world.ends().await;
    let world = world_in(data, ServerOptions::default()).await;
    let client = world.client_by(client.key.clone());
    let lost = client.post(&format!("{session}/cells"), json!({"code": "x"}));
    let lost = lost.problem(409, "session_ended").await;
    assert!(
        lost["detail"].as_str().unwrap().contains("object store"),
        "{lost}"
    );
    world.ends().await;
}

#[tokio::test]
async fn a_damaged_or_swapped_snapshot_is_refused() {
    let objects = weed::objects();
    let world = world_with(on(&objects)).await;
    let client = world.client("a").await;
    let mut sessions = Vec::new();
    for number in 0..2 {
        let session = client.session().await;
        client.run(&session, &format!("x = {number}")).await;
        hibernate(&client, &session).await;
        sessions.push(session);
    }
    let names = stored(&objects).await;
    let mut contents = Vec::new();
    for name in &names {
        contents.push(objects.get(name, 1 << 24).await.unwrap().unwrap());
    }
    // Each is whole, and not the one that belongs there.
    objects.put(&names[0], contents[1].clone()).await.unwrap();
    objects.put(&names[1], contents[0].clone()).await.unwrap();
    for session in &sessions {
        let wake = client.post(&format!("{session}/wake"), json!({}));
        wake.problem(422, "snapshot_refused").await;
    }
    let mut cut = contents[0].clone();
    cut.truncate(100);
    objects.put(&names[0], cut).await.unwrap();
    objects.remove(&names[1]).await.unwrap();
    for session in &sessions {
        let wake = client.post(&format!("{session}/wake"), json!({}));
        wake.problem(422, "snapshot_refused").await;
    }
    // They stay hibernated, and wake once the right one is there.
    for (name, contents) in names.iter().zip(contents) {
        objects.put(name, contents).await.unwrap();
    }
    for (number, session) in sessions.iter().enumerate() {
        assert_eq!(
            client.printed(session, "print(x)").await,
            format!("{number}\n")
        );
    }
    world.ends().await;
}

/// Slow, failing, gone: requests are refused for now, nothing is lost, and cells run on.
#[tokio::test]
async fn a_store_that_fails_costs_no_session() {
    let proxy = Proxy::start(weed::port()).await;
    let objects = weed::open(&weed::address(&weed::prefix(), proxy.port));
    let world = world_with(on(&objects)).await;
    let client = world.client("a").await;
    let (awake, asleep) = (client.session().await, client.session().await);
    client.run(&asleep, "x = 1").await;
    hibernate(&client, &asleep).await;
    client.run(&awake, "y = 0").await;
    for network in [
        Network::Gone,
        Network::Fails,
        Network::CutsRequests(1000),
        Network::CutsAnswers(10, u32::MAX),
    ] {
        proxy.set(network);
        let begin = Instant::now();
        let ask = client.post(&format!("{awake}/hibernate"), json!({}));
        ask.problem(503, "storage_failed").await;
        let cell = client.post(&format!("{asleep}/cells"), json!({"code": "x"}));
        if network != Network::CutsRequests(1000) {
            cell.problem(503, "storage_failed").await;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{network:?}");
        client.run(&awake, "y += 1").await;
    }
    proxy.set(Network::Slow(Duration::from_millis(50)));
    assert_eq!(client.printed(&asleep, "print(x)").await, "1\n");
    hibernate(&client, &awake).await;
    proxy.set(Network::Works);
    assert_eq!(client.printed(&awake, "print(y)").await, "4\n");

    // Gone while the service stops: the snapshots are files, and the next start finds them.
    proxy.set(Network::Gone);
    let data = world.ends().await;
    proxy.set(Network::Works);
    let world = world_in(data, on(&objects)).await;
    let client = world.client_by(client.key.clone());
    assert_eq!(local_snapshots(&world), 2);
    assert_eq!(client.printed(&awake, "print(y)").await, "4\n");
    assert_eq!(client.printed(&asleep, "print(x)").await, "1\n");
    world.ends().await;
}

/// Each removes what its own journals don't name: of the other, that would be all.
#[tokio::test]
async fn two_services_never_share_a_prefix() {
    let objects = weed::objects();
    let world = world_with(on(&objects)).await;
    world.client("a").await;
    let start = async |objects: &Objects| {
        let data = tempfile::tempdir().unwrap();
        let tenants = belljar_server::Tenants::open(data.path()).await.unwrap();
        tenants.first_key().await.unwrap();
        let engine = Engine::builder(bare()).build();
        let server = belljar_server::Server::new(engine, tenants, data.path(), on(objects));
        server.await.map(drop)
    };
    let refused = start(&objects).await.unwrap_err();
    assert!(matches!(refused, ServerError::ObjectsInUse), "{refused:?}");
    start(&objects.below("inner")).await.unwrap();
    // Nor is a store used that can't be written.
    let address = weed::address(&weed::prefix(), weed::port());
    let key = ObjectCredentials::new(weed::READER.0, weed::READER.1);
    let refused = start(&Objects::open(&address, key).unwrap())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("AccessDenied"), "{refused}");
    world.ends().await;
}
