//! The few elements of the store's answers that matter. What else is in them is not read.

use time::{Date, OffsetDateTime, PrimitiveDateTime, Time};

/// The text of the first element of this name, from some place on; and where it ends.
fn element<'a>(text: &'a str, name: &str, from: usize) -> Option<(&'a str, usize)> {
    let rest = text.get(from..)?;
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let begin = rest.find(&open)? + open.len();
    let length = rest[begin..].find(&close)?;
    Some((&rest[begin..begin + length], from + begin + length))
}

/// The code of a refusal, without anything that the store may have added to it; empty if there is none.
pub(super) fn code(text: &str) -> String {
    let code = element(text, "Code", 0).map_or("", |(code, _)| code);
    let is_plain = code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain {
        code.to_owned()
    } else {
        String::new()
    }
}

/// The text of an element, unescaped.
pub(super) fn value(text: &str, name: &str) -> Option<String> {
    element(text, name, 0).map(|(value, _)| unescape(value))
}

/// What is in all elements of this name.
pub(super) fn elements<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some((inner, end)) = element(text, name, from) {
        found.push(inner);
        from = end;
    }
    found
}

/// A time in a list, `2026-11-19T07:08:09.000Z`, to the second.
pub(super) fn time(text: &str) -> Option<OffsetDateTime> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-');
    let (year, month) = (date.next()?.parse().ok()?, date.next()?.parse::<u8>().ok()?);
    let date = Date::from_calendar_date(year, month.try_into().ok()?, date.next()?.parse().ok()?);
    let mut parts = time.split('.').next()?.splitn(3, ':');
    let mut part = || parts.next()?.parse().ok();
    let time = Time::from_hms(part()?, part()?, part()?);
    Some(PrimitiveDateTime::new(date.ok()?, time.ok()?).assume_utc())
}

pub(super) fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

fn unescape(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let text = text.replace("&quot;", "\"").replace("&#34;", "\"");
    let text = text.replace("&apos;", "'").replace("&#39;", "'");
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_and_codes_are_plain() {
        let text = "<L><K><N>a&amp;lt;b</N></K><Is>true</Is><K>c</K><K>d";
        assert_eq!(elements(text, "K"), ["<N>a&amp;lt;b</N>", "c"]);
        assert_eq!(value(text, "N").as_deref(), Some("a&lt;b"));
        assert_eq!(value(text, "Is").as_deref(), Some("true"));
        assert_eq!(value(text, "None"), None);
        assert_eq!(unescape(&escape("<\"a&b>")), "<\"a&b>");
        assert_eq!(code("<Error><Code>SlowDown</Code></Error>"), "SlowDown");
        assert_eq!(code("<Error><Code>a key: xyz</Code></Error>"), "");
        assert_eq!(code("no XML"), "");
    }

    #[test]
    fn times_are_read_to_the_second() {
        let seconds = |text| time(text).map(OffsetDateTime::unix_timestamp);
        assert_eq!(seconds("1970-01-02T00:00:01Z"), Some(86_401));
        assert_eq!(seconds("2026-11-19T07:08:09.123Z"), Some(1_795_072_089));
        for wrong in [
            "",
            "2026-11-19",
            "2026-13-19T07:08:09Z",
            "2026-11-19T07:08Z",
            "x",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
