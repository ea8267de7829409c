//! Messages: the format of Anthropic.

use serde_json::{Map, Value, json};

use super::draft::Draft;
use super::error::ModelFault;
use super::profile::Profile;
use super::reply::{Finish, Usage};
use super::request::{Message, ModelRequest, Part};

/// The server refuses a request without a limit of tokens.
const MAX_TOKENS: u32 = 4096;

/// The body of a request. Equal requests give equal bytes: the order of fields is the order here.
pub(super) fn body(profile: &Profile, model: &str, request: &ModelRequest) -> Map<String, Value> {
    let (system, mut turns) = turns(&request.messages);
    let mut system: Vec<Value> = system.into_iter().map(text_block).collect();
    // The server keeps what stands before such a mark: the instructions for every run, and the
    // conversation for the next step.
    let last_of_turns = turns.last_mut().and_then(|(_, blocks)| blocks.last_mut());
    let marked = [system.last_mut(), last_of_turns].into_iter().flatten();
    for block in marked.filter_map(Value::as_object_mut) {
        if !matches!(
            block.get("type").and_then(Value::as_str),
            Some("thinking" | "redacted_thinking")
        ) {
            block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
        }
    }

    let mut body = Map::new();
    let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
    put("model", json!(model));
    put(
        "max_tokens",
        json!(
            request
                .max_tokens
                .or(profile.max_tokens)
                .unwrap_or(MAX_TOKENS)
        ),
    );
    if !system.is_empty() {
        put("system", Value::Array(system));
    }
    put(
        "messages",
        turns
            .into_iter()
            .map(|(role, content)| json!({"role": role, "content": content}))
            .collect(),
    );
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.parameters,
            })
        });
        put("tools", tools.collect());
    }
    if let Some(schema) = &request.response_schema {
        put(
            "output_config",
            json!({"format": {"type": "json_schema", "schema": schema}}),
        );
    }
    if !request.stop.is_empty() {
        put("stop_sequences", json!(request.stop));
    }
    if let Some(temperature) = request.temperature {
        put("temperature", json!(temperature));
    }
    put("stream", json!(profile.stream));
    body
}

/// The instructions at the beginning, and turns of user and assistant in alternation: all results
/// of a reply's calls must stand in the turn that follows it, and before other text.
fn turns(messages: &[Message]) -> (Vec<&str>, Vec<(&'static str, Vec<Value>)>) {
    let mut system = Vec::new();
    let mut turns: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = match message {
            Message::System { text } if turns.is_empty() => {
                system.extend(Some(text.as_str()).filter(|text| !text.is_empty()));
                continue;
            }
            // Only the beginning has a place for these.
            Message::System { text } => ("user", text_blocks(text)),
            Message::User { parts } => ("user", parts.iter().flat_map(part_blocks).collect()),
            Message::Assistant {
                text,
                tool_calls,
                sealed_thinking,
            } => {
                let calls = tool_calls.iter().map(|call| {
                    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input()})
                });
                let blocks = sealed_thinking
                    .iter()
                    .cloned()
                    .chain(text_blocks(text))
                    .chain(calls);
                ("assistant", blocks.collect::<Vec<_>>())
            }
            Message::ToolResult {
                call_id,
                parts,
                is_error,
                ..
            } => {
                let content: Vec<Value> = parts.iter().flat_map(part_blocks).collect();
                let mut block =
                    json!({"type": "tool_result", "tool_use_id": call_id, "content": content});
                if *is_error {
                    block["is_error"] = json!(true);
                }
                ("user", vec![block])
            }
        };
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, content)) if *last == role => content.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    (system, turns)
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The server refuses empty text.
fn text_blocks(text: &str) -> Vec<Value> {
    if text.trim().is_empty() {
        Vec::new()
    } else {
        vec![text_block(text)]
    }
}

fn part_blocks(part: &Part) -> Vec<Value> {
    match part {
        Part::Text { text } => text_blocks(text),
        Part::Image { media_type, base64 } => vec![json!({
            "type": "image",
            "source": {"type": "base64", "media_type": media_type, "data": base64},
        })],
    }
}

/// Reads a whole reply.
pub(super) fn read_whole(value: &Value, draft: &mut Draft<'_>) -> Result<(), ModelFault> {
    for (index, block) in (0..).zip(value["content"].as_array().into_iter().flatten()) {
        begin_block(index, block, draft)?;
    }
    read_head(value, draft);
    read_end(value, draft);
    draft.done = true;
    Ok(())
}

/// Reads an event of a stream.
pub(super) fn read_event(value: &Value, draft: &mut Draft<'_>) -> Result<(), ModelFault> {
    let index = value["index"].as_u64().unwrap_or_default();
    let delta = &value["delta"];
    let piece = |name: &str| delta[name].as_str().unwrap_or_default();
    match value["type"].as_str() {
        Some("message_start") => read_head(&value["message"], draft),
        Some("content_block_start") => begin_block(index, &value["content_block"], draft)?,
        Some("content_block_delta") => match delta["type"].as_str() {
            Some("text_delta") => draft.text(piece("text"))?,
            Some("input_json_delta") => draft.call(Some(index), "", "", piece("partial_json"))?,
            Some("thinking_delta") => {
                draft.thinking(piece("thinking"))?;
                draft.seal_more(index, "thinking", piece("thinking"))?;
            }
            Some("signature_delta") => draft.seal_more(index, "signature", piece("signature"))?,
            _ => {}
        },
        Some("message_delta") => {
            read_usage(&value["usage"], draft.usage());
            read_end(delta, draft);
        }
        Some("message_stop") => draft.done = true,
        _ => {} // pings, ends of blocks, and what is yet to be invented
    }
    Ok(())
}

fn begin_block(index: u64, block: &Value, draft: &mut Draft<'_>) -> Result<(), ModelFault> {
    let field = |name: &str| block[name].as_str().unwrap_or_default();
    match block["type"].as_str() {
        Some("text") => draft.text(field("text")),
        Some("thinking") => {
            draft.thinking(field("thinking"))?;
            draft.seal(index, block)
        }
        Some("redacted_thinking") => draft.seal(index, block),
        Some("tool_use") => {
            // A stream begins with an empty object, whose text follows.
            let input = match &block["input"] {
                Value::Object(input) if !input.is_empty() => block["input"].to_string(),
                _ => String::new(),
            };
            draft.call(Some(index), field("id"), field("name"), &input)
        }
        _ => Ok(()),
    }
}

fn read_head(message: &Value, draft: &mut Draft<'_>) {
    draft.model(message["model"].as_str().unwrap_or_default());
    read_usage(&message["usage"], draft.usage());
}

fn read_end(value: &Value, draft: &mut Draft<'_>) {
    match value["stop_reason"].as_str() {
        None => {}
        Some("end_turn" | "stop_sequence") => draft.finish(Finish::Stop),
        Some("tool_use") => draft.finish(Finish::ToolCalls),
        Some("max_tokens" | "model_context_window_exceeded") => draft.finish(Finish::Length),
        Some("refusal") => draft.filtered("it refused to continue"),
        Some(other) => draft.finish(Finish::Other(other.chars().take(64).collect())),
    }
}

/// Counts come at the beginning and again, grown, at the end. What was cached is counted apart from
/// the rest of the input.
fn read_usage(from: &Value, usage: &mut Usage) {
    let count = |name: &str| from[name].as_u64();
    if let Some(input) = count("input_tokens") {
        usage.cached_tokens = count("cache_read_input_tokens").unwrap_or(usage.cached_tokens);
        usage.cache_write_tokens =
            count("cache_creation_input_tokens").unwrap_or(usage.cache_write_tokens);
        usage.input_tokens = input
            .saturating_add(usage.cached_tokens)
            .saturating_add(usage.cache_write_tokens);
    }
    if let Some(output) = count("output_tokens") {
        usage.output_tokens = output;
    }
}
