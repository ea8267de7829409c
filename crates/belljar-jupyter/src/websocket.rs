//! Messages on the WebSocket of a kernel: parts behind a table of offsets (the subprotocol [`V1`]), or JSON.
//!
//! Whatever a client announces is compared with what it has sent; nothing is reserved for it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::{Message, MessageError, Object};

/// The subprotocol with offsets. Clients that do not ask for it send and receive JSON.
pub const V1: &str = "v1.kernel.websocket.jupyter.org";

/// The most bytes of a header: it comes back with each message that it causes.
const MAX_HEADER: usize = 16 << 10;
/// The most parts of a message.
const MAX_PARTS: usize = 64;
/// Channel, header, parent header, metadata, content, and the end of the last.
const MIN_OFFSETS: usize = 6;

/// A channel of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Requests that wait for each other.
    Shell,
    /// Requests that are answered while a cell runs.
    Control,
    /// Questions of a cell.
    Stdin,
    /// What all clients get.
    Iopub,
}

impl Channel {
    const ALL: [Self; 4] = [Self::Shell, Self::Control, Self::Stdin, Self::Iopub];

    fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Control => "control",
            Self::Stdin => "stdin",
            Self::Iopub => "iopub",
        }
    }

    fn parse(name: &[u8]) -> Result<Self, MessageError> {
        let mut all = Self::ALL.into_iter();
        all.find(|channel| channel.name().as_bytes() == name)
            .ok_or(MessageError::Part("channel"))
    }
}

/// A message for a channel, with its table of offsets.
pub fn encode_v1(channel: Channel, message: &Message) -> Vec<u8> {
    let json = message.json_parts();
    let mut parts = vec![channel.name().as_bytes()];
    parts.extend(json.iter().map(Vec::as_slice));
    parts.extend(message.buffers.iter().map(Vec::as_slice));
    let table = 8 * (parts.len() + 2);
    let size = table + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut frame = Vec::with_capacity(size);
    let mut number = |number: usize| frame.extend_from_slice(&(number as u64).to_le_bytes());
    number(parts.len() + 1);
    let mut offset = table;
    number(offset);
    for part in &parts {
        offset += part.len();
        number(offset);
    }
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame
}

/// The message of a frame with offsets.
///
/// # Errors
/// If it is none.
pub fn decode_v1(frame: &[u8]) -> Result<(Channel, Message), MessageError> {
    let parts = parts(frame).ok_or(MessageError::Frames)?;
    let [channel, header, parent, metadata, content, buffers @ ..] = parts.as_slice() else {
        return Err(MessageError::Frames);
    };
    let message = Message {
        header: header_part(header)?,
        parent: part("parent header", parent)?,
        metadata: part("metadata", metadata)?,
        content: part("content", content)?,
        buffers: buffers.iter().map(|buffer| buffer.to_vec()).collect(),
    };
    Ok((Channel::parse(channel)?, message.check()?))
}

/// The parts of a frame with offsets, the channel first.
fn parts(frame: &[u8]) -> Option<Vec<&[u8]>> {
    let number = |place: usize| {
        let bytes = frame.get(8 * place..8 * place + 8)?;
        usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    let count = number(0)?;
    if !(MIN_OFFSETS..=MAX_PARTS).contains(&count) || number(1)? < 8 * (count + 1) {
        return None;
    }
    // No range of a slice ends before it begins.
    (1..count)
        .map(|place| frame.get(number(place)?..number(place + 1)?))
        .collect()
}

/// A message as JSON, from a frame that [`encode_v1`] made of it. Binary data is left out.
pub fn json_from_v1(frame: &[u8]) -> Option<String> {
    let parts = parts(frame)?;
    let text = |place: usize| std::str::from_utf8(parts.get(place)?).ok();
    let (channel, header, content) = (text(0)?, text(1)?, text(4)?);
    let (parent, metadata) = (text(2)?, text(3)?);
    let named: Object = serde_json::from_str(header).ok()?;
    let (id, kind) = (named.get("msg_id")?, named.get("msg_type")?);
    Some(format!(
        "{{\"channel\":\"{channel}\",\"msg_id\":{id},\"msg_type\":{kind},\"header\":{header},\
         \"parent_header\":{parent},\"metadata\":{metadata},\"content\":{content},\"buffers\":[]}}"
    ))
}

#[derive(Deserialize)]
struct JsonMessage<'a> {
    channel: Option<String>,
    #[serde(borrow)]
    header: &'a RawValue,
    #[serde(borrow)]
    parent_header: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// The message of a text. Without a channel it is for [`Channel::Shell`].
///
/// # Errors
/// If it is none.
pub fn decode_json(text: &[u8]) -> Result<(Channel, Message), MessageError> {
    let parsed: JsonMessage<'_> = serde_json::from_slice(text).map_err(|_| MessageError::Frames)?;
    let channel = match &parsed.channel {
        Some(name) => Channel::parse(name.as_bytes())?,
        None => Channel::Shell,
    };
    let optional = |name, value: Option<&RawValue>| match value {
        Some(value) => part(name, value.get().as_bytes()),
        None => Ok(Object::new()),
    };
    let message = Message {
        header: header_part(parsed.header.get().as_bytes())?,
        parent: optional("parent header", parsed.parent_header)?,
        metadata: optional("metadata", parsed.metadata)?,
        content: optional("content", parsed.content)?,
        buffers: Vec::new(),
    };
    Ok((channel, message.check()?))
}

/// The message of binary data without the subprotocol: a count, offsets, JSON, and buffers.
///
/// # Errors
/// If it is none.
pub fn decode_json_with_buffers(frame: &[u8]) -> Result<(Channel, Message), MessageError> {
    let number = |place: usize| {
        let bytes = frame.get(4 * place..4 * place + 4)?;
        usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok()
    };
    let count = number(0).filter(|count| (1..=MAX_PARTS).contains(count));
    let count = count.ok_or(MessageError::Frames)?;
    let begin_of = |place: usize| {
        if place == count {
            Some(frame.len())
        } else {
            number(place + 1)
        }
    };
    let parts: Option<Vec<&[u8]>> = (0..count)
        .map(|place| frame.get(begin_of(place)?..begin_of(place + 1)?))
        .collect();
    let parts = parts.ok_or(MessageError::Frames)?;
    let (json, buffers) = parts.split_first().ok_or(MessageError::Frames)?;
    let (channel, mut message) = decode_json(json)?;
    message.buffers = buffers.iter().map(|buffer| buffer.to_vec()).collect();
    Ok((channel, message))
}

fn header_part(bytes: &[u8]) -> Result<Object, MessageError> {
    if bytes.len() > MAX_HEADER {
        return Err(MessageError::Part("header"));
    }
    part("header", bytes)
}

/// An object, or nothing.
fn part(name: &'static str, bytes: &[u8]) -> Result<Object, MessageError> {
    let parsed: Option<Object> =
        serde_json::from_slice(bytes).map_err(|_| MessageError::Part(name))?;
    Ok(parsed.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn object(value: Value) -> Object {
        match value {
            Value::Object(object) => object,
            other => panic!("{other}"),
        }
    }

    fn message() -> Message {
        Message {
            header: object(json!({"msg_id": "a\"b", "msg_type": "status"})),
            parent: object(json!({"msg_id": "parent"})),
            metadata: Object::new(),
            content: object(json!({"text": "数"})),
            buffers: Vec::new(),
        }
    }

    #[test]
    fn messages_come_back_from_each_form() {
        let mut message = message();
        let frame = encode_v1(Channel::Iopub, &message);
        assert_eq!(
            decode_v1(&frame).unwrap(),
            (Channel::Iopub, message.clone())
        );
        let text = json_from_v1(&frame).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&read["msg_id"], &read["msg_type"]),
            (&json!("a\"b"), &json!("status"))
        );
        let read = decode_json(text.as_bytes()).unwrap();
        assert_eq!(read, (Channel::Iopub, message.clone()));
        message.buffers = vec![vec![0, 255], Vec::new()];
        let frame = encode_v1(Channel::Shell, &message);
        assert_eq!(
            decode_v1(&frame).unwrap(),
            (Channel::Shell, message.clone())
        );
        let json = text.replace("iopub", "stdin").into_bytes();
        let mut binary = Vec::new();
        for number in [3, 16, 16 + json.len(), 18 + json.len()] {
            binary.extend(u32::try_from(number).unwrap().to_be_bytes());
        }
        binary.extend(json);
        binary.extend([0, 255]);
        assert_eq!(
            decode_json_with_buffers(&binary).unwrap(),
            (Channel::Stdin, message)
        );
    }

    /// As clients of the gateway send them.
    #[test]
    fn a_message_needs_no_channel_and_no_parent() {
        let text =
            r#"{"header": {"msg_id": "1", "msg_type": "x"}, "parent_header": null, "buffers": []}"#;
        let (channel, message) = decode_json(text.as_bytes()).unwrap();
        assert_eq!((channel, message.kind()), (Channel::Shell, "x"));
        assert!(message.parent.is_empty() && message.content.is_empty());
    }

    #[test]
    fn wrong_offsets_are_refused() {
        let frame = encode_v1(Channel::Shell, &message());
        for place in 0..7 {
            for wrong in [0, 1, 7, u64::MAX, u64::MAX / 8, 1 << 40] {
                let mut changed = frame.clone();
                changed[8 * place..8 * place + 8].copy_from_slice(&wrong.to_le_bytes());
                assert!(decode_v1(&changed).is_err(), "{place} {wrong}");
            }
        }
        for end in 0..frame.len() {
            assert!(decode_v1(&frame[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn headers_are_short_and_channels_known() {
        let mut large = message();
        large
            .header
            .insert("x".into(), "y".repeat(MAX_HEADER).into());
        let frame = encode_v1(Channel::Shell, &large);
        assert_eq!(decode_v1(&frame), Err(MessageError::Part("header")));
        let text = json_from_v1(&frame).unwrap();
        assert_eq!(
            decode_json(text.as_bytes()),
            Err(MessageError::Part("header"))
        );
        let frame = encode_v1(Channel::Shell, &message());
        let text = json_from_v1(&frame)
            .unwrap()
            .replace("\"shell\"", "\"shell2\"");
        assert_eq!(
            decode_json(text.as_bytes()),
            Err(MessageError::Part("channel"))
        );
    }

    proptest! {
        #[test]
        fn bytes_of_anybody_are_no_message(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode_v1(&bytes).is_err());
            prop_assert!(decode_json(&bytes).is_err());
            prop_assert!(decode_json_with_buffers(&bytes).is_err());
        }
    }
}
