//! A call as an editor shows it: code, output and figures.

use agent_client_protocol_schema::v1::{ContentBlock, ImageContent, ToolCallContent};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_protocol::{Display, plain};

use crate::words::{fenced, head, tail, text};

/// The most bytes of code and of output that are shown beside it.
const CODE: usize = 32 << 10;
pub(crate) const OUTPUT: usize = 16 << 10;

/// The most figures of a call, and bytes of all of them.
const IMAGES: usize = 8;
const IMAGE_BYTES: usize = 8 << 20;

/// A figure: its MIME type and its bytes.
pub(crate) type Image = (String, Vec<u8>);

/// The code, its output and its figures. An editor replaces all of it at once.
pub(crate) fn cell_content(code: &str, output: &str, images: &[Image]) -> Vec<ToolCallContent> {
    let mut content = Vec::new();
    if !code.is_empty() {
        let code = fenced("python", &head(&plain(code), CODE));
        content.push(text(code).into());
    }
    if !output.trim().is_empty() {
        content.push(text(fenced("", &tail(output, OUTPUT))).into());
    }
    let mut bytes = 0;
    for (mime, data) in images.iter().take(IMAGES) {
        bytes += data.len();
        if bytes <= IMAGE_BYTES {
            let image = ImageContent::new(BASE64.encode(data), mime.as_str());
            content.push(ContentBlock::Image(image).into());
        }
    }
    content
}

/// Whether editors show images of this type.
pub(crate) fn is_shown(mime: &str) -> bool {
    matches!(
        mime,
        "image/png" | "image/jpeg" | "image/gif" | "image/webp"
    )
}

/// The figures among displays.
pub(crate) fn images(displays: &[Display]) -> Vec<Image> {
    let parts = displays.iter().flat_map(|display| &display.parts);
    parts
        .filter(|part| is_shown(&part.mime))
        .map(|part| (part.mime.clone(), part.data.clone()))
        .collect()
}
