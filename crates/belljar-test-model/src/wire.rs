//! Answers as bytes, in both formats.

use serde_json::{Value, json};

use crate::record::Recorded;
use crate::script::{Body, Reply, Scripted, Usage};

/// How many characters of text a piece has.
const PIECE: usize = 7;
const MODEL: &str = "scripted-model";

/// An answer, ready to be sent.
pub(crate) struct Rendered {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) pieces: Vec<Vec<u8>>,
    /// The last piece is sent again and again.
    pub(crate) endless: bool,
}

/// Renders the answer to the request that is the `number`th.
pub(crate) fn render(scripted: &Scripted, request: &Recorded, number: usize) -> Rendered {
    let messages = request.path.ends_with("/messages");
    let stream = request.wants_stream();
    let kind = if stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    let good = |pieces: Vec<Vec<u8>>| Rendered {
        status: 200,
        kind: kind.to_owned(),
        pieces,
        endless: false,
    };
    let status = |status: u16, message: &str| Rendered {
        status,
        kind: "application/json".to_owned(),
        pieces: vec![error(messages, status, message).to_string().into_bytes()],
        endless: false,
    };
    match &scripted.body {
        Body::Reply(reply) => good(match (messages, stream) {
            (false, false) => vec![chat_whole(reply, request, number).to_string().into_bytes()],
            (false, true) => chat_stream(reply, request, number),
            (true, false) => vec![
                messages_whole(reply, request, number)
                    .to_string()
                    .into_bytes(),
            ],
            (true, true) => messages_stream(reply, request, number),
        }),
        Body::Status {
            status: code,
            message,
        } => status(*code, message),
        Body::EchoKeys { status: code } => status(*code, &format!("you sent\n{}", request.echo())),
        Body::Raw { kind, body } => Rendered {
            status: 200,
            kind: kind.clone(),
            pieces: vec![body.clone()],
            endless: false,
        },
        Body::Malformed if stream => {
            good(vec![b"data: {\"choices\": [{\"delta\": oops\n\n".to_vec()])
        }
        Body::Malformed => good(vec![b"{\"choices\": [".to_vec()]),
        Body::Endless => {
            let reply = Reply {
                text: "x".repeat(16 * 1024),
                ..Reply::default()
            };
            let event = if messages {
                named(
                    &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": reply.text}}),
                )
            } else {
                data(&chat_chunk(
                    number,
                    &json!({"content": reply.text}),
                    &Value::Null,
                ))
            };
            Rendered {
                endless: true,
                ..good(vec![event])
            }
        }
        Body::HugeLine { bytes } => {
            let mut line = b"data: ".to_vec();
            line.resize(*bytes, b'x');
            good(line.chunks(64 * 1024).map(<[u8]>::to_vec).collect())
        }
    }
}

fn error(messages: bool, status: u16, message: &str) -> Value {
    let kind = match status {
        401 | 403 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    if messages {
        json!({"type": "error", "error": {"type": kind, "message": message}})
    } else {
        json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
    }
}

fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

/// An event of the messages format, which repeats its type as the event's name.
fn named(value: &Value) -> Vec<u8> {
    format!(
        "event: {}\ndata: {value}\n\n",
        value["type"].as_str().unwrap_or_default()
    )
    .into_bytes()
}

fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters
        .chunks(PIECE)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// Input, output and cached tokens, if they are reported.
fn counts(reply: &Reply, request: &Recorded) -> Option<(u64, u64, u64)> {
    let written = reply
        .calls
        .iter()
        .map(|(name, arguments)| name.len() + arguments.len());
    let written = reply.text.len() + reply.thinking.len() + written.sum::<usize>();
    match reply.usage {
        Usage::Counted => Some((request.body.len() as u64 / 4, written.div_ceil(4) as u64, 0)),
        Usage::Given {
            input,
            output,
            cached,
        } => Some((input, output, cached)),
        Usage::Missing => None,
    }
}

// Chat completions.

fn chat_usage(reply: &Reply, request: &Recorded) -> Option<Value> {
    counts(reply, request).map(|(input, output, cached)| {
        json!({
            "prompt_tokens": input,
            "completion_tokens": output,
            "total_tokens": input + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        })
    })
}

fn chat_finish(reply: &Reply) -> &'static str {
    match reply {
        Reply { filtered: true, .. } => "content_filter",
        Reply {
            truncated: true, ..
        } => "length",
        Reply {
            calls,
            legacy: true,
            ..
        } if !calls.is_empty() => "function_call",
        Reply { calls, .. } if !calls.is_empty() => "tool_calls",
        _ => "stop",
    }
}

fn chat_call_id(number: usize, index: usize) -> String {
    format!("call_{number}_{index}")
}

fn chat_whole(reply: &Reply, request: &Recorded, number: usize) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if !reply.thinking.is_empty() {
        message["reasoning_content"] = json!(reply.thinking);
    }
    if let ([(name, arguments), ..], true) = (&reply.calls[..], reply.legacy) {
        message["function_call"] = json!({"name": name, "arguments": arguments});
    } else if !reply.calls.is_empty() {
        let calls = reply
            .calls
            .iter()
            .enumerate()
            .map(|(index, (name, arguments))| {
                json!({"id": chat_call_id(number, index), "type": "function",
                "function": {"name": name, "arguments": arguments}})
            });
        message["tool_calls"] = calls.collect();
    }
    let mut whole = json!({
        "id": format!("chatcmpl-{number}"), "object": "chat.completion", "created": 0, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": chat_finish(reply)}],
    });
    if let Some(usage) = chat_usage(reply, request) {
        whole["usage"] = usage;
    }
    whole
}

fn chat_chunk(number: usize, delta: &Value, finish: &Value) -> Value {
    json!({
        "id": format!("chatcmpl-{number}"), "object": "chat.completion.chunk", "created": 0, "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    })
}

fn chat_stream(reply: &Reply, request: &Recorded, number: usize) -> Vec<Vec<u8>> {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    deltas.extend(
        pieces(&reply.thinking)
            .iter()
            .map(|piece| json!({"reasoning_content": piece})),
    );
    deltas.extend(
        pieces(&reply.text)
            .iter()
            .map(|piece| json!({"content": piece})),
    );
    for (index, (name, arguments)) in reply.calls.iter().enumerate() {
        if reply.legacy {
            deltas.push(json!({"function_call": {"name": name, "arguments": ""}}));
            deltas.extend(
                pieces(arguments)
                    .iter()
                    .map(|piece| json!({"function_call": {"arguments": piece}})),
            );
            break;
        }
        deltas.push(
            json!({"tool_calls": [{"index": index, "id": chat_call_id(number, index),
            "type": "function", "function": {"name": name, "arguments": ""}}]}),
        );
        deltas.extend(pieces(arguments).iter().map(
            |piece| json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
        ));
    }
    let mut out: Vec<Vec<u8>> = deltas
        .iter()
        .map(|delta| data(&chat_chunk(number, delta, &Value::Null)))
        .collect();
    out.push(data(&chat_chunk(
        number,
        &json!({}),
        &json!(chat_finish(reply)),
    )));
    let wanted = request.json()["stream_options"]["include_usage"] == true;
    if let Some(usage) = chat_usage(reply, request).filter(|_| wanted) {
        let mut chunk = chat_chunk(number, &json!({}), &Value::Null);
        chunk["choices"] = json!([]);
        chunk["usage"] = usage;
        out.push(data(&chunk));
    }
    out.push(b"data: [DONE]\n\n".to_vec());
    out
}

// Messages.

fn messages_usage(reply: &Reply, request: &Recorded) -> (Value, Value) {
    counts(reply, request).map_or((Value::Null, Value::Null), |(input, output, cached)| {
        let input = input.saturating_sub(cached);
        (
            json!({"input_tokens": input, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": cached, "output_tokens": 1}),
            json!({"output_tokens": output}),
        )
    })
}

fn messages_stop(reply: &Reply) -> &'static str {
    match reply {
        Reply { filtered: true, .. } => "refusal",
        Reply {
            truncated: true, ..
        } => "max_tokens",
        Reply { calls, .. } if !calls.is_empty() => "tool_use",
        _ => "end_turn",
    }
}

/// Each block without its content, and the deltas that bring it.
fn messages_blocks(reply: &Reply, number: usize) -> Vec<(Value, Vec<Value>)> {
    let mut blocks = Vec::new();
    if !reply.thinking.is_empty() {
        let mut deltas: Vec<Value> = pieces(&reply.thinking)
            .iter()
            .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": "c2VhbA=="}));
        blocks.push((
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas,
        ));
    }
    if !reply.text.is_empty() {
        let deltas = pieces(&reply.text)
            .into_iter()
            .map(|piece| json!({"type": "text_delta", "text": piece}));
        blocks.push((json!({"type": "text", "text": ""}), deltas.collect()));
    }
    for (index, (name, arguments)) in reply.calls.iter().enumerate() {
        let deltas = pieces(arguments)
            .into_iter()
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
        let id = format!("toolu_{number}_{index}");
        blocks.push((
            json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
            deltas.collect(),
        ));
    }
    blocks
}

fn messages_whole(reply: &Reply, request: &Recorded, number: usize) -> Value {
    let (mut usage, end) = messages_usage(reply, request);
    if let Some(output) = end.get("output_tokens") {
        usage["output_tokens"] = output.clone();
    }
    let mut content: Vec<Value> = messages_blocks(reply, number)
        .into_iter()
        .map(|(block, _)| block)
        .collect();
    let mut calls = reply.calls.iter();
    for block in &mut content {
        match block["type"].as_str() {
            Some("thinking") => {
                block["thinking"] = json!(reply.thinking);
                block["signature"] = json!("c2VhbA==");
            }
            Some("text") => block["text"] = json!(reply.text),
            _ => {
                let arguments = calls.next().map(|(_, arguments)| arguments.as_str());
                let input = arguments.and_then(|text| serde_json::from_str(text).ok());
                block["input"] = input.unwrap_or_else(|| json!({}));
            }
        }
    }
    json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": MODEL,
        "content": content, "stop_reason": messages_stop(reply), "stop_sequence": null, "usage": usage,
    })
}

fn messages_stream(reply: &Reply, request: &Recorded, number: usize) -> Vec<Vec<u8>> {
    let (start, end) = messages_usage(reply, request);
    let mut events = vec![
        json!({"type": "message_start", "message": {
            "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": MODEL,
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": start,
        }}),
        json!({"type": "ping"}),
    ];
    for (index, (block, deltas)) in messages_blocks(reply, number).into_iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(
            deltas.into_iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta",
        "delta": {"stop_reason": messages_stop(reply), "stop_sequence": null}, "usage": end}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(named).collect()
}
