//! Frames between host and guest: two little-endian `u32` lengths, a JSON header, then raw bytes.
//!
//! The guest is hostile, so the decoder has limits, and refuses a length before it reserves memory
//! for it.

use serde::Serialize;

/// The largest header and blob a side is willing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Bytes of JSON header.
    pub header: usize,
    /// Bytes of raw data after the header.
    pub blob: usize,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self {
            header: 8 << 20,
            blob: 32 << 20,
        }
    }
}

/// A frame as it came off the wire; its header is not parsed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFrame {
    /// JSON text of the header.
    pub header: Vec<u8>,
    /// Raw bytes that belong to it.
    pub blob: Vec<u8>,
}

/// Why bytes from the other side are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The header is announced larger than the limit.
    HeaderTooLarge(usize),
    /// The blob is announced larger than the limit.
    BlobTooLarge(usize),
    /// A frame without a header.
    EmptyHeader,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::HeaderTooLarge(n) => write!(f, "frame header of {n} bytes is over the limit"),
            Self::BlobTooLarge(n) => write!(f, "frame blob of {n} bytes is over the limit"),
            Self::EmptyHeader => f.write_str("frame without a header"),
        }
    }
}

impl std::error::Error for FrameError {}

const PREFIX: usize = 8;
/// A blob of so many bytes has memory of its own from its first bytes on, and is not copied again.
const LARGE: usize = 64 << 10;

/// An announced length is reserved at once up to here. A blob that grew by pieces would leave as much
/// again in the heap.
const RESERVED: usize = 1 << 20;

/// Encodes a header and its blob.
///
/// # Errors
/// Fails only where the header can't be written as JSON or a part is over 4 GiB.
pub fn encode_frame(header: &impl Serialize, blob: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = encode_head(header, blob.len())?;
    out.extend_from_slice(blob);
    Ok(out)
}

/// Encodes a frame without its blob, whose bytes must follow.
///
/// # Errors
/// As [`encode_frame`].
pub fn encode_head(header: &impl Serialize, blob: usize) -> Result<Vec<u8>, serde_json::Error> {
    use serde::ser::Error as _;
    let mut out = vec![0; PREFIX];
    serde_json::to_writer(&mut out, header)?;
    let header_len = u32::try_from(out.len() - PREFIX).map_err(serde_json::Error::custom)?;
    let blob_len = u32::try_from(blob).map_err(serde_json::Error::custom)?;
    out[..4].copy_from_slice(&header_len.to_le_bytes());
    out[4..PREFIX].copy_from_slice(&blob_len.to_le_bytes());
    Ok(out)
}

/// A little-endian number.
fn length(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rev()
        .fold(0, |n, byte| n << 8 | usize::from(*byte))
}

/// Cuts a byte stream into frames.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    limits: FrameLimits,
    buffer: Vec<u8>,
    /// Bytes at the front of `buffer` that were already handed out.
    taken: usize,
    /// A frame with a large blob, which comes before what is in `buffer`.
    arriving: Option<Arriving>,
    /// Memory for the next large blob.
    unused: Vec<u8>,
}

#[derive(Debug)]
struct Arriving {
    frame: RawFrame,
    /// Bytes that its blob will have.
    blob: usize,
}

impl Arriving {
    fn missing(&self) -> usize {
        self.blob.saturating_sub(self.frame.blob.len())
    }
}

impl FrameDecoder {
    /// A decoder that refuses what is over `limits`.
    pub fn new(limits: FrameLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Adds bytes that arrived.
    pub fn push(&mut self, mut bytes: &[u8]) {
        if let Some(arriving) = &mut self.arriving {
            let (blob, rest) = bytes.split_at(arriving.missing().min(bytes.len()));
            arriving.frame.blob.extend_from_slice(blob);
            bytes = rest;
        }
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// A large blob that is not whole, to be read into without a copy, and how many bytes it lacks.
    pub fn blob(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let arriving = self.arriving.as_mut()?;
        let missing = arriving.missing();
        let blob = &mut arriving.frame.blob;
        if blob.len() == blob.capacity() {
            // Then only as much again as has arrived: the announced length may be a lie.
            blob.reserve_exact(missing.min(blob.len().max(RESERVED)));
        }
        (missing > 0).then_some((blob, missing))
    }

    /// Takes memory that it uses for the next large blob.
    pub fn reuse(&mut self, mut memory: Vec<u8>) {
        memory.clear();
        self.unused = memory;
    }

    /// Bytes that have arrived and are not a whole frame yet, or were not read.
    pub fn buffered(&self) -> usize {
        let arriving = self.arriving.as_ref();
        let arrived = arriving.map_or(0, |one| one.frame.header.len() + one.frame.blob.len());
        arrived + self.buffer.len() - self.taken
    }

    /// Bytes of the frame that is arriving, once its lengths are known; or the bytes that have
    /// arrived, if that is more.
    pub fn wanted(&self) -> usize {
        if let Some(arriving) = &self.arriving {
            return self.buffered() + arriving.missing();
        }
        let rest = &self.buffer[self.taken..];
        let whole = rest.split_first_chunk::<PREFIX>().map_or(0, |(prefix, _)| {
            let (header, blob) = (length(&prefix[..4]), length(&prefix[4..]));
            PREFIX + header.min(self.limits.header) + blob.min(self.limits.blob)
        });
        whole.max(rest.len())
    }

    /// The next whole frame, if it has arrived.
    ///
    /// # Errors
    /// A length over the limits; the stream can't be trusted afterwards.
    pub fn next_frame(&mut self) -> Result<Option<RawFrame>, FrameError> {
        if let Some(arriving) = self.arriving.take_if(|arriving| arriving.missing() == 0) {
            return Ok(Some(arriving.frame));
        }
        if self.arriving.is_some() {
            return Ok(None);
        }
        let rest = &self.buffer[self.taken..];
        let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let (header_len, blob_len) = (length(&prefix[..4]), length(&prefix[4..]));
        if header_len > self.limits.header {
            return Err(FrameError::HeaderTooLarge(header_len));
        }
        if blob_len > self.limits.blob {
            return Err(FrameError::BlobTooLarge(blob_len));
        }
        if header_len == 0 {
            return Err(FrameError::EmptyHeader);
        }
        let Some((header, rest)) = rest.split_at_checked(header_len) else {
            return Ok(None);
        };
        let arrived = rest.len().min(blob_len);
        if arrived < blob_len && blob_len < LARGE {
            return Ok(None);
        }
        let mut blob = if blob_len < LARGE {
            Vec::new()
        } else {
            std::mem::take(&mut self.unused)
        };
        blob.reserve_exact(arrived.max(blob_len.min(RESERVED)));
        blob.extend_from_slice(&rest[..arrived]);
        let frame = RawFrame {
            header: header.to_vec(),
            blob,
        };
        self.taken += PREFIX + header_len + arrived;
        if self.taken == self.buffer.len() {
            // Give a large buffer back: one big picture must not stay for the session's life.
            if self.buffer.capacity() > 1 << 20 {
                self.buffer = Vec::new();
            } else {
                self.buffer.clear();
            }
            self.taken = 0;
        }
        if arrived == blob_len {
            return Ok(Some(frame));
        }
        self.arriving = Some(Arriving {
            frame,
            blob: blob_len,
        });
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small() -> FrameLimits {
        FrameLimits {
            header: 100,
            blob: 100,
        }
    }

    proptest! {
        #[test]
        fn frames_survive_any_chunking(
            frames in prop::collection::vec((".{0,20}", prop::collection::vec(any::<u8>(), 0..50)), 0..6),
            cuts in prop::collection::vec(1usize..30, 1..40),
        ) {
            let mut wire = Vec::new();
            for (text, blob) in &frames {
                wire.extend(encode_frame(text, blob).unwrap());
            }
            let mut decoder = FrameDecoder::default();
            let mut got = Vec::new();
            let mut cuts = cuts.into_iter().cycle();
            let mut rest = wire.as_slice();
            while !rest.is_empty() {
                let n = cuts.next().unwrap().min(rest.len());
                decoder.push(&rest[..n]);
                rest = &rest[n..];
                while let Some(frame) = decoder.next_frame().unwrap() {
                    got.push((serde_json::from_slice::<String>(&frame.header).unwrap(), frame.blob));
                }
            }
            prop_assert_eq!(got, frames);
        }

        #[test]
        fn any_bytes_never_reserve_past_the_limits(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut decoder = FrameDecoder::new(small());
            decoder.push(&bytes);
            while let Ok(Some(frame)) = decoder.next_frame() {
                prop_assert!(frame.header.len() <= 100 && frame.blob.len() <= 100);
            }
        }
    }

    /// Large blobs are read in place or pushed, between small ones, and reuse memory.
    #[test]
    fn large_blobs_arrive_in_any_way() {
        let frames = [(LARGE + 5, 1), (3, 2), (LARGE, 3), (0, 4), (LARGE * 3, 5)];
        let frames = frames.map(|(length, byte)| vec![byte; length]);
        let wire: Vec<u8> = frames
            .iter()
            .flat_map(|blob| encode_frame(&"x", blob).unwrap())
            .collect();
        for cut in [1, 7, 5_000, LARGE, 1 << 20] {
            let mut decoder = FrameDecoder::default();
            let mut got = Vec::new();
            let mut rest = wire.as_slice();
            while !rest.is_empty() {
                let now = match decoder.blob() {
                    Some((blob, missing)) if cut != 7 => {
                        let now = missing.min(cut).min(rest.len());
                        blob.extend_from_slice(&rest[..now]);
                        now
                    }
                    _ => {
                        let now = cut.min(rest.len());
                        decoder.push(&rest[..now]);
                        now
                    }
                };
                rest = &rest[now..];
                assert!(decoder.wanted() >= decoder.buffered());
                while let Some(frame) = decoder.next_frame().unwrap() {
                    got.push(frame.blob.clone());
                    decoder.reuse(frame.blob);
                }
            }
            assert_eq!(decoder.buffered(), 0);
            assert!(got == frames, "in parts of {cut} bytes");
        }
    }

    #[test]
    fn lengths_over_the_limit_are_refused_before_their_bytes_arrive() {
        let mut decoder = FrameDecoder::new(small());
        decoder.push(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!(
            decoder.next_frame(),
            Err(FrameError::HeaderTooLarge(0xffff_ffff))
        );
        let mut decoder = FrameDecoder::new(small());
        decoder.push(&[1, 0, 0, 0, 101, 0, 0, 0]);
        assert_eq!(decoder.next_frame(), Err(FrameError::BlobTooLarge(101)));
        let mut decoder = FrameDecoder::new(small());
        decoder.push(&[0; 8]);
        assert_eq!(decoder.next_frame(), Err(FrameError::EmptyHeader));
    }
}
