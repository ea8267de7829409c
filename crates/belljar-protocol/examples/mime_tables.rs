//! Writes the MIME types as tables of the web interface and of the Python SDK.

use std::path::PathBuf;

use belljar_protocol::{MIME_TYPES, MimeType, MimeView, TABLE_MIME};

const SOURCE: &str = "crates/belljar-protocol/src/mime.rs";

#[allow(dead_code, reason = "the test includes this file for `tables`")]
fn main() -> std::io::Result<()> {
    for (path, text) in tables() {
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// The generated files and their text.
pub(crate) fn tables() -> [(PathBuf, String); 2] {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    [
        (root.join("web/src/api/generated/mime.ts"), typescript()),
        (root.join("sdk/python/src/belljar/_mime.py"), python()),
    ]
}

fn typescript() -> String {
    let row = |one: &MimeType| {
        let extensions: Vec<String> = one
            .extensions
            .iter()
            .map(|one| format!("'{one}'"))
            .collect();
        let view = one
            .view
            .map_or("null".to_owned(), |view| format!("'{}'", word(view)));
        format!(
            "  {{ mime: '{}', extensions: [{}], view: {view}, notebook: {} }},\n",
            one.name,
            extensions.join(", "),
            one.notebook
        )
    };
    let rows: Vec<String> = MIME_TYPES.iter().map(row).collect();
    let rows = rows.concat();
    format!(
        "// Generated from {SOURCE} by its example `mime_tables`. Do not edit it by hand.\n\
         \n\
         export interface MimeType {{\n\
         \x20 mime: string;\n\
         \x20 extensions: string[];\n\
         \x20 view: 'table' | 'image' | 'svg' | 'html' | 'markdown' | 'text' | null;\n\
         \x20 notebook: boolean;\n\
         }}\n\
         \n\
         /** Of the representations of a display, the first in this order is shown. */\n\
         export const MIME_TYPES: readonly MimeType[] = [\n{rows}];\n"
    )
}

fn python() -> String {
    let is_drawn = |one: &&MimeType| one.is_image() || one.view == Some(MimeView::Svg);
    let images = MIME_TYPES.iter().filter(is_drawn);
    let images: Vec<String> = images
        .map(|one| format!("    \"{}\",\n", one.name))
        .collect();
    let images = images.concat();
    format!(
        "# Generated from {SOURCE} by its example `mime_tables`. Do not edit it by hand.\n\
         \"\"\"MIME types of displays.\"\"\"\n\
         \n\
         TABLE = \"{TABLE_MIME}\"\n\
         \"\"\"Rows and columns of a table as JSON.\"\"\"\n\
         \n\
         IMAGES = (\n{images})\n\
         \"\"\"Images, the preferred type first.\"\"\"\n"
    )
}

fn word(view: MimeView) -> &'static str {
    match view {
        MimeView::Table => "table",
        MimeView::Image => "image",
        MimeView::Svg => "svg",
        MimeView::Html => "html",
        MimeView::Markdown => "markdown",
        MimeView::Text => "text",
    }
}
