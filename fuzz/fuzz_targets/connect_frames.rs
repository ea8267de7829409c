//! Frames of a client's stream: whatever the pieces, the messages are the same, and no more is kept than one message.
//!
//! The input: the first byte is the size of the pieces, the rest is the stream.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "the target uses only the reader")]
#[path = "../../crates/belljar-server/src/api/e2b/frames.rs"]
mod frames;

use frames::{FrameError, Frames, MAX_MESSAGE, frame};

/// All messages of a stream that comes in pieces, and how it ends.
fn read(bytes: &[u8], size: usize) -> (Vec<Vec<u8>>, Result<bool, FrameError>) {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for piece in bytes.chunks(size) {
        frames.push(piece);
        loop {
            match frames.next() {
                Ok(Some(message)) => found.push(message),
                Ok(None) => break,
                Err(error) => return (found, Err(error)),
            }
        }
        assert!(frames.len() <= MAX_MESSAGE + 5 + size);
    }
    let empty = frames.is_empty();
    (found, Ok(empty))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((size, stream)) = bytes.split_first() else {
        return;
    };
    let (messages, end) = read(stream, usize::from(*size).max(1));
    assert_eq!(read(stream, stream.len().max(1)), (messages.clone(), end));
    let frames = messages.iter().flat_map(|message| frame(0, message));
    let again: Vec<u8> = frames.collect();
    assert_eq!(read(&again, 3), (messages, Ok(true)));
});
