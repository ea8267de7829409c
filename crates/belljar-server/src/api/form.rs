//! Forms with files (`multipart/form-data`), read with little memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use multer::bytes::Bytes;
use multer::{Field, Multipart};

/// The most bytes between two parts, with the header of the next.
const MAX_HEADER: usize = 64 << 10;

/// The parts of a form, one after the other. Each is read to its end before the next.
pub(super) struct Form {
    parts: Multipart<'static>,
    /// How many bytes may still be read.
    left: Arc<AtomicUsize>,
}

impl Form {
    /// Reads the form from a body.
    pub(super) fn new<S>(body: S, boundary: String) -> Self
    where
        S: Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static,
    {
        let left = Arc::new(AtomicUsize::new(0));
        let body = Pieces {
            body,
            left: Arc::clone(&left),
            given: false,
        };
        Self {
            parts: Multipart::new(body, boundary),
            left,
        }
    }

    /// The next part; none at the end of the form.
    pub(super) async fn next(&mut self) -> multer::Result<Option<Field<'static>>> {
        // The parser holds all that it has read until it finds the end of a header, and searches it from the start.
        self.left.store(MAX_HEADER, Ordering::Relaxed);
        let part = self.parts.next_field().await;
        self.left.store(usize::MAX, Ordering::Relaxed);
        part
    }
}

/// Why a form can't be read.
pub(super) fn reason(error: &multer::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    source.unwrap_or_else(|| error.to_string())
}

/// A body that has at most one piece ready each time it is polled. The parser takes all that is ready into memory; and it
/// calls a form incomplete if the first bytes and the end come in the same poll.
struct Pieces<S> {
    body: S,
    left: Arc<AtomicUsize>,
    given: bool,
}

impl<S: Stream<Item = io::Result<Bytes>> + Unpin> Stream for Pieces<S> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.given) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = ready!(Pin::new(&mut self.body).poll_next(context));
        self.given = true;
        let Some(Ok(bytes)) = &piece else {
            return Poll::Ready(piece);
        };
        let left = self.left.load(Ordering::Relaxed);
        let Some(left) = left.checked_sub(bytes.len()) else {
            let why = format!("the header of a part has more than {MAX_HEADER} bytes");
            return Poll::Ready(Some(Err(io::Error::other(why))));
        };
        self.left.store(left, Ordering::Relaxed);
        Poll::Ready(piece)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};

    use super::*;

    const TEXT: &str = "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nabc\r\n--B--\r\n";

    async fn read(body: impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static) -> String {
        let mut form = Form::new(body, "B".to_owned());
        let mut part = form.next().await.expect("a form").expect("a part");
        let mut text = format!("{}: ", part.file_name().expect("a name"));
        while let Some(bytes) = part.chunk().await.expect("contents") {
            text += std::str::from_utf8(&bytes).expect("text");
        }
        drop(part);
        assert!(form.next().await.expect("the end").is_none());
        text
    }

    /// A disk may answer between two polls of the parser, which then has the bytes and their end at once.
    #[tokio::test]
    async fn a_form_that_comes_late_and_at_once_is_whole() {
        let mut steps = 0;
        let body = stream::poll_fn(move |context| {
            steps += 1;
            match steps {
                1 => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                2 => Poll::Ready(Some(Ok(Bytes::from_static(TEXT.as_bytes())))),
                _ => Poll::Ready(None),
            }
        });
        assert_eq!(read(body).await, "a.txt: abc");
    }

    #[tokio::test]
    async fn pieces_of_any_size_are_the_same_form() {
        for size in 1..TEXT.len() {
            let pieces: Vec<_> = TEXT
                .as_bytes()
                .chunks(size)
                .map(Bytes::from_static)
                .collect();
            assert_eq!(read(stream::iter(pieces).map(Ok)).await, "a.txt: abc");
        }
    }

    /// Or a form of one long line would be held in memory, and searched again with each piece.
    #[tokio::test]
    async fn a_header_without_an_end_is_not_read_on() {
        for start in ["", "--B\r\n"] {
            let endless = stream::repeat_with(|| Ok(Bytes::from_static(&[b'a'; 8192])));
            let start = stream::iter([Ok(Bytes::from_static(start.as_bytes()))]);
            let mut form = Form::new(start.chain(endless), "B".to_owned());
            let error = form.next().await.expect_err("a refusal");
            let why = reason(&error);
            assert_eq!(why, "the header of a part has more than 65536 bytes");
        }
    }
}
