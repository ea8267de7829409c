# Generated from crates/belljar-protocol/src/mime.rs by its example `mime_tables`. Do not edit it by hand.
"""MIME types of displays."""

TABLE = "application/vnd.belljar.table+json"
"""Rows and columns of a table as JSON."""

IMAGES = (
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/svg+xml",
)
"""Images, the preferred type first."""
