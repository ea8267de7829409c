//! The web interface: files from inside the binary. All that it shows, it asks the API for.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use belljar_sandbox::protocol::MimeType;
use belljar_web::{FILES, File, MISSING, find};

use crate::problem::{Code, Problem};

/// Nothing is loaded from elsewhere, and no script but ours runs. Frames hold what programs made, each sandboxed
/// by the page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
     font-src 'self'; connect-src 'self'; frame-src 'self' blob: data:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'",
);

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The page, and the files that it is made of.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let named = |file: &&File| !file.is_immutable() && file.path != "index.html";
    let router = Router::new()
        .route("/", get(page))
        .route("/assets/{*path}", get(asset));
    FILES.iter().filter(named).fold(router, |router, file| {
        let path = format!("/{}", file.path);
        router.route(
            &path,
            get(async |headers: HeaderMap| answer(file, &headers)),
        )
    })
}

async fn page(headers: HeaderMap) -> Response {
    match find("") {
        Some(file) => answer(file, &headers),
        None => with_policy(axum::response::Html(MISSING).into_response()),
    }
}

async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    let file = find(&format!("assets/{path}"));
    let file = file.ok_or_else(|| {
        let detail = "the interface has no such file; reload the page";
        Problem::new(Code::RouteNotFound, detail)
    })?;
    Ok(answer(file, &headers))
}

fn content_type(path: &str) -> HeaderValue {
    let known = MimeType::of_file(path).map(MimeType::content_type);
    let known = known.and_then(|text| HeaderValue::try_from(text).ok());
    known.unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

fn answer(file: &'static File, asked: &HeaderMap) -> Response {
    let text = |name| {
        let values = asked.get_all(name).iter();
        values
            .filter_map(|value| value.to_str().ok())
            .collect::<Vec<_>>()
            .join(",")
    };
    let has = |list: &str, one: &str| {
        let mut items = list.split(',').map(str::trim);
        items.any(|item| item == one)
    };
    // Browsers write it without a weight.
    let gzip = file
        .gzip
        .filter(|_| has(&text(header::ACCEPT_ENCODING), "gzip"));
    let known = has(&text(header::IF_NONE_MATCH), file.etag);
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        gzip.unwrap_or(file.contents).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type(file.path));
    headers.insert(header::ETAG, HeaderValue::from_static(file.etag));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if gzip.is_some() && !known {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let kept = if file.is_immutable() {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
    with_policy(response)
}

fn with_policy(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: File = File {
        path: "assets/main-0a1b.js",
        etag: "\"0a1b\"",
        contents: b"whole",
        gzip: Some(b"less"),
    };

    fn ask(file: &'static File, headers: &[(HeaderName, &'static str)]) -> Response {
        let headers = headers.iter().cloned();
        let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
        answer(file, &headers.collect())
    }

    #[test]
    fn files_are_compressed_for_whom_it_is_meant() {
        let plain = ask(&SCRIPT, &[]);
        assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
        assert_eq!(
            plain.headers()[header::CONTENT_TYPE],
            "text/javascript; charset=utf-8"
        );
        assert_eq!(plain.headers()[header::VARY], "accept-encoding");
        let gzip = ask(&SCRIPT, &[(header::ACCEPT_ENCODING, "br, gzip")]);
        assert_eq!(gzip.headers()[header::CONTENT_ENCODING], "gzip");
        let none = ask(&SCRIPT, &[(header::ACCEPT_ENCODING, "gzip;q=0")]);
        assert!(!none.headers().contains_key(header::CONTENT_ENCODING));
    }

    #[test]
    fn what_has_its_hash_in_its_name_is_kept_and_the_page_is_asked_for_again() {
        const PAGE: File = File {
            path: "index.html",
            gzip: None,
            ..SCRIPT
        };
        let kept = ask(&SCRIPT, &[]);
        let kept = kept.headers()[header::CACHE_CONTROL].to_str().unwrap();
        assert!(kept.ends_with("immutable"), "{kept}");
        let page = ask(&PAGE, &[(header::ACCEPT_ENCODING, "gzip")]);
        assert_eq!(page.headers()[header::CACHE_CONTROL], "no-cache");
        assert!(!page.headers().contains_key(header::CONTENT_ENCODING));
        let known = ask(&PAGE, &[(header::IF_NONE_MATCH, "\"x\", \"0a1b\"")]);
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(known.headers()[header::ETAG], "\"0a1b\"");
        let other = ask(&PAGE, &[(header::IF_NONE_MATCH, "\"x\"")]);
        assert_eq!(other.status(), StatusCode::OK);
    }
}
