//! ZMTP 3, the wire of `ZeroMQ`, without security (the mechanism `NULL`): greeting, commands, messages of frames.
//!
//! Written here because no crate bounds what it reads: `zeromq` 0.7 reserves whatever length a peer announces, before
//! the peer has shown that it has the key. Messages of the protocol are signed, connections are not.

/// A greeting: signature, version 3.0, mechanism, and zeros.
const GREETING_BYTES: usize = 64;
const MECHANISM: &[u8; 20] = b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// The most bytes of a command, and of a message before the handshake has ended.
const MAX_COMMAND: usize = 4096;
/// The most bytes of a message. The longest cell is 4 MiB, which JSON may escape.
const MAX_MESSAGE: usize = 32 << 20;
/// The most frames of a message.
const MAX_FRAMES: usize = 256;

/// What a peer sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The greeting, which comes first.
    Greeting,
    /// A command.
    Command {
        /// Its name.
        name: Vec<u8>,
        /// Its data.
        body: Vec<u8>,
    },
    /// A message.
    Message(Vec<Vec<u8>>),
}

/// How a peer breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZmtpError {
    /// It does not speak ZMTP 3 with the mechanism `NULL`.
    #[error("the peer does not speak ZMTP 3 without security")]
    Greeting,
    /// A flag that does not exist, or a command in a message.
    #[error("a frame is invalid")]
    Frame,
    /// A command without a name.
    #[error("a command is invalid")]
    Command,
    /// More than may be sent.
    #[error("a message is too large")]
    TooLarge,
}

/// Cuts the bytes of a peer into greeting, commands and messages. It holds no more than has arrived.
#[derive(Debug, Default)]
pub struct Decoder {
    input: Vec<u8>,
    has_greeting: bool,
    is_ready: bool,
    frames: Vec<Vec<u8>>,
    /// The bytes of `frames`.
    bytes: usize,
}

impl Decoder {
    /// Adds bytes as they arrive.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Lets messages through that are larger than commands: the handshake has ended.
    pub fn set_ready(&mut self) {
        self.is_ready = true;
    }

    /// The bytes that are held.
    pub fn held(&self) -> usize {
        self.input.len() + self.bytes
    }

    /// The next item, if it is complete.
    pub fn next_item(&mut self) -> Result<Option<Item>, ZmtpError> {
        if !self.has_greeting {
            return self.greeting();
        }
        while let Some((flags, frame)) = self.frame()? {
            if flags & COMMAND != 0 {
                let (length, rest) = frame.split_first().ok_or(ZmtpError::Command)?;
                let name = rest.get(..usize::from(*length)).ok_or(ZmtpError::Command)?;
                return Ok(Some(Item::Command {
                    name: name.to_vec(),
                    body: rest[name.len()..].to_vec(),
                }));
            }
            self.bytes += frame.len();
            self.frames.push(frame);
            if self.frames.len() > MAX_FRAMES {
                return Err(ZmtpError::TooLarge);
            }
            if flags & MORE == 0 {
                self.bytes = 0;
                return Ok(Some(Item::Message(std::mem::take(&mut self.frames))));
            }
        }
        Ok(None)
    }

    fn greeting(&mut self) -> Result<Option<Item>, ZmtpError> {
        if self.input.first().is_some_and(|first| *first != 0xff) {
            return Err(ZmtpError::Greeting);
        }
        if self.input.len() < GREETING_BYTES {
            return Ok(None);
        }
        let greeting: Vec<u8> = self.input.drain(..GREETING_BYTES).collect();
        if greeting[9] != 0x7f || greeting[10] < 3 || greeting[12..32] != *MECHANISM {
            return Err(ZmtpError::Greeting);
        }
        self.has_greeting = true;
        Ok(Some(Item::Greeting))
    }

    /// The next frame with its flags, if it is complete. A length is checked as soon as it is there.
    fn frame(&mut self) -> Result<Option<(u8, Vec<u8>)>, ZmtpError> {
        let Some(flags) = self.input.first().copied() else {
            return Ok(None);
        };
        let is_command = flags & COMMAND != 0;
        if flags & !(MORE | LONG | COMMAND) != 0
            || is_command && (flags & MORE != 0 || !self.frames.is_empty())
        {
            return Err(ZmtpError::Frame);
        }
        let header = if flags & LONG == 0 { 2 } else { 9 };
        let Some(length) = self.input.get(1..header) else {
            return Ok(None);
        };
        let length = length
            .iter()
            .try_fold(0_usize, |sum, byte| {
                sum.checked_mul(256)?.checked_add(usize::from(*byte))
            })
            .ok_or(ZmtpError::TooLarge)?;
        let limit = if is_command || !self.is_ready {
            MAX_COMMAND
        } else {
            MAX_MESSAGE
        };
        if length > limit.saturating_sub(self.bytes) {
            return Err(ZmtpError::TooLarge);
        }
        if self.input.len() < header + length {
            return Ok(None);
        }
        let frame = self.input[header..header + length].to_vec();
        self.input.drain(..header + length);
        if self.input.is_empty() {
            // A large message leaves nothing behind.
            self.input = Vec::new();
        }
        Ok(Some((flags, frame)))
    }
}

/// Our greeting and, since it depends on nothing that the peer says, the end of our handshake.
pub(crate) fn encode_handshake(socket_type: &str) -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0];
    bytes.extend_from_slice(MECHANISM);
    bytes.resize(GREETING_BYTES, 0);
    let mut ready = Vec::new();
    property(&mut ready, "Socket-Type", socket_type.as_bytes());
    bytes.extend(encode_command(b"READY", &ready));
    bytes
}

fn property(bytes: &mut Vec<u8>, name: &str, value: &[u8]) {
    // Both are short words of ours.
    bytes.push(u8::try_from(name.len()).unwrap_or_default());
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&u32::try_from(value.len()).unwrap_or_default().to_be_bytes());
    bytes.extend_from_slice(value);
}

/// The value of a property in the body of `READY`.
pub(crate) fn ready_property(mut body: &[u8], wanted: &[u8]) -> Option<Vec<u8>> {
    loop {
        let (length, rest) = body.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (value, rest) = rest.split_at_checked(length)?;
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value.to_vec());
        }
        body = rest;
    }
}

/// A command on the wire.
pub(crate) fn encode_command(name: &[u8], body: &[u8]) -> Vec<u8> {
    let mut frame = vec![u8::try_from(name.len()).unwrap_or_default()];
    frame.extend_from_slice(name);
    frame.extend_from_slice(body);
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, COMMAND, &frame);
    bytes
}

/// A message on the wire.
pub fn encode_message<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut frames = frames.into_iter().peekable();
    while let Some(frame) = frames.next() {
        let more = if frames.peek().is_some() { MORE } else { 0 };
        encode_frame(&mut bytes, more, frame);
    }
    bytes
}

fn encode_frame(bytes: &mut Vec<u8>, flags: u8, frame: &[u8]) {
    if let Ok(length) = u8::try_from(frame.len()) {
        bytes.extend_from_slice(&[flags, length]);
    } else {
        bytes.push(flags | LONG);
        bytes.extend_from_slice(&(frame.len() as u64).to_be_bytes());
    }
    bytes.extend_from_slice(frame);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A decoder after the handshake.
    fn ready() -> Decoder {
        let mut decoder = Decoder::default();
        decoder.push(&encode_handshake("DEALER"));
        assert_eq!(decoder.next_item(), Ok(Some(Item::Greeting)));
        let Ok(Some(Item::Command { name, body })) = decoder.next_item() else {
            panic!("no READY");
        };
        assert_eq!(name, b"READY");
        assert_eq!(
            ready_property(&body, b"socket-type"),
            Some(b"DEALER".to_vec())
        );
        assert_eq!(ready_property(&body, b"Identity"), None);
        decoder.set_ready();
        decoder
    }

    #[test]
    fn an_announced_length_reserves_nothing() {
        let mut decoder = ready();
        decoder.push(&[LONG]);
        decoder.push(&(MAX_MESSAGE as u64).to_be_bytes());
        assert_eq!(decoder.next_item(), Ok(None));
        assert!(decoder.input.capacity() < 1024);
        for length in [MAX_MESSAGE as u64 + 1, u64::MAX] {
            let mut decoder = ready();
            decoder.push(&[LONG | MORE]);
            decoder.push(&length.to_be_bytes());
            assert_eq!(decoder.next_item(), Err(ZmtpError::TooLarge));
        }
    }

    #[test]
    fn the_frames_of_a_message_are_bounded_together() {
        let mut decoder = ready();
        let half = vec![0; MAX_MESSAGE / 2 + 1];
        decoder.push(&encode_message([half.as_slice(), half.as_slice()]));
        assert_eq!(decoder.next_item(), Err(ZmtpError::TooLarge));
        let mut decoder = ready();
        decoder.push(&encode_message(std::iter::repeat_n(
            &b""[..],
            MAX_FRAMES + 1,
        )));
        assert_eq!(decoder.next_item(), Err(ZmtpError::TooLarge));
    }

    #[test]
    fn strangers_are_refused_at_the_greeting() {
        for hello in [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01", &[0; 64]] {
            let mut decoder = Decoder::default();
            decoder.push(hello);
            assert_eq!(decoder.next_item(), Err(ZmtpError::Greeting));
        }
        let mut other = encode_handshake("DEALER");
        other[12..17].copy_from_slice(b"CURVE");
        let mut decoder = Decoder::default();
        decoder.push(&other);
        assert_eq!(decoder.next_item(), Err(ZmtpError::Greeting));
    }

    #[test]
    fn before_the_handshake_ends_little_is_held() {
        let mut decoder = Decoder::default();
        decoder.push(&encode_handshake("DEALER")[..GREETING_BYTES]);
        assert_eq!(decoder.next_item(), Ok(Some(Item::Greeting)));
        decoder.push(&encode_message([vec![0; MAX_COMMAND + 1].as_slice()]));
        assert_eq!(decoder.next_item(), Err(ZmtpError::TooLarge));
    }

    proptest! {
        #[test]
        fn messages_arrive_in_whatever_pieces(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 1..8),
            step in 1..400_usize,
        ) {
            let mut decoder = ready();
            let wire = encode_message(frames.iter().map(Vec::as_slice));
            let mut items = Vec::new();
            for piece in wire.chunks(step) {
                decoder.push(piece);
                while let Some(item) = decoder.next_item().unwrap() {
                    items.push(item);
                }
            }
            prop_assert_eq!(items, vec![Item::Message(frames)]);
            prop_assert_eq!(decoder.held(), 0);
        }

        #[test]
        fn bytes_of_anybody_end_or_wait(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut decoder = ready();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next_item() {}
            prop_assert!(decoder.held() <= bytes.len());
            let _ = ready_property(&bytes, b"Identity");
        }
    }
}
