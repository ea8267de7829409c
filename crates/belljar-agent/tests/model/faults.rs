//! What goes wrong, and what is said of it.

use std::time::{Duration, Instant};

use belljar_agent::{
    ApiKey, ModelError, ModelFault, Phase, Profile, Provider, ReplyEvent, Retries, Timeouts,
    WireFormat,
};
use belljar_test_model::{Scripted, ScriptedModel};

use super::{BOTH, KEY, ask, once, profile, provider};

fn retrying(events: &[ReplyEvent]) -> Vec<(u64, &str)> {
    let found = events.iter().filter_map(|event| match event {
        ReplyEvent::Retrying { after_ms, why } => Some((*after_ms, why.as_str())),
        _ => None,
    });
    found.collect()
}

async fn fault(script: Scripted) -> ModelError {
    let (result, events) = once(script, WireFormat::ChatCompletions, true).await;
    assert_eq!(retrying(&events), []);
    result.unwrap_err()
}

#[tokio::test]
async fn a_rate_limit_is_waited_out_as_the_server_says() {
    for wire in BOTH {
        let model =
            ScriptedModel::start([Scripted::rate_limited("1"), Scripted::text("42")]).unwrap();
        let started = Instant::now();
        let (reply, events) = ask(&provider(profile(&model, wire))).await;
        assert_eq!(reply.unwrap().text, "42");
        assert!(started.elapsed() >= Duration::from_secs(1));
        let told = retrying(&events);
        assert!(
            matches!(told[..], [(1000..1100, why)] if why.contains("too many requests")),
            "{told:?}"
        );
        assert_eq!(model.requests().len(), 2);
        assert_eq!(model.requests()[0].body, model.requests()[1].body);
    }
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_left_to_the_caller() {
    let model = ScriptedModel::start([Scripted::rate_limited("3600")]).unwrap();
    let (reply, events) = ask(&provider(profile(&model, WireFormat::ChatCompletions))).await;
    let error = reply.unwrap_err();
    assert!(
        matches!(
            error.fault,
            ModelFault::RateLimited {
                retry_after_ms: Some(3_600_000),
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(
        (error.attempts, events.len(), model.requests().len()),
        (1, 0, 1)
    );
    assert!(error.to_string().contains("3600 s"), "{error}");
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_no_more_often_than_that() {
    for status in [408, 500, 502, 503, 529] {
        let answers = [
            Scripted::status(status, "hm"),
            Scripted::status(status, "hm"),
            Scripted::text("ok"),
        ];
        let model = ScriptedModel::start(answers).unwrap();
        let (reply, events) = ask(&provider(profile(&model, WireFormat::Messages))).await;
        assert_eq!(reply.unwrap().text, "ok", "{status}");
        assert_eq!(retrying(&events).len(), 2);

        let model = ScriptedModel::react(move |_| Scripted::status(status, "hm")).unwrap();
        let (reply, _) = ask(&provider(profile(&model, WireFormat::Messages))).await;
        let error = reply.unwrap_err();
        assert_eq!((error.attempts, model.requests().len()), (3, 3));
        assert!(error.to_string().ends_with("attempts: 3"), "{error}");
    }
}

#[tokio::test]
async fn what_will_not_pass_is_not_tried_again() {
    for (script, check) in [
        (Scripted::status(400, "bad field"), "bad field"),
        (Scripted::status(401, "wrong key"), "refused the key"),
        (
            Scripted::status(404, "model `x` not found"),
            "no model `the-model`",
        ),
        (
            Scripted::status(400, "prompt is too long: 9 tokens > 8 maximum"),
            "too long for the model",
        ),
        (Scripted::status(302, "elsewhere"), "302"),
        (Scripted::malformed(), "cannot be read"),
        (Scripted::empty(), "empty"),
        (Scripted::text(" \n").thinking("hm"), "empty"),
        (Scripted::text("x").filtered(), "content filter"),
        (
            Scripted::raw("text/html", "<html>Welcome</html>"),
            "<html>Welcome",
        ),
        (
            Scripted::raw("application/json", "{\"ok\":true}"),
            "no reply in it",
        ),
        (
            Scripted::raw("application/json", "[".repeat(100_000)),
            "recursion limit",
        ),
    ] {
        for (wire, stream) in BOTH
            .into_iter()
            .flat_map(|wire| [(wire, true), (wire, false)])
        {
            let answer = script.clone();
            let model = ScriptedModel::react(move |_| answer.clone()).unwrap();
            let profile = Profile {
                stream,
                ..profile(&model, wire)
            };
            let error = ask(&provider(profile)).await.0.unwrap_err();
            assert!(error.to_string().contains(check), "{error}");
            assert!(error.to_string().contains("hint: "), "{error}");
            assert!(error.to_string().len() < 1500, "{error}");
            assert_eq!((error.attempts, model.requests().len()), (1, 1), "{error}");
        }
    }
}

#[tokio::test]
async fn a_cut_at_any_byte_is_noticed_and_what_had_come_is_told() {
    for wire in BOTH {
        let text = "one two three four five";
        let mut partial = 0;
        for bytes in (0..1500).step_by(37) {
            let (reply, _) = once(Scripted::text(text).cut_after(bytes), wire, true).await;
            match reply {
                // Only the usage was lost.
                Ok(reply) => assert_eq!(reply.text, text),
                Err(error) => {
                    assert!(matches!(error.fault, ModelFault::Cut { .. }), "{error:?}");
                    if let Some(reply) = error.partial {
                        assert!(text.starts_with(&reply.text));
                        partial += 1;
                    }
                }
            }
        }
        assert!(partial > 3, "{partial}");
        let (reply, _) = once(Scripted::text(text).cut_after(60), wire, false).await;
        assert!(matches!(reply.unwrap_err().fault, ModelFault::Cut { .. }));
    }
    // Ended properly, as far as HTTP goes.
    let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"so far\"}}]}\n\n";
    let error = fault(Scripted::raw("text/event-stream", chunk)).await;
    assert!(matches!(error.fault, ModelFault::Cut { .. }), "{error:?}");
    assert_eq!(error.partial.unwrap().text, "so far");
}

#[tokio::test]
async fn a_cut_is_tried_again_and_what_was_heard_is_void() {
    let text = "one two three four five";
    let model =
        ScriptedModel::start([Scripted::text(text).cut_after(700), Scripted::text(text)]).unwrap();
    let (reply, events) = ask(&provider(profile(&model, WireFormat::ChatCompletions))).await;
    assert_eq!(reply.unwrap().text, text);
    let split = events
        .iter()
        .position(|event| matches!(event, ReplyEvent::Retrying { .. }))
        .unwrap();
    assert!(split > 0);
    let after = events[split + 1..].iter().map(|event| match event {
        ReplyEvent::Text { delta } => delta.as_str(),
        other => panic!("{other:?}"),
    });
    assert_eq!(after.collect::<String>(), text);
}

#[tokio::test]
async fn every_wait_has_a_limit() {
    let slow = Duration::from_secs(30);
    for (script, phase) in [
        (
            Scripted::text("late").slow_first_byte(slow),
            Phase::FirstByte,
        ),
        (
            Scripted::text("slow, so slow").slow_chunks(slow),
            Phase::Idle,
        ),
        (
            Scripted::text("drip, drip, drip").slow_chunks(Duration::from_millis(100)),
            Phase::Whole,
        ),
    ] {
        let model = ScriptedModel::start([script]).unwrap();
        let timeouts = match phase {
            Phase::Whole => Timeouts {
                connect_ms: 2000,
                first_byte_ms: 5000,
                idle_ms: 5000,
                whole_ms: 350,
            },
            _ => Timeouts {
                connect_ms: 2000,
                first_byte_ms: 300,
                idle_ms: 300,
                whole_ms: 10_000,
            },
        };
        let profile = Profile {
            timeouts,
            retries: Retries {
                attempts: 1,
                ..Retries::default()
            },
            ..profile(&model, WireFormat::ChatCompletions)
        };
        let started = Instant::now();
        let error = ask(&provider(profile)).await.0.unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(5));
        assert!(
            matches!(error.fault, ModelFault::Timeout { phase: found, .. } if found == phase),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_complete_reply_does_not_wait_for_a_usage_that_never_comes() {
    let chunk =
        "data: {\"choices\":[{\"delta\":{\"content\":\"42\"},\"finish_reason\":\"stop\"}]}\n\n";
    let script = Scripted::raw("text/event-stream", chunk).hang_after(chunk.len());
    let started = Instant::now();
    // The limit for silence is 10 seconds here.
    let reply = once(script, WireFormat::ChatCompletions, true)
        .await
        .0
        .unwrap();
    assert!(started.elapsed() < Duration::from_secs(9));
    assert_eq!((reply.text.as_str(), reply.usage.estimated), ("42", true));
}

#[tokio::test]
async fn limits_may_be_as_good_as_none() {
    let model = ScriptedModel::start([Scripted::text("42")]).unwrap();
    let most = u64::MAX;
    let profile = Profile {
        timeouts: Timeouts {
            connect_ms: most,
            first_byte_ms: most,
            idle_ms: most,
            whole_ms: most,
        },
        retries: Retries {
            attempts: u32::MAX,
            first_wait_ms: most,
            within_ms: most,
        },
        ..profile(&model, WireFormat::Messages)
    };
    assert_eq!(ask(&provider(profile)).await.0.unwrap().text, "42");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_as_such() {
    let model = ScriptedModel::start([]).unwrap();
    let profile = profile(&model, WireFormat::ChatCompletions);
    drop(model);
    let (reply, events) = ask(&provider(profile)).await;
    let error = reply.unwrap_err();
    assert!(
        matches!(&error.fault, ModelFault::Connect { why } if why.contains("refused")),
        "{error:?}"
    );
    assert_eq!((error.attempts, events.len()), (3, 2));
}

#[tokio::test]
async fn a_hostile_server_fills_no_memory() {
    for wire in BOTH {
        for script in [Scripted::endless(), Scripted::huge_line(20 << 20)] {
            let (reply, _) = once(script, wire, true).await;
            let error = reply.unwrap_err();
            assert!(
                matches!(error.fault, ModelFault::TooLarge { .. }),
                "{:?}",
                error.fault
            );
            assert!(
                error
                    .partial
                    .is_none_or(|reply| reply.text.len() <= 8 << 20)
            );
        }
        let (reply, _) = once(Scripted::huge_line(20 << 20), wire, false).await;
        assert!(matches!(
            reply.unwrap_err().fault,
            ModelFault::TooLarge { .. }
        ));
    }
    let mut many = Scripted::text("");
    for _ in 0..129 {
        many = many.and_call("f", "{}");
    }
    assert!(matches!(
        fault(many).await.fault,
        ModelFault::TooLarge { limit: 128, .. }
    ));
}

#[tokio::test]
async fn dropping_the_future_ends_the_request() {
    let model =
        ScriptedModel::start([Scripted::endless().slow_chunks(Duration::from_millis(5))]).unwrap();
    let provider = provider(profile(&model, WireFormat::ChatCompletions));
    let mut heard = 0;
    let asked = tokio::time::timeout(
        Duration::from_millis(300),
        provider.send(&super::question(), |_| heard += 1),
    )
    .await;
    assert!(asked.is_err());
    assert!(heard > 0);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = ScriptedModel::start([]).unwrap();
    let target = format!("{}/chat/completions", elsewhere.base_url());
    for status in [301, 302, 307, 308] {
        let script = Scripted::status(status, "over there").header("location", &target);
        let error = fault(script).await;
        assert!(
            matches!(error.fault, ModelFault::BadRequest { status: found, .. } if found == status),
            "{error:?}"
        );
    }
    assert!(elsewhere.requests().is_empty());
}

/// Whatever a server does with the key that it was sent, no text of ours shows it.
#[tokio::test]
async fn no_error_shows_the_key() {
    let key_in_stream = format!("data: {{\"error\":{{\"message\":\"bad {KEY}\"}}}}\n\n");
    for wire in BOTH {
        for script in [
            Scripted::echoing_keys(401),
            Scripted::echoing_keys(400),
            Scripted::echoing_keys(500),
            Scripted::raw("text/event-stream", key_in_stream.clone()),
            Scripted::raw("text/event-stream", format!("data: {KEY}\n\n")),
            Scripted::raw("text/html", format!("<p>{KEY}</p>")),
            Scripted::raw("application/json", format!("{{\"message\":\"{KEY}\"}}")),
        ] {
            let model = ScriptedModel::react(move |_| script.clone()).unwrap();
            let (reply, events) = ask(&provider(profile(&model, wire))).await;
            let error = reply.unwrap_err();
            let shown = format!(
                "{error} {error:?} {events:?} {}",
                serde_json::to_string(&error).unwrap()
            );
            assert!(shown.contains("[key]"), "{shown}");
            assert!(!shown.contains(KEY), "{shown}");
        }
    }
    let provider =
        Provider::with_key(Profile::built_in("openai").unwrap(), "m", ApiKey::new(KEY)).unwrap();
    assert!(!format!("{provider:?}").contains(KEY));
}

#[tokio::test]
async fn words_of_a_server_carry_no_terminal_sequences() {
    let error = fault(Scripted::status(400, "\u{1b}[2Jgone\u{7}")).await;
    assert!(
        error.to_string().contains("gone") && !error.to_string().contains('\u{1b}'),
        "{error:?}"
    );
}

#[test]
fn a_key_does_not_travel_in_the_open() {
    let open = |base_url: &str, key: Option<&str>, allow_plain_http: bool| {
        let profile = Profile {
            base_url: base_url.into(),
            allow_plain_http,
            ..Profile::built_in("vllm").unwrap()
        };
        Provider::with_key(profile, "m", key.and_then(ApiKey::new))
    };
    for url in [
        "https://models.example/v1",
        "http://127.0.0.1:1/v1",
        "http://[::1]:1/v1/",
        "http://localhost/v1",
    ] {
        assert!(open(url, Some(KEY), false).is_ok(), "{url}");
    }
    for url in [
        "http://models.example/v1",
        "http://192.168.0.9/v1",
        "http://127.0.0.1.example/v1",
    ] {
        let error = open(url, Some(KEY), false).unwrap_err();
        assert!(error.to_string().contains("unencrypted"), "{error}");
        assert!(open(url, None, false).is_ok(), "{url}");
        assert!(open(url, Some(KEY), true).is_ok(), "{url}");
    }
    for url in [
        "models.example",
        "ftp://models.example",
        "https://me:secret@models.example/v1",
        "",
    ] {
        let error = open(url, None, true).unwrap_err();
        assert!(
            error.to_string().contains("base URL") && !error.to_string().contains("secret"),
            "{error}"
        );
    }
}

#[test]
fn a_missing_key_is_told_before_anything_is_sent() {
    let mut profile = Profile::built_in("qwen").unwrap();
    profile.key_variable = Some("BELLJAR_TEST_NO_SUCH_KEY".into());
    let error = Provider::new(profile.clone(), "qwen-plus").unwrap_err();
    assert!(
        error.to_string().contains("BELLJAR_TEST_NO_SUCH_KEY"),
        "{error}"
    );
    assert_eq!(error.attempts, 0);

    // A file comes before the variable.
    let directory = tempfile::tempdir().unwrap();
    profile.key_file = Some(directory.path().join("key"));
    assert!(Provider::new(profile.clone(), "qwen-plus").is_err());
    std::fs::write(directory.path().join("key"), KEY).unwrap();
    assert!(Provider::new(profile, "qwen-plus").is_ok());
}
