//! Chat completions: the format of OpenAI, and of everyone who says to be compatible.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::draft::Draft;
use super::error::ModelFault;
use super::profile::Profile;
use super::reply::{Finish, Usage};
use super::request::{Message, ModelRequest, Part, ToolCall, joined_text};

/// The body of a request. Equal requests give equal bytes: the order of fields is the order here.
pub(super) fn body(profile: &Profile, model: &str, request: &ModelRequest) -> Map<String, Value> {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
    put("model", json!(model));
    put("messages", messages(&request.messages));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            }})
        });
        put("tools", tools.collect());
        if profile.parallel_tool_calls {
            put("parallel_tool_calls", json!(true));
        }
    }
    if let Some(schema) = &request.response_schema {
        put(
            "response_format",
            json!({"type": "json_schema", "json_schema": {
                "name": "reply", "strict": true, "schema": schema,
            }}),
        );
    }
    if !request.stop.is_empty() {
        put("stop", json!(request.stop));
    }
    if let Some(tokens) = request.max_tokens.or(profile.max_tokens) {
        put(&profile.max_tokens_field, json!(tokens));
    }
    if let Some(temperature) = request.temperature {
        put("temperature", json!(temperature));
    }
    put("stream", json!(profile.stream));
    if profile.stream {
        put("stream_options", json!({"include_usage": true}));
    }
    body
}

fn messages(messages: &[Message]) -> Value {
    let mut out = Vec::new();
    // Results are text only in this format, so their images follow after the last of them.
    let mut images = Vec::new();
    for message in messages {
        if !matches!(message, Message::ToolResult { .. }) && !images.is_empty() {
            out.push(json!({"role": "user", "content": std::mem::take(&mut images)}));
        }
        out.push(match message {
            Message::System { text } => json!({"role": "system", "content": text}),
            Message::User { parts } => json!({"role": "user", "content": content(parts)}),
            Message::Assistant {
                text, tool_calls, ..
            } => assistant(text, tool_calls),
            Message::ToolResult {
                call_id,
                name,
                parts,
                ..
            } => {
                images.extend(
                    parts
                        .iter()
                        .filter(|part| matches!(part, Part::Image { .. }))
                        .map(part_value),
                );
                let text = joined_text(parts);
                if call_id.is_empty() {
                    json!({"role": "function", "name": name, "content": text})
                } else {
                    json!({"role": "tool", "tool_call_id": call_id, "content": text})
                }
            }
        });
    }
    if !images.is_empty() {
        out.push(json!({"role": "user", "content": images}));
    }
    Value::Array(out)
}

fn assistant(text: &str, calls: &[ToolCall]) -> Value {
    // A string even if empty: templates of local models stumble over `null`.
    let mut message = json!({"role": "assistant", "content": text});
    let function = |call: &ToolCall| json!({"name": call.name, "arguments": arguments(call)});
    match calls {
        [] => {}
        [call] if call.id.is_empty() => message["function_call"] = function(call),
        calls => {
            message["tool_calls"] = calls
                .iter()
                .map(|call| json!({"id": call.id, "type": "function", "function": function(call)}))
                .collect();
        }
    }
    message
}

/// The arguments as they came if they are an object, so that the server finds them in its cache.
fn arguments(call: &ToolCall) -> Cow<'_, str> {
    match serde_json::from_str::<Map<String, Value>>(&call.arguments) {
        Ok(_) => Cow::Borrowed(&call.arguments),
        Err(_) => Cow::Owned(call.input().to_string()),
    }
}

fn content(parts: &[Part]) -> Value {
    if parts.iter().all(|part| matches!(part, Part::Text { .. })) {
        return json!(joined_text(parts));
    }
    parts.iter().map(part_value).collect()
}

fn part_value(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Image { media_type, base64 } => json!({
            "type": "image_url",
            "image_url": {"url": format!("data:{media_type};base64,{base64}")},
        }),
    }
}

/// Reads a chunk of a stream, or a whole reply: they differ in one name.
pub(super) fn read(value: &Value, draft: &mut Draft<'_>) -> Result<(), ModelFault> {
    if let Some(model) = value["model"].as_str() {
        draft.model(model);
    }
    if let Some(usage) = value["usage"].as_object() {
        read_usage(usage, draft.usage());
    }
    // A chunk with the usage has no choice. We never ask for more than one.
    let choice = &value["choices"][0];
    let message = match &choice["delta"] {
        Value::Null => &choice["message"],
        delta => delta,
    };
    for name in ["reasoning_content", "reasoning"] {
        if let Some(text) = message[name].as_str().filter(|text| !text.is_empty()) {
            draft.thinking(text)?;
            break; // some servers send both, with the same text
        }
    }
    match &message["content"] {
        Value::String(text) => draft.text(text)?,
        Value::Array(parts) => {
            for text in parts.iter().filter_map(|part| part["text"].as_str()) {
                draft.text(text)?;
            }
        }
        _ => {}
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        draft.call(
            call["index"].as_u64(),
            call["id"].as_str().unwrap_or_default(),
            function["name"].as_str().unwrap_or_default(),
            &argument_text(&function["arguments"]),
        )?;
    }
    if let Some(call) = message["function_call"].as_object() {
        let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
        draft.legacy_call(
            name,
            &argument_text(call.get("arguments").unwrap_or(&Value::Null)),
        )?;
    }
    match choice["finish_reason"].as_str() {
        None | Some("") => {}
        Some("stop") => draft.finish(Finish::Stop),
        Some("tool_calls" | "function_call") => draft.finish(Finish::ToolCalls),
        Some("length") => draft.finish(Finish::Length),
        Some("content_filter") => draft.filtered("it kept the reply back"),
        Some(other) => draft.finish(Finish::Other(other.chars().take(64).collect())),
    }
    if let Some(said) = message["refusal"].as_str().filter(|said| !said.is_empty()) {
        draft.filtered(said);
    }
    Ok(())
}

/// Arguments are text; some servers send the object itself.
fn argument_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

fn read_usage(from: &Map<String, Value>, usage: &mut Usage) {
    let count = |name: &str| from.get(name).and_then(Value::as_u64);
    let detail = |group: &str, name: &str| from.get(group).and_then(|group| group[name].as_u64());
    usage.input_tokens = count("prompt_tokens").unwrap_or_default();
    usage.output_tokens = count("completion_tokens").unwrap_or_default();
    usage.cached_tokens = detail("prompt_tokens_details", "cached_tokens")
        .or_else(|| count("prompt_cache_hit_tokens"))
        .unwrap_or_default();
    usage.thinking_tokens =
        detail("completion_tokens_details", "reasoning_tokens").unwrap_or_default();
}
