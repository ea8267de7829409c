//! MIME types that Belljar knows: their file extensions, their first bytes, and how they are shown.
//!
//! The tables of the web interface and of the Python SDK are generated from this one:
//! `cargo run -p belljar-protocol --example mime_tables`.

use std::path::Path;

/// How a representation of a display is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MimeView {
    /// As a table: [`TABLE_MIME`].
    Table,
    /// As a raster image.
    Image,
    /// As a vector image, which may not run its scripts.
    Svg,
    /// As a page of its own, without scripts.
    Html,
    /// As formatted text.
    Markdown,
    /// As plain text.
    Text,
}

/// One MIME type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MimeType {
    /// Its name, without parameters.
    pub name: &'static str,
    /// Extensions of file names, the usual one first.
    pub extensions: &'static [&'static str],
    /// How it is drawn in a display; `None`: it is only a file.
    pub view: Option<MimeView>,
    /// Whether it is exported to Jupyter notebooks.
    pub notebook: bool,
    /// Bytes, with their offset, that identify a file of this type. Empty: none do.
    pub signature: &'static [(usize, &'static [u8])],
}

/// Rows and columns of a table as JSON.
pub const TABLE_MIME: &str = "application/vnd.belljar.table+json";

/// A type without a view, as which a file is sent.
const fn file(name: &'static str, extensions: &'static [&'static str]) -> MimeType {
    MimeType {
        name,
        extensions,
        view: None,
        notebook: false,
        signature: &[],
    }
}

/// A type that displays have.
const fn shown(
    view: MimeView,
    name: &'static str,
    extensions: &'static [&'static str],
) -> MimeType {
    MimeType {
        view: Some(view),
        ..file(name, extensions)
    }
}

impl MimeType {
    const fn in_notebooks(self) -> Self {
        Self {
            notebook: true,
            ..self
        }
    }

    const fn signed(self, signature: &'static [(usize, &'static [u8])]) -> Self {
        Self { signature, ..self }
    }
}

/// All of them. Of the representations of a display, the first in this order is shown.
pub const MIME_TYPES: &[MimeType] = &[
    shown(MimeView::Table, TABLE_MIME, &[]),
    shown(MimeView::Image, "image/png", &["png"])
        .in_notebooks()
        .signed(&[(0, b"\x89PNG")]),
    shown(MimeView::Image, "image/jpeg", &["jpg", "jpeg"])
        .in_notebooks()
        .signed(&[(0, b"\xff\xd8\xff")]),
    shown(MimeView::Image, "image/gif", &["gif"]).signed(&[(0, b"GIF8")]),
    shown(MimeView::Image, "image/webp", &["webp"]).signed(&[(0, b"RIFF"), (8, b"WEBP")]),
    shown(MimeView::Svg, "image/svg+xml", &["svg"]).in_notebooks(),
    shown(MimeView::Html, "text/html", &["html"]).in_notebooks(),
    shown(MimeView::Markdown, "text/markdown", &["md"]).in_notebooks(),
    shown(MimeView::Text, "text/latex", &["tex"]).in_notebooks(),
    shown(MimeView::Text, "application/json", &["json", "map"]),
    shown(MimeView::Text, "text/plain", &["txt"]).in_notebooks(),
    file("text/csv", &["csv"]),
    file("text/tab-separated-values", &["tsv"]),
    file("text/css", &["css"]),
    file("text/javascript", &["js", "mjs"]),
    file("text/x-python", &["py"]),
    file("application/x-ipynb+json", &["ipynb"]),
    file("application/manifest+json", &["webmanifest"]),
    file("application/pdf", &["pdf"]).in_notebooks(),
    file("image/x-icon", &["ico"]),
    file("font/woff2", &["woff2"]),
];

impl MimeType {
    /// The type of this name, with or without parameters.
    pub fn named(name: &str) -> Option<&'static Self> {
        let name = name.split(';').next().unwrap_or_default().trim();
        MIME_TYPES.iter().find(|one| one.name == name)
    }

    /// The type of a file, by the extension of its name.
    pub fn of_file(path: &str) -> Option<&'static Self> {
        let extension = Path::new(path).extension()?.to_str()?;
        let has = |one: &&Self| {
            let mut extensions = one.extensions.iter();
            extensions.any(|one| one.eq_ignore_ascii_case(extension))
        };
        MIME_TYPES.iter().find(has)
    }

    /// The type of a file, by its contents, where those identify one.
    pub fn of_contents(contents: &[u8]) -> Option<&'static Self> {
        let has = |(at, bytes): &(usize, &[u8])| {
            contents
                .get(*at..)
                .is_some_and(|rest| rest.starts_with(bytes))
        };
        let mut signed = MIME_TYPES.iter().filter(|one| !one.signature.is_empty());
        signed.find(|one| one.signature.iter().all(has))
    }

    /// Whether it is a raster image that browsers and MCP clients show.
    pub fn is_image(&self) -> bool {
        self.view == Some(MimeView::Image)
    }

    /// The usual extension of its files.
    pub fn extension(&self) -> Option<&'static str> {
        self.extensions.first().copied()
    }

    /// The value of the header `Content-Type`: text is UTF-8.
    pub fn content_type(&self) -> String {
        let charset = if self.name.starts_with("text/") {
            "; charset=utf-8"
        } else {
            ""
        };
        format!("{}{charset}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions_are_unique() {
        let mut names: Vec<&str> = MIME_TYPES.iter().map(|one| one.name).collect();
        names.extend(MIME_TYPES.iter().flat_map(|one| one.extensions));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn types_are_found_by_name_extension_and_contents() {
        let name = |found: Option<&MimeType>| found.map(|one| one.name);
        assert_eq!(
            name(MimeType::named("text/csv; header=present")),
            Some("text/csv")
        );
        assert_eq!(name(MimeType::named("image/../../x")), None);
        assert_eq!(name(MimeType::of_file("a/b.c.JPEG")), Some("image/jpeg"));
        assert_eq!(name(MimeType::of_file("png")), None);
        let contents = |bytes: &[u8]| name(MimeType::of_contents(bytes));
        assert_eq!(contents(b"\x89PNG\r\n"), Some("image/png"));
        assert_eq!(contents(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(contents(b"RIFF\0\0\0\0WAVE"), None);
        assert_eq!(contents(b""), None);
        let content_type = |path| MimeType::of_file(path).unwrap().content_type();
        assert_eq!(content_type("a.js"), "text/javascript; charset=utf-8");
        assert_eq!(content_type("a.svg"), "image/svg+xml");
    }
}
