//! Bytes of whoever connects to a Jupyter kernel: the same items however they are cut, no more memory than arrived, no
//! message without the key; and what is signed is read again. The same bytes as a message of a kernel's WebSocket: what
//! is read from it is written and read again.
//!
//! The input: one byte that says how it is cut, then the bytes of the wire after the greeting.
#![no_main]
#![allow(dead_code, reason = "the sources have more than is needed here")]

#[path = "../../crates/belljar-jupyter/src/message.rs"]
mod message;
#[path = "../../crates/belljar-jupyter/src/websocket.rs"]
mod websocket;
#[path = "../../crates/belljar-jupyter/src/zmtp.rs"]
mod zmtp;

use libfuzzer_sys::fuzz_target;
use message::{Key, Message};
use websocket::{decode_json, decode_json_with_buffers, decode_v1, encode_v1, json_from_v1};
use zmtp::{Decoder, Item, ZmtpError, encode_message};

type Decoded = (Vec<Item>, Option<ZmtpError>);

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = Decoder::default();
    decoder.push(b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL");
    decoder.push(&[0; 48]);
    assert_eq!(decoder.next_item(), Ok(Some(Item::Greeting)));
    decoder.set_ready();
    let mut items = Vec::new();
    let mut arrived = 0;
    for piece in pieces {
        decoder.push(piece);
        arrived += piece.len();
        loop {
            match decoder.next_item() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(error) => return (items, Some(error)),
            }
        }
        assert!(decoder.held() <= arrived);
    }
    (items, None)
}

/// Reads a message of a WebSocket in each of its forms, and again as it is written.
fn read_websocket(message: &[u8]) {
    // A longer header may be over its limit when its numbers are written again.
    let message = &message[..message.len().min(4000)];
    for decode in [decode_v1, decode_json, decode_json_with_buffers] {
        let Ok((channel, mut read)) = decode(message) else {
            continue;
        };
        let frame = encode_v1(channel, &read);
        assert_eq!(decode_v1(&frame), Ok((channel, read.clone())));
        let text = json_from_v1(&frame).expect("a frame of ours");
        read.buffers.clear();
        assert_eq!(decode_json(text.as_bytes()), Ok((channel, read)));
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((step, wire)) = input.split_first() else {
        return;
    };
    read_websocket(wire);
    let whole = decode(std::iter::once(wire));
    assert_eq!(decode(wire.chunks(usize::from(*step) + 1)), whole);
    let key = Key::new(b"the fuzzer does not know it");
    for item in whole.0 {
        let frames = match item {
            Item::Greeting => panic!("a second greeting"),
            Item::Command { body, .. } => {
                let _ = zmtp::ready_property(&body, b"Identity");
                continue;
            }
            Item::Message(frames) => frames,
        };
        let again = encode_message(frames.iter().map(Vec::as_slice));
        assert_eq!(
            decode(std::iter::once(again.as_slice())).0,
            [Item::Message(frames.clone())]
        );
        assert!(Message::parse(frames.clone(), &key).is_err());
        // As if the fuzzer had the key: its parts, signed.
        if let Some([header, parent, metadata, content]) = frames.get(..4) {
            let object = |part: &Vec<u8>| serde_json::from_slice(part).unwrap_or_default();
            let message = Message {
                header: object(header),
                parent: object(parent),
                metadata: object(metadata),
                content: object(content),
                buffers: frames[4..].to_vec(),
            };
            let signed = message.encode(&[], &key);
            match Message::parse(signed, &key) {
                Ok((envelope, read)) => assert!(envelope.is_empty() && read == message),
                Err(_) => assert!(message.kind().is_empty() || message.id().is_empty()),
            }
        }
    }
});
