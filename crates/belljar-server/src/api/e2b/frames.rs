//! Frames of a stream of the Connect protocol: one byte of flags, four of length, big-endian, then the message.

/// What the last frame of a stream has set.
pub(crate) const LAST: u8 = 2;

/// The longest message.
pub(crate) const MAX_MESSAGE: usize = 8 << 20;

/// Why bytes are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// Flags other than those of a message or of the last frame: a compressed one, which no client is offered.
    Flags(u8),
    /// A message that is too long.
    TooLong(u32),
}

impl FrameError {
    pub(crate) fn words(self) -> String {
        match self {
            Self::Flags(flags) => format!("a frame has the flags {flags}, and not 0 or 2"),
            Self::TooLong(length) => {
                format!("a frame has {length} bytes, and {MAX_MESSAGE} is the maximum")
            }
        }
    }
}

/// Cuts bytes into frames, in whatever pieces they arrive.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    buffer: Vec<u8>,
}

impl Frames {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The message of the next frame that has one; none if it is not whole yet. What a last frame has is left out.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        loop {
            let Some((head, rest)) = self.buffer.split_first_chunk::<5>() else {
                return Ok(None);
            };
            let [flags, length @ ..] = *head;
            if flags != 0 && flags != LAST {
                return Err(FrameError::Flags(flags));
            }
            let length = u32::from_be_bytes(length);
            let size = length as usize;
            if size > MAX_MESSAGE {
                return Err(FrameError::TooLong(length));
            }
            let Some(message) = rest.get(..size) else {
                return Ok(None);
            };
            let message = (flags == 0).then(|| message.to_vec());
            self.buffer.drain(..5 + size);
            if message.is_some() {
                return Ok(message);
            }
        }
    }

    /// How many bytes are kept.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether nothing is left of what was pushed.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}

/// A frame with this message.
pub(crate) fn frame(flags: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(message.len() + 5);
    frame.push(flags);
    frame.extend(length.to_be_bytes());
    frame.extend(message);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_in_any_pieces() {
        let messages = [b"{}".as_slice(), b"", &[7; 300]];
        let mut bytes: Vec<u8> = messages
            .iter()
            .flat_map(|message| frame(0, message))
            .collect();
        bytes.extend(frame(LAST, b"{}"));
        bytes.extend(frame(0, messages[0]));
        let messages = [messages.as_slice(), &messages[..1]].concat();
        for size in 1..=bytes.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(size) {
                frames.push(piece);
                while let Some(message) = frames.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, messages, "in pieces of {size}");
            assert!(frames.is_empty());
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_before_it_is_kept() {
        let refused = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.push(bytes);
            frames.next().unwrap_err()
        };
        assert_eq!(refused(&[1, 0, 0, 0, 0]), FrameError::Flags(1));
        assert_eq!(refused(&[255; 5]), FrameError::Flags(255));
        let long = FrameError::TooLong(u32::MAX);
        assert_eq!(refused(&[0, 255, 255, 255, 255]), long);
        assert!(long.words().contains("maximum"));
        let mut part = Frames::default();
        part.push(&frame(0, b"abc")[..7]);
        assert_eq!(part.next(), Ok(None));
        assert!(!part.is_empty());
    }
}
