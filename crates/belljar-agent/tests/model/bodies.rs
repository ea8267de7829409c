//! What is sent, exactly.

use belljar_agent::{Message, ModelRequest, Part, Profile, ToolCall, ToolSpec};
use belljar_test_model::{Scripted, ScriptedModel};
use serde_json::{Value, json};

use super::{BOTH, KEY, profile};

/// A conversation with everything in it.
fn everything() -> ModelRequest {
    let image = || Part::Image {
        media_type: "image/png".into(),
        base64: "aGk=".into(),
    };
    let text = |text: &str| Part::Text { text: text.into() };
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "python".into(),
        arguments: arguments.into(),
    };
    let good = call("call_1", "{\"code\":  \"1\"}");
    let broken = call("call_2", "{\"code\": ");
    ModelRequest {
        messages: vec![
            Message::System {
                text: "Be exact.".into(),
            },
            Message::User {
                parts: vec![text("Look:"), image()],
            },
            Message::Assistant {
                text: String::new(),
                tool_calls: vec![good.clone(), broken.clone()],
                sealed_thinking: vec![
                    json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
                ],
            },
            Message::ToolResult {
                call_id: good.id,
                name: good.name,
                parts: vec![text("1"), image()],
                is_error: false,
            },
            Message::ToolResult {
                call_id: broken.id,
                name: broken.name,
                parts: vec![text("not JSON")],
                is_error: true,
            },
            Message::User {
                parts: vec![text("Go"), text("on.")],
            },
        ],
        tools: vec![ToolSpec {
            name: "python".into(),
            description: "Runs a cell.".into(),
            parameters: json!({"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}),
        }],
        response_schema: Some(json!({"type": "object"})),
        stop: vec!["</code>".into()],
        max_tokens: Some(512),
        temperature: Some(0.0),
    }
}

fn body(profile: &str, request: &ModelRequest) -> Value {
    Profile::built_in(profile)
        .unwrap()
        .body("the-model", request)
}

#[test]
fn chat_completions_with_everything() {
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}});
    let expected = json!({
        "model": "the-model",
        "messages": [
            {"role": "system", "content": "Be exact."},
            {"role": "user", "content": [{"type": "text", "text": "Look:"}, image]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "python", "arguments": "{\"code\":  \"1\"}"}},
                {"id": "call_2", "type": "function", "function": {"name": "python", "arguments": "{\"unparsed\":\"{\\\"code\\\": \"}"}},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "1"},
            {"role": "tool", "tool_call_id": "call_2", "content": "not JSON"},
            {"role": "user", "content": [image]},
            {"role": "user", "content": "Go\non."},
        ],
        "tools": [{"type": "function", "function": {
            "name": "python",
            "description": "Runs a cell.",
            "parameters": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
        }}],
        "parallel_tool_calls": true,
        "response_format": {"type": "json_schema", "json_schema": {
            "name": "reply", "strict": true, "schema": {"type": "object"},
        }},
        "stop": ["</code>"],
        "max_tokens": 512,
        "temperature": 0.0,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    // As text, so that the order of fields counts too.
    assert_eq!(
        body("qwen", &everything()).to_string(),
        expected.to_string()
    );
}

#[test]
fn messages_with_everything() {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}});
    let expected = json!({
        "model": "the-model",
        "max_tokens": 512,
        "system": [{"type": "text", "text": "Be exact.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look:"}, image]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "call_1", "name": "python", "input": {"code": "1"}},
                {"type": "tool_use", "id": "call_2", "name": "python", "input": {"unparsed": "{\"code\": "}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "1"}, image]},
                {"type": "tool_result", "tool_use_id": "call_2", "content": [{"type": "text", "text": "not JSON"}], "is_error": true},
                {"type": "text", "text": "Go"},
                {"type": "text", "text": "on.", "cache_control": {"type": "ephemeral"}},
            ]},
        ],
        "tools": [{
            "name": "python",
            "description": "Runs a cell.",
            "input_schema": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
        }],
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "stop_sequences": ["</code>"],
        "temperature": 0.0,
        "stream": true,
    });
    assert_eq!(
        body("anthropic", &everything()).to_string(),
        expected.to_string()
    );
}

#[test]
fn the_least_request_has_nothing_that_was_not_asked_for() {
    let request = super::question();
    assert_eq!(
        body("openai", &request).to_string(),
        r#"{"model":"the-model","messages":[{"role":"user","content":"What is 6 * 7?"}],"stream":true,"stream_options":{"include_usage":true}}"#
    );
    assert_eq!(
        body("anthropic", &request).to_string(),
        r#"{"model":"the-model","max_tokens":16384,"messages":[{"role":"user","content":[{"type":"text","text":"What is 6 * 7?","cache_control":{"type":"ephemeral"}}]}],"stream":true}"#
    );
}

#[test]
fn quirks_of_servers_are_in_their_profiles() {
    let openai = body("openai", &everything());
    assert_eq!(openai["max_completion_tokens"], 512);
    assert!(openai.get("max_tokens").is_none() && openai.get("parallel_tool_calls").is_none());

    let mut profile = Profile::built_in("llamacpp").unwrap();
    profile.stream = false;
    profile
        .extra_body
        .insert("enable_thinking".into(), json!(false));
    profile.extra_body.insert("temperature".into(), json!(0.7));
    let body = profile.body("m", &everything());
    assert_eq!(body["stream"], false);
    assert!(body.get("stream_options").is_none());
    assert_eq!(
        (&body["enable_thinking"], &body["temperature"]),
        (&json!(false), &json!(0.7))
    );
}

/// AGT-3: a legacy call and its result go back in the legacy form.
#[test]
fn legacy_calls_go_back_as_they_came() {
    let call = ToolCall {
        id: String::new(),
        name: "f".into(),
        arguments: "{}".into(),
    };
    let request = ModelRequest {
        messages: vec![
            Message::Assistant {
                text: "ok".into(),
                tool_calls: vec![call.clone()],
                sealed_thinking: vec![],
            },
            Message::tool_result(&call, "done"),
        ],
        ..ModelRequest::default()
    };
    assert_eq!(
        body("openai", &request)["messages"],
        json!([
            {"role": "assistant", "content": "ok", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "done"},
        ])
    );
}

#[tokio::test]
async fn the_bytes_on_the_wire_are_those_of_body() {
    for wire in BOTH {
        let model = ScriptedModel::start([Scripted::text("a"), Scripted::text("b")]).unwrap();
        let provider = super::provider(profile(&model, wire));
        for _ in 0..2 {
            provider.send(&everything(), |_| ()).await.unwrap();
        }
        let requests = model.requests();
        assert_eq!(requests.len(), 2);
        for request in &requests {
            assert_eq!(
                request.body,
                provider.body(&everything()).to_string().into_bytes()
            );
            assert_eq!(request.header("content-type"), Some("application/json"));
            assert!(!format!("{request:?}").contains(KEY));
        }
        let (path, header, value) = match wire {
            belljar_agent::WireFormat::ChatCompletions => (
                "/v1/chat/completions",
                "authorization",
                format!("Bearer {KEY}"),
            ),
            belljar_agent::WireFormat::Messages => ("/v1/messages", "x-api-key", KEY.to_owned()),
        };
        assert_eq!(requests[0].path, path);
        assert!(requests[0].carried(header, &value));
    }
}
