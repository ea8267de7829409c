//! The address of an object store.

use reqwest::Url;

use crate::Error;

const DEFAULT_REGION: &str = "us-east-1";
const MAX_PREFIX: usize = 256;

/// `s3://BUCKET/PREFIX?endpoint=URL&region=REGION`, taken apart. It holds no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Scheme, host and port, without a slash at the end.
    pub(super) endpoint: String,
    /// As the header `Host` has it.
    pub(super) host: String,
    pub(super) bucket: String,
    /// Empty, or with a slash at the end.
    pub(super) prefix: String,
    pub(super) region: String,
    /// Whether only this machine is asked.
    pub(super) is_loopback: bool,
}

impl Address {
    /// An error never repeats the text: a wrong address may hold a credential.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|why| Error::InvalidObjects(why.to_owned()))
    }

    /// Whether what is sent can be read on the way.
    pub(super) fn is_plain(&self) -> bool {
        self.endpoint.starts_with("http:") && !self.is_loopback
    }
}

fn parse(text: &str) -> Result<Address, &'static str> {
    let rest = text
        .strip_prefix("s3://")
        .ok_or("it must begin with `s3://`")?;
    if rest.contains('#') {
        return Err("it must not have a fragment");
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if path.contains('@') {
        return Err("credentials do not belong into it, but into the environment or a file");
    }
    let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
    if !is_bucket(bucket) {
        return Err(
            "a bucket has 3 to 63 lower-case letters, digits, dots and hyphens, and begins and ends with a letter or digit",
        );
    }
    let (mut endpoint, mut region) = (None, None);
    let pairs = Url::parse(&format!("s3://x/?{query}")).map_err(|_| "its options are not valid")?;
    for (name, value) in pairs.query_pairs() {
        let option = match &*name {
            "endpoint" => &mut endpoint,
            "region" => &mut region,
            _ => return Err("its options are `endpoint` and `region`"),
        };
        if option.replace(value.into_owned()).is_some() {
            return Err("it has an option twice");
        }
    }
    let region = region.unwrap_or_else(|| DEFAULT_REGION.to_owned());
    let of_region = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=32).contains(&region.len()) || !region.bytes().all(of_region) {
        return Err("a region has lower-case letters, digits and hyphens");
    }
    let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    let endpoint = Url::parse(&endpoint).map_err(|_| "its endpoint is not a URL")?;
    let host = match (endpoint.scheme(), endpoint.host_str(), endpoint.port()) {
        ("http" | "https", Some(host), Some(port)) => format!("{host}:{port}"),
        ("http" | "https", Some(host), None) => host.to_owned(),
        _ => return Err("its endpoint must begin with `https://` or `http://`"),
    };
    let has_more = endpoint.path() != "/"
        || endpoint.query().is_some()
        || endpoint.fragment().is_some()
        || !endpoint.username().is_empty()
        || endpoint.password().is_some();
    if has_more {
        return Err("its endpoint must be a scheme, a host and a port, and nothing else");
    }
    let name = endpoint.host_str().unwrap_or_default();
    let ip = name.trim_start_matches('[').trim_end_matches(']');
    let is_local = |ip: std::net::IpAddr| ip.is_loopback();
    Ok(Address {
        is_loopback: name == "localhost" || ip.parse().is_ok_and(is_local),
        endpoint: format!("{}://{host}", endpoint.scheme()),
        host,
        bucket: bucket.to_owned(),
        prefix: prefix_of(prefix)?,
        region,
    })
}

fn is_bucket(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (3..=63).contains(&name.len())
        && bytes
            .iter()
            .all(|byte| is_plain(*byte) || b".-".contains(byte))
        && bytes.first().is_some_and(|byte| is_plain(*byte))
        && bytes.last().is_some_and(|byte| is_plain(*byte))
}

fn prefix_of(text: &str) -> Result<String, &'static str> {
    let text = text.strip_suffix('/').unwrap_or(text);
    if text.is_empty() {
        return Ok(String::new());
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(allowed);
    if text.len() > MAX_PREFIX || !text.split('/').all(is_part) {
        return Err(
            "a prefix has at most 256 letters, digits, dots, hyphens, underscores and single slashes",
        );
    }
    Ok(format!("{text}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_bucket_and_may_have_more() {
        let short = parse("s3://jar").unwrap();
        assert_eq!(short.endpoint, "https://s3.us-east-1.amazonaws.com");
        assert_eq!((short.bucket.as_str(), short.prefix.as_str()), ("jar", ""));
        assert!(!short.is_plain());
        let long = "s3://my.jar-1/a/b_c/?endpoint=http%3A%2F%2F10.0.0.1%3A9000&region=eu-west-1";
        let long = parse(long).unwrap();
        assert_eq!(long.endpoint, "http://10.0.0.1:9000");
        assert_eq!(long.host, "10.0.0.1:9000");
        assert_eq!(
            (long.prefix.as_str(), long.region.as_str()),
            ("a/b_c/", "eu-west-1")
        );
        assert!(long.is_plain());
        // Without escapes, as people write it.
        let local = parse("s3://jar?endpoint=http://127.0.0.1:9000").unwrap();
        assert_eq!(local.endpoint, "http://127.0.0.1:9000");
        assert!(local.is_loopback && !local.is_plain());
        assert!(
            parse("s3://jar?endpoint=http://[::1]:9000")
                .unwrap()
                .is_loopback
        );
        assert!(
            !parse("s3://jar?endpoint=http://127.0.0.1.nip.io")
                .unwrap()
                .is_loopback
        );
    }

    #[test]
    fn each_wrong_form_has_its_reason() {
        for (text, why) in [
            ("", "begin with"),
            ("http://jar", "begin with"),
            ("S3://jar", "begin with"),
            ("s3://", "a bucket has"),
            ("s3://ab", "a bucket has"),
            ("s3://Jar", "a bucket has"),
            ("s3://-jar", "a bucket has"),
            ("s3://jar:9000/a", "a bucket has"),
            ("s3://key:secret@jar", "credentials"),
            ("s3://jar/a#b", "fragment"),
            ("s3://jar/a//b", "a prefix has"),
            ("s3://jar/../b", "a prefix has"),
            ("s3://jar/a%20b", "a prefix has"),
            ("s3://jar/é", "a prefix has"),
            ("s3://jar?secret=x", "options are"),
            ("s3://jar?region=a&region=b", "twice"),
            ("s3://jar?region=", "a region has"),
            ("s3://jar?region=a/b", "a region has"),
            ("s3://jar?endpoint=10.0.0.1", "not a URL"),
            ("s3://jar?endpoint=ftp://host", "must begin"),
            ("s3://jar?endpoint=https://host/path", "nothing else"),
            ("s3://jar?endpoint=https://key:secret@host", "nothing else"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
