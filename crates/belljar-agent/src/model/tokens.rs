//! Estimates of tokens, for servers that don't count and for conversations not yet sent.

use super::request::{Message, ModelRequest, Part};

/// What an image counts. Servers differ between some dozen and some thousand.
const IMAGE: u64 = 1000;
/// What the frame of a message counts.
const MESSAGE: u64 = 4;

/// About how many tokens a text has: a quarter of its bytes, but one for each Chinese, Japanese or
/// Korean character. Real counts differ with the model, by a third for ordinary text.
pub fn estimate_tokens(text: &str) -> u64 {
    let (mut wide, mut bytes) = (0_u64, 0_u64);
    for character in text.chars() {
        if is_cjk(character) {
            wide += 1;
        } else {
            bytes += character.len_utf8() as u64;
        }
    }
    wide + bytes.div_ceil(4)
}

/// About how many tokens a request has.
pub fn estimate_request_tokens(request: &ModelRequest) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        estimate_tokens(&tool.name)
            + estimate_tokens(&tool.description)
            + estimate_tokens(&tool.parameters.to_string())
    });
    request
        .messages
        .iter()
        .map(estimate_message)
        .chain(tools)
        .sum()
}

fn estimate_message(message: &Message) -> u64 {
    let inner = match message {
        Message::System { text } => estimate_tokens(text),
        Message::User { parts } | Message::ToolResult { parts, .. } => {
            parts.iter().map(estimate_part).sum()
        }
        Message::Assistant {
            text,
            tool_calls,
            sealed_thinking,
        } => {
            let calls = tool_calls.iter().map(|call| {
                MESSAGE + estimate_tokens(&call.name) + estimate_tokens(&call.arguments)
            });
            let sealed = sealed_thinking
                .iter()
                .map(|block| estimate_tokens(&block.to_string()));
            estimate_tokens(text) + calls.chain(sealed).sum::<u64>()
        }
    };
    MESSAGE + inner
}

fn estimate_part(part: &Part) -> u64 {
    match part {
        Part::Text { text } => estimate_tokens(text),
        Part::Image { .. } => IMAGE,
    }
}

fn is_cjk(character: char) -> bool {
    matches!(u32::from(character),
        0x1100..=0x11FF | 0x2E80..=0x9FFF | 0xA960..=0xA97F | 0xAC00..=0xD7FF
        | 0xF900..=0xFAFF | 0xFE30..=0xFE4F | 0xFF00..=0xFFEF | 0x20000..=0x3FFFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_bytes_and_every_wide_character() {
        assert_eq!(estimate_tokens(""), 0);
        assert_eq!(estimate_tokens("abcde"), 2);
        assert_eq!(estimate_tokens("紧急预案"), 4);
        assert_eq!(estimate_tokens("plan 预案"), 2 + 2);
    }

    #[test]
    fn all_of_a_request_counts() {
        let mut request = ModelRequest::default();
        let mut last = estimate_request_tokens(&request);
        assert_eq!(last, 0);
        request.messages.push(Message::user("what is this?"));
        request.messages.push(Message::User {
            parts: vec![Part::Image {
                media_type: "image/png".into(),
                base64: String::new(),
            }],
        });
        assert!(estimate_request_tokens(&request) > IMAGE);
        last = estimate_request_tokens(&request);
        request.tools.push(crate::ToolSpec {
            name: "python".into(),
            description: "runs code".into(),
            parameters: serde_json::json!({"type": "object"}),
        });
        assert!(estimate_request_tokens(&request) > last);
    }
}
