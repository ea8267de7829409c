//! Messages: their parts, and their signed form on the wire.

use std::sync::atomic::{AtomicU64, Ordering};

use ring::hmac;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What stands between the route of a message and its parts.
const DELIMITER: &[u8] = b"<IDS|MSG>";
/// The most frames before the delimiter, each of which a proxy has added.
const MAX_ENVELOPE: usize = 16;
/// The version of the protocol.
pub(crate) const PROTOCOL: &str = "5.4";

/// A JSON object.
pub type Object = Map<String, Value>;

/// A message of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its id, type, session and date.
    pub header: Object,
    /// The header of the message that caused it.
    pub parent: Object,
    /// Its metadata.
    pub metadata: Object,
    /// Its content, by type.
    pub content: Object,
    /// Binary data.
    pub buffers: Vec<Vec<u8>>,
}

/// Why frames are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// There is no delimiter, or too few frames after it.
    #[error("the frames are not a message of the protocol")]
    Frames,
    /// The signature is not that of these bytes.
    #[error("the signature of the message is wrong")]
    Signature,
    /// A part is not a JSON object, or the header lacks a field.
    #[error("the {0} of the message is wrong")]
    Part(&'static str),
}

impl Message {
    /// Its type, such as `execute_request`.
    pub fn kind(&self) -> &str {
        text(&self.header, "msg_type")
    }

    /// Its id.
    pub fn id(&self) -> &str {
        text(&self.header, "msg_id")
    }

    /// The message in these frames, and the frames before it, which come back with the reply. Nothing of it is parsed
    /// before its signature is verified.
    pub fn parse(
        mut frames: Vec<Vec<u8>>,
        key: &Key,
    ) -> Result<(Vec<Vec<u8>>, Self), MessageError> {
        let at = frames
            .iter()
            .take(MAX_ENVELOPE + 1)
            .position(|frame| frame == DELIMITER)
            .ok_or(MessageError::Frames)?;
        let parts = frames.split_off(at);
        let [
            _,
            signature,
            header,
            parent,
            metadata,
            content,
            buffers @ ..,
        ] = parts.as_slice()
        else {
            return Err(MessageError::Frames);
        };
        if !key.verifies([header, parent, metadata, content], signature) {
            return Err(MessageError::Signature);
        }
        let object = |name, bytes: &[u8]| {
            serde_json::from_slice::<Object>(bytes).map_err(|_| MessageError::Part(name))
        };
        let message = Self {
            header: object("header", header)?,
            parent: object("parent header", parent)?,
            metadata: object("metadata", metadata)?,
            content: object("content", content)?,
            buffers: buffers.to_vec(),
        };
        Ok((frames, message.check()?))
    }

    /// The same, if its header has a type and an id.
    pub(crate) fn check(self) -> Result<Self, MessageError> {
        if self.kind().is_empty() || self.id().is_empty() {
            return Err(MessageError::Part("header"));
        }
        Ok(self)
    }

    /// Header, parent header, metadata and content as JSON.
    pub(crate) fn json_parts(&self) -> [Vec<u8>; 4] {
        [&self.header, &self.parent, &self.metadata, &self.content]
            // An object with text as keys can always be written.
            .map(|part| serde_json::to_vec(part).unwrap_or_default())
    }

    /// The frames of this message, after those of its route.
    pub fn encode(&self, envelope: &[Vec<u8>], key: &Key) -> Vec<Vec<u8>> {
        let parts = self.json_parts();
        let [header, parent, metadata, content] = &parts;
        let signature = key.sign([header, parent, metadata, content]);
        let mut frames = envelope.to_vec();
        frames.push(DELIMITER.to_vec());
        frames.push(signature.into_bytes());
        frames.extend(parts);
        frames.extend(self.buffers.iter().cloned());
        frames
    }
}

fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The key that messages of a kernel are signed with (HMAC with SHA-256).
#[derive(Clone, Debug)]
pub struct Key(hmac::Key);

impl Key {
    /// This key.
    pub fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    fn sign(&self, parts: [&Vec<u8>; 4]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(part);
        }
        let tag = context.sign();
        hex(tag.as_ref())
    }

    /// Compares in constant time.
    fn verifies(&self, parts: [&Vec<u8>; 4], signature: &[u8]) -> bool {
        let mut whole = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        for part in parts {
            whole.extend_from_slice(part);
        }
        unhex(signature).is_some_and(|tag| hmac::verify(&self.0, &whole, &tag).is_ok())
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    // A signature is 32 bytes; nothing longer is worth reading.
    if text.len() != 64 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    text.chunks(2).map(pair).collect()
}

/// Writes the messages of one kernel.
#[derive(Debug)]
pub(crate) struct Author {
    session: String,
    written: AtomicU64,
}

impl Author {
    pub(crate) fn new() -> Self {
        let mut random = [0; 16];
        // The kernel fills so few bytes at once, or the id is one of zeros, which only tells kernels apart.
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        Self {
            session: hex(&random),
            written: AtomicU64::new(0),
        }
    }

    /// A message, caused by the one with this header.
    pub(crate) fn message(&self, kind: &str, parent: &Object, content: Value) -> Message {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let header = json!({
            "msg_id": format!("{}_{number}", self.session),
            "session": self.session,
            "username": "belljar",
            "date": now(),
            "msg_type": kind,
            "version": PROTOCOL,
        });
        Message {
            header: object(header),
            parent: parent.clone(),
            metadata: Object::new(),
            content: object(content),
            buffers: Vec::new(),
        }
    }
}

/// A state of a kernel, such as `restarting`, that no request has caused.
pub fn status_message(state: &str) -> Message {
    let content = json!({"execution_state": state});
    Author::new().message("status", &Object::new(), content)
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

/// Clients read at most microseconds.
fn now() -> String {
    let now = OffsetDateTime::now_utc();
    let now = now.replace_microsecond(now.microsecond()).unwrap_or(now);
    now.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> Message {
        Author::new().message("status", &Object::new(), json!({"execution_state": "busy"}))
    }

    #[test]
    fn a_message_comes_back_with_its_route() {
        let key = Key::new(b"secret");
        let envelope = vec![b"client".to_vec()];
        let mut sent = message();
        sent.buffers.push(vec![0, 255]);
        let (route, received) = Message::parse(sent.encode(&envelope, &key), &key).unwrap();
        assert_eq!((route, received), (envelope, sent));
    }

    #[test]
    fn a_signature_is_that_of_jupyter_client() {
        // hmac.new(b"k", b"{}{}{}{}", "sha256").hexdigest()
        let part = b"{}".to_vec();
        assert_eq!(
            Key::new(b"k").sign([&part, &part, &part, &part]),
            "6f7c3dea506a2fb840fc9377d65462646f8e8df4acfafa710cf0c50bb2db8de2"
        );
    }

    #[test]
    fn any_changed_byte_is_refused() {
        let key = Key::new(b"secret");
        let frames = message().encode(&[], &key);
        assert!(Message::parse(frames.clone(), &Key::new(b"other")).is_err());
        for frame in 1..frames.len() {
            for at in 0..frames[frame].len() {
                let mut changed = frames.clone();
                changed[frame][at] ^= 1;
                let parsed = Message::parse(changed, &key);
                assert_eq!(parsed, Err(MessageError::Signature), "{frame} {at}");
            }
        }
        let mut unsigned = frames;
        unsigned[1].clear();
        assert_eq!(Message::parse(unsigned, &key), Err(MessageError::Signature));
    }

    #[test]
    fn a_header_has_a_type_and_an_id() {
        let key = Key::new(b"secret");
        for name in ["msg_type", "msg_id"] {
            let mut message = message();
            message.header.insert(name.into(), json!(7));
            let parsed = Message::parse(message.encode(&[], &key), &key);
            assert_eq!(parsed, Err(MessageError::Part("header")));
        }
    }

    #[test]
    fn dates_have_at_most_six_digits() {
        let date = now();
        let digits = date.split_once('.').map_or(0, |(_, rest)| rest.len() - 1);
        assert!(digits <= 6 && date.ends_with('Z'), "{date}");
    }

    proptest! {
        #[test]
        fn frames_of_anybody_are_refused(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..12)) {
            prop_assert!(Message::parse(frames.clone(), &Key::new(b"secret")).is_err());
            let mut with_delimiter = vec![DELIMITER.to_vec()];
            with_delimiter.extend(frames);
            prop_assert!(Message::parse(with_delimiter, &Key::new(b"secret")).is_err());
        }
    }
}
