//! Signatures of requests: version 4 of AWS's, as S3 has it
//! (<https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html>).

use std::fmt::Write as _;

use ring::hmac;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::credentials::ObjectCredentials;

/// What is signed of a request.
#[derive(Debug)]
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    /// Encoded.
    pub(super) path: &'a str,
    /// Encoded, sorted by name.
    pub(super) query: &'a str,
    /// The hash of the body, as text.
    pub(super) body: &'a str,
    pub(super) region: &'a str,
}

/// The headers of a signed request besides `Host`.
pub(super) fn headers(
    request: &Signed<'_>,
    credentials: &ObjectCredentials,
    at: OffsetDateTime,
) -> Vec<(&'static str, String)> {
    let day = format!("{:04}{:02}{:02}", at.year(), u8::from(at.month()), at.day());
    let time = format!(
        "{day}T{:02}{:02}{:02}Z",
        at.hour(),
        at.minute(),
        at.second()
    );
    let mut headers = vec![
        ("host", request.host.to_owned()),
        ("x-amz-content-sha256", request.body.to_owned()),
        ("x-amz-date", time.clone()),
    ];
    if let Some(token) = &credentials.token {
        headers.push(("x-amz-security-token", token.clone()));
    }
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, request.query);
    for (name, value) in &headers {
        // Writing to a string can't fail.
        let _ = writeln!(canonical, "{name}:{value}");
    }
    let _ = write!(canonical, "\n{names}\n{}", request.body);
    let scope = format!("{day}/{}/s3/aws4_request", request.region);
    let canonical = hex(&Sha256::digest(canonical.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{canonical}");
    let mut key = hmac_sha256(format!("AWS4{}", credentials.secret).as_bytes(), &day);
    for part in [request.region, "s3", "aws4_request"] {
        key = hmac_sha256(key.as_ref(), part);
    }
    let signature = hex(hmac_sha256(key.as_ref(), &text).as_ref());
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
        credentials.id
    );
    // The client adds the host.
    headers.remove(0);
    headers.push(("authorization", authorization));
    headers
}

fn hmac_sha256(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A text with all but letters, digits and `-._~` as `%XX`; and but slashes, where they are kept.
pub(super) fn encode(text: &str, keeps_slashes: bool) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if is_plain || (keeps_slashes && byte == b'/') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of S3's documentation.
    #[test]
    fn a_request_is_signed_as_in_the_example() {
        let body = hex(&Sha256::digest(b""));
        let request = Signed {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            path: "/",
            query: "max-keys=2&prefix=J",
            body: &body,
            region: "us-east-1",
        };
        let key = ObjectCredentials::new(
            "AKIAIOSFODNN7EXAMPLE",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        );
        let at = OffsetDateTime::from_unix_timestamp(1_369_353_600).unwrap();
        let headers = headers(&request, &key, at);
        let find = |wanted| headers.iter().find(|(name, _)| *name == wanted);
        assert_eq!(find("x-amz-date").unwrap().1, "20130524T000000Z");
        assert_eq!(
            find("authorization").unwrap().1,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;x-amz-content-sha256;x-amz-date,\
             Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
        assert!(find("host").is_none());
    }

    #[test]
    fn names_are_encoded() {
        assert_eq!(encode("a/b c~é", true), "a/b%20c~%C3%A9");
        assert_eq!(encode("a/b+=", false), "a%2Fb%2B%3D");
    }
}
