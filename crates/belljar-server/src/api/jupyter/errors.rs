//! How problems are said on this wire.

use axum::response::Response;
use serde_json::json;

use crate::api::retold::render;

/// `{"message", "reason"}`.
pub(super) async fn as_message(response: Response) -> Response {
    render(response, |told, status| {
        let message = format!("{}: {}", told.title, told.detail);
        let body = json!({"message": message, "reason": told.code});
        (status, "application/json", body.to_string().into_bytes())
    })
    .await
}
