//! What comes back, and how servers differ.

use belljar_agent::{Finish, ModelFault, Reply, ReplyEvent, ToolCall, Usage, WireFormat};
use belljar_test_model::Scripted;
use serde_json::json;

use super::{BOTH, once};

/// What the events alone say.
fn heard(events: &[ReplyEvent]) -> (String, String, Vec<(String, String)>) {
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for event in events {
        match event {
            ReplyEvent::Text { delta } => text += delta,
            ReplyEvent::Thinking { delta } => thinking += delta,
            ReplyEvent::ToolCall { index, name } => {
                assert_eq!(*index, calls.len());
                calls.push((name.clone(), String::new()));
            }
            ReplyEvent::ToolArguments { index, delta } => calls[*index].1 += delta,
            ReplyEvent::Retrying { .. } => panic!("{event:?}"),
        }
    }
    (text, thinking, calls)
}

#[tokio::test]
async fn text_thought_calls_and_usage_in_both_formats_streamed_or_not() {
    for (wire, stream) in BOTH
        .into_iter()
        .flat_map(|wire| [(wire, true), (wire, false)])
    {
        let script = Scripted::text("Ich rechne: 紧急预案 🔔.")
            .thinking("Six times seven…")
            .and_call("python", json!({"code": "print(6 * 7)"}))
            .and_call("read_file", json!({"path": "a.csv"}))
            .usage(1200, 34, 1000);
        let (reply, events) = once(script, wire, stream).await;
        let reply = reply.unwrap();
        let ids: Vec<&str> = reply
            .tool_calls
            .iter()
            .map(|call| call.id.as_str())
            .collect();
        let expected_ids = match wire {
            WireFormat::ChatCompletions => ["call_1_0", "call_1_1"],
            WireFormat::Messages => ["toolu_1_0", "toolu_1_1"],
        };
        assert_eq!(ids, expected_ids);
        let (text, thinking, calls) = heard(&events);
        assert_eq!(reply.text, "Ich rechne: 紧急预案 🔔.");
        assert_eq!(reply.thinking, "Six times seven…");
        assert_eq!(
            calls,
            [
                (
                    "python".to_owned(),
                    "{\"code\":\"print(6 * 7)\"}".to_owned()
                ),
                ("read_file".to_owned(), "{\"path\":\"a.csv\"}".to_owned())
            ]
        );
        let told = reply
            .tool_calls
            .iter()
            .map(|call| (call.name.clone(), call.arguments.clone()));
        assert_eq!(
            (text, thinking, calls),
            (reply.text.clone(), reply.thinking.clone(), told.collect())
        );
        assert_eq!(reply.finish, Finish::ToolCalls);
        assert_eq!(reply.model.as_deref(), Some("scripted-model"));
        assert_eq!(
            reply.usage,
            Usage {
                input_tokens: 1200,
                output_tokens: 34,
                cached_tokens: 1000,
                ..Usage::default()
            },
            "{wire:?} {stream}"
        );
        let sealed =
            json!({"type": "thinking", "thinking": "Six times seven…", "signature": "c2VhbA=="});
        match wire {
            WireFormat::ChatCompletions => assert!(reply.sealed_thinking.is_empty()),
            WireFormat::Messages => assert_eq!(reply.sealed_thinking, [sealed]),
        }
        if stream {
            assert!(events.len() > 10, "{}", events.len());
        }
        let journey = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&journey).unwrap(), reply);
    }
}

#[tokio::test]
async fn a_reply_cut_by_the_limit_of_tokens_is_no_error() {
    for (wire, stream) in BOTH
        .into_iter()
        .flat_map(|wire| [(wire, true), (wire, false)])
    {
        let (reply, _) = once(Scripted::text("The answer i").truncated(), wire, stream).await;
        let reply = reply.unwrap();
        assert_eq!(
            (reply.text.as_str(), reply.finish),
            ("The answer i", Finish::Length)
        );
        // All of its tokens may have gone into thought.
        let (reply, _) = once(Scripted::empty().thinking("Hm").truncated(), wire, stream).await;
        assert_eq!(reply.unwrap().finish, Finish::Length);
    }
}

#[tokio::test]
async fn usage_that_is_missing_is_estimated_and_says_so() {
    for (wire, stream) in BOTH
        .into_iter()
        .flat_map(|wire| [(wire, true), (wire, false)])
    {
        let (reply, _) = once(Scripted::text("12345678").without_usage(), wire, stream).await;
        let usage = reply.unwrap().usage;
        // "What is 6 * 7?" has 14 bytes; a message counts 4 more.
        assert_eq!(
            (usage.input_tokens, usage.output_tokens, usage.estimated),
            (8, 2, true)
        );
    }
}

/// AGT-3: legacy `function_call`.
#[tokio::test]
async fn legacy_function_calls_have_no_id() {
    for stream in [true, false] {
        let script = Scripted::call("f", json!({"x": [1, 2, 3]})).legacy();
        let (reply, events) = once(script, WireFormat::ChatCompletions, stream).await;
        let reply = reply.unwrap();
        let call = ToolCall {
            id: String::new(),
            name: "f".into(),
            arguments: "{\"x\":[1,2,3]}".into(),
        };
        assert_eq!(reply.tool_calls, [call]);
        assert_eq!(reply.finish, Finish::ToolCalls);
        assert_eq!(heard(&events).2.len(), 1);
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_kept_for_the_dialect() {
    let script = Scripted::call("python", "code: print(1)");
    let (reply, _) = once(script, WireFormat::ChatCompletions, true).await;
    assert_eq!(reply.unwrap().tool_calls[0].arguments, "code: print(1)");
}

/// A stream of chat completions, given as its chunks.
async fn stream(chunks: &str) -> Result<Reply, ModelFault> {
    let script = Scripted::raw("text/event-stream; charset=utf-8", chunks);
    let (reply, _) = once(script, WireFormat::ChatCompletions, true).await;
    reply.map_err(|error| error.fault)
}

fn calls(reply: &Reply) -> Vec<(&str, &str, &str)> {
    reply
        .tool_calls
        .iter()
        .map(|call| {
            (
                call.id.as_str(),
                call.name.as_str(),
                call.arguments.as_str(),
            )
        })
        .collect()
}

#[tokio::test]
async fn fragments_of_calls_as_servers_send_them() {
    // Interleaved by index, as OpenAI may; without `[DONE]`, as some proxies.
    let reply = stream(
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"g","arguments":"{\"y\""}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":":2}"}}]},"finish_reason":"tool_calls"}]}

"#,
    )
    .await
    .unwrap();
    assert_eq!(
        calls(&reply),
        [("a", "f", "{\"x\":1}"), ("b", "g", "{\"y\":2}")]
    );

    // DashScope: later fragments have an empty id and a null name; a last chunk with usage.
    let reply = stream(
        r#"data: {"choices":[{"delta":{"content":null,"role":"assistant","tool_calls":[{"index":0,"id":"call_x","type":"function","function":{"name":"f","arguments":"{\"a\""}}]},"finish_reason":null,"index":0}],"usage":null}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","type":"function","function":{"name":null,"arguments":": 1}"}}]},"finish_reason":null}],"usage":null}

data: {"choices":[{"delta":{"tool_calls":null},"finish_reason":"tool_calls"}],"usage":null}

data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25,"prompt_tokens_details":{"cached_tokens":16}}}

data: [DONE]

"#,
    )
    .await
    .unwrap();
    assert_eq!(calls(&reply), [("call_x", "f", "{\"a\": 1}")]);
    assert_eq!(
        (
            reply.usage.input_tokens,
            reply.usage.cached_tokens,
            reply.usage.estimated
        ),
        (20, 16, false)
    );

    // Ollama: whole calls, all with index 0 in older versions, arguments as an object, `stop`.
    let reply = stream(
        r#"data: {"choices":[{"delta":{"role":"assistant","content":"","tool_calls":[{"id":"c1","index":0,"function":{"name":"f","arguments":{"x":1}}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"id":"c2","index":0,"function":{"name":"f","arguments":"{\"x\":2}"}}]},"finish_reason":"stop"}]}

data: [DONE]"#,
    )
    .await
    .unwrap();
    assert_eq!(
        calls(&reply),
        [("c1", "f", "{\"x\":1}"), ("c2", "f", "{\"x\":2}")]
    );
    assert_eq!(reply.finish, Finish::ToolCalls);

    // No index, no id, or the same id twice: each call still has an id of its own.
    let reply = stream(
        r#"data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{"}},{"function":{"arguments":"}"}},{"function":{"name":"g"}},{"id":"z","function":{"name":"h"}},{"id":"z","function":{"name":"i"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]

"#,
    )
    .await
    .unwrap();
    assert_eq!(
        calls(&reply),
        [
            ("call_0", "f", "{}"),
            ("call_1", "g", "{}"),
            ("z", "h", "{}"),
            ("z_3", "i", "{}")
        ]
    );
}

#[tokio::test]
async fn thoughts_by_both_names_and_comments_between() {
    let reply = stream(
        ": PROCESSING\n\ndata: {\"choices\":[{\"delta\":{\"reasoning\":\"a\"}}]}\r\n\r\n: ping\n\ndata: {\"choices\":[{\"delta\":{\"reasoning_content\":\"b\",\"reasoning\":\"b\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"c\"}]},\"finish_reason\":\"eos\"}]}\n\n",
    )
    .await
    .unwrap();
    assert_eq!((reply.thinking.as_str(), reply.text.as_str()), ("ab", "c"));
    assert_eq!(reply.finish, Finish::Other("eos".into()));
}

#[tokio::test]
async fn a_server_that_does_not_do_as_asked_is_read_all_the_same() {
    // A whole reply to a request for a stream.
    let whole = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    let (reply, _) = once(
        Scripted::raw("application/json", whole),
        WireFormat::ChatCompletions,
        true,
    )
    .await;
    assert_eq!(reply.unwrap().text, "hi");
    // A stream where none was asked for.
    let chunks =
        "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    let (reply, _) = once(
        Scripted::raw("text/event-stream", chunks),
        WireFormat::ChatCompletions,
        false,
    )
    .await;
    assert_eq!(reply.unwrap().text, "hi");
}

#[tokio::test]
async fn errors_within_a_stream_are_typed() {
    let fault = stream("data: {\"choices\":[{\"delta\":{\"content\":\"so \"}}]}\n\ndata: {\"error\":{\"code\":500,\"message\":\"slot lost\"}}\n\n").await;
    assert!(
        matches!(fault, Err(ModelFault::Overloaded { status: 500, .. })),
        "{fault:?}"
    );
    // Older versions of llama.cpp.
    let fault = stream(
        "error: {\"code\":400,\"message\":\"the request exceeds the available context size\"}\n\n",
    )
    .await;
    assert!(
        matches!(fault, Err(ModelFault::ContextTooLong { .. })),
        "{fault:?}"
    );
    let event = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let (reply, _) = once(
        Scripted::raw("text/event-stream", event),
        WireFormat::Messages,
        true,
    )
    .await;
    assert!(matches!(
        reply.unwrap_err().fault,
        ModelFault::Overloaded { .. }
    ));
}

#[tokio::test]
async fn cached_and_written_tokens_of_the_messages_format_are_part_of_the_input() {
    let whole = r#"{"content":[{"type":"redacted_thinking","data":"xyz"},{"type":"text","text":"hi"}],"stop_reason":"end_turn",
        "usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":30,"output_tokens":4}}"#;
    let (reply, _) = once(
        Scripted::raw("application/json", whole),
        WireFormat::Messages,
        false,
    )
    .await;
    let reply = reply.unwrap();
    let usage = Usage {
        input_tokens: 240,
        output_tokens: 4,
        cached_tokens: 200,
        cache_write_tokens: 30,
        ..Usage::default()
    };
    assert_eq!(reply.usage, usage);
    assert_eq!(
        reply.sealed_thinking,
        [json!({"type": "redacted_thinking", "data": "xyz"})]
    );
}
