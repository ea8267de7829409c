//! Frames of a guest, in whatever pieces they arrive: the same frames and the same end, nothing over
//! the limits, no more memory than arrived; and what is encoded is decoded again.
//!
//! The input: one byte that says how it is cut, then the bytes of the wire.
#![no_main]

use belljar_protocol::{
    Event, FrameDecoder, FrameError, FrameLimits, FromSteward, GuestFrame, Outcome, RawFrame,
    encode_frame,
};
use libfuzzer_sys::fuzz_target;

const LIMITS: FrameLimits = FrameLimits {
    header: 4096,
    blob: 1024,
};

type Decoded = (Vec<RawFrame>, Option<FrameError>);

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = FrameDecoder::new(LIMITS);
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// The rule, read naively: lengths, then that many bytes, as long as there are enough.
fn naive(mut wire: &[u8]) -> Decoded {
    let mut frames = Vec::new();
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |n, byte| n * 256 + usize::from(*byte))
    };
    while wire.len() >= 8 {
        let (header, blob) = (number(&wire[..4]), number(&wire[4..8]));
        let error = match (header, blob) {
            (header, _) if header > LIMITS.header => Some(FrameError::HeaderTooLarge(header)),
            (_, blob) if blob > LIMITS.blob => Some(FrameError::BlobTooLarge(blob)),
            (0, _) => Some(FrameError::EmptyHeader),
            _ => None,
        };
        if error.is_some() {
            return (frames, error);
        }
        if wire.len() < 8 + header + blob {
            break;
        }
        frames.push(RawFrame {
            header: wire[8..8 + header].to_vec(),
            blob: wire[8 + header..8 + header + blob].to_vec(),
        });
        wire = &wire[8 + header + blob..];
    }
    (frames, None)
}

fuzz_target!(|input: &[u8]| {
    let Some((step, wire)) = input.split_first() else {
        return;
    };
    let expected = naive(wire);
    assert_eq!(decode(std::iter::once(wire)), expected);
    assert_eq!(decode(wire.chunks(usize::from(*step) + 1)), expected);

    // With the limits of a session, where much more may be announced than ever arrives.
    let mut decoder = FrameDecoder::default();
    decoder.push(wire);
    while let Ok(Some(_)) = decoder.next_frame() {}

    for frame in &expected.0 {
        let parsed = GuestFrame::parse(frame);
        // A frame is JSON, but for the details of fields that nobody knows: they are passed over
        // without being kept, and a lone surrogate in there is nobody's business.
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(&frame.header) else {
            continue;
        };
        let encoded = encode_frame(&value, &frame.blob).expect("JSON can be written");
        let mut decoder = FrameDecoder::default();
        decoder.push(&encoded);
        let again = decoder
            .next_frame()
            .expect("it was encoded")
            .expect("it is whole");
        let header = serde_json::to_vec(&value).expect("JSON can be written");
        assert_eq!((&again.header, &again.blob), (&header, &frame.blob));
        // The other way a name that is there twice is in the way, which the value has once.
        assert!(parsed.is_err() || GuestFrame::parse(&again).is_ok());
        // What a steward could say: a list or a number of any size is a value or an error.
        let _ = serde_json::from_slice::<FromSteward>(&frame.header);
        // What callers keep and read back.
        if let Ok(outcome) = serde_json::from_slice::<Outcome>(&frame.header) {
            let event = Event::Outcome(Box::new(outcome));
            let json = serde_json::to_string(&event).expect("JSON can be written");
            assert!(serde_json::from_str::<Event>(&json).is_ok(), "{json}");
        }
    }
});
