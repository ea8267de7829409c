//! Commands and what their tenant has left: what they send is charged, and they can always be killed.

use std::time::Duration;

use belljar_server::{Quota, Scope, ServerOptions};
use serde_json::json;

use crate::internet::in_namespace;
use crate::quotas::{refused, world_of};
use crate::support::{Ask as _, options, soon, until_free, world_with};

/// Sends some bytes to a host of the allow-list.
const SEND: &str =
    "import urllib.request\nurllib.request.urlopen('http://site.test/', data=bytes(5000)).read()\n";

/// Each byte is charged once, whoever sent it: also that of a command whose session is gone before it has ended.
#[test]
fn what_commands_send_is_charged_once() {
    let test = "command_quotas::what_commands_send_is_charged_once";
    in_namespace(test, |internet| async move {
        let world = world_with(options(|options| options.allow = vec!["site.test".into()])).await;
        let (client, admin) = (world.client("a").await, world.admin(&Scope::ALL).await);
        let charged = async || {
            let tenant = admin.get("/v1/admin/tenants/a").json_with(200).await;
            tenant["used"]["egress_bytes"].as_u64().unwrap_or_default()
        };
        let sent = |least: usize| {
            let sent = internet.web.seen().bytes.len();
            assert!(sent > least * 5000, "{sent} bytes");
            sent as u64
        };
        let create = async || {
            let body = json!({"network": {"allow": ["site.test"]}});
            let made = client.post("/v1/sessions", body).json_with(201).await;
            format!("/v1/sessions/{}", made["id"].as_str().unwrap())
        };

        let session = create().await;
        let asked = json!({"argv": ["python", "-c", SEND]});
        let view = client.command(&session, asked.clone()).await;
        assert_eq!(view["exit_code"], 0, "{view:#}");
        assert_eq!(charged().await, sent(1));
        client.command(&session, asked.clone()).await;
        assert_eq!(charged().await, sent(2));
        client.run(&session, SEND).await;
        assert_eq!(charged().await, sent(3));

        // In the background, up to its end with its session.
        let lasting = format!("{SEND}import time\nprint('sent', flush=True)\ntime.sleep(1000)");
        let lasting = json!({"argv": ["python", "-c", lasting]});
        for (at, end) in ["hibernate", "delete"].into_iter().enumerate() {
            let session = create().await;
            let command = client.background(&session, lasting.clone()).await;
            soon(async || client.get(&command).json_with(200).await["stdout"]["text"] == "sent\n")
                .await;
            match end {
                "delete" => client.delete(&session).with(204).await,
                end => {
                    let request = client.post(&format!("{session}/{end}"), json!({}));
                    request.with(200).await
                }
            };
            until_free(&world, "commands").await;
            assert_eq!(charged().await, sent(4 + at), "{end}");
        }

        let quota = json!({"quotas": {"egress_bytes": 1}});
        let request = admin.post("/v1/admin/tenants/a/quotas", quota);
        request.with(200).await;
        let again = client.post(&format!("{session}/commands"), asked);
        refused(again, "egress_bytes").await;
        world.ends().await;
    });
}

/// Where a tenant has nothing left of a day or of the disk, it can still end what runs. Without requests left, a second
/// later.
#[tokio::test]
async fn a_command_is_killed_whatever_is_used_up() {
    let world = world_of(&[], ServerOptions::default()).await;
    let (client, admin) = (world.client("a").await, world.admin(&Scope::ALL).await);
    let session = client.session().await;
    client.run(&session, "print('x' * 100)").await;
    // Something on disk.
    let hibernated = client.session().await;
    client
        .post(&format!("{hibernated}/hibernate"), json!({}))
        .with(200)
        .await;
    let fill = async |quota: &str, amount: Option<u64>| {
        let quotas = json!({"quotas": {quota: amount}});
        let request = admin.post("/v1/admin/tenants/a/quotas", quotas);
        request.with(200).await;
    };
    for quota in [Quota::OutputBytes, Quota::Events, Quota::DiskBytes] {
        let name = quota.as_str();
        let command = client
            .background(&session, json!({"argv": ["sleep", "1000"]}))
            .await;
        fill(name, Some(1)).await;
        let refusal = match quota {
            Quota::DiskBytes => client.put(&format!("{session}/files/a"), vec![7; 100_000]),
            _ => client.post(&format!("{session}/commands"), json!({"command": "true"})),
        };
        refused(refusal, name).await;
        client.delete(&command).with(204).await;
        assert_eq!(client.ended(&command).await["signal"], "SIGKILL", "{name}");
        fill(name, None).await;
    }

    let command = client
        .background(&session, json!({"argv": ["sleep", "1000"]}))
        .await;
    fill("requests_per_second", Some(1)).await;
    let mut used = 0;
    while client.get(&session).send().await.unwrap().status() != 429 {
        used += 1;
        assert!(used < 100, "it is not used up");
    }
    tokio::time::sleep(Duration::from_millis(1100)).await;
    client.delete(&command).with(204).await;
    fill("requests_per_second", None).await;
    assert_eq!(client.ended(&command).await["signal"], "SIGKILL");
    world.ends().await;
}
