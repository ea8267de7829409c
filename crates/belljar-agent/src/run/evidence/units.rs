//! Units beside a number.

/// A unit by all its names, and what it measures.
const UNITS: [(&str, &[&str]); 35] = [
    ("money", &["$", "usd", "dollar", "美元"]),
    ("money", &["€", "eur", "euro", "欧元"]),
    ("money", &["£", "gbp", "英镑"]),
    ("money", &["¥", "cny", "rmb", "yuan", "元", "人民币"]),
    ("money", &["jpy", "yen", "日元"]),
    ("money", &["cent", "pence"]),
    ("length", &["km", "kilometre", "kilometer", "公里", "千米"]),
    ("length", &["mile", "mi", "英里"]),
    ("length", &["metre", "meter", "米"]),
    ("length", &["cm", "centimetre", "centimeter", "厘米"]),
    ("length", &["mm", "millimetre", "millimeter", "毫米"]),
    ("length", &["foot", "feet", "ft", "inch", "inche", "英尺"]),
    ("mass", &["kg", "kilogram", "kilo", "公斤", "千克"]),
    ("mass", &["g", "gram", "克"]),
    ("mass", &["tonne", "ton", "吨"]),
    ("mass", &["lb", "pound", "磅"]),
    ("time", &["second", "sec", "秒"]),
    ("time", &["ms", "millisecond", "毫秒"]),
    ("time", &["minute", "min", "分钟"]),
    ("time", &["hour", "hr", "小时"]),
    ("time", &["day", "天"]),
    ("time", &["week", "周"]),
    ("time", &["month", "个月"]),
    ("time", &["year", "年"]),
    ("heat", &["°c", "celsiu", "celsius", "c", "摄氏度", "℃"]),
    ("heat", &["°f", "fahrenheit", "f", "华氏度", "℉"]),
    ("mass", &["mg", "milligram", "毫克"]),
    ("mass", &["µg", "ug", "microgram", "微克"]),
    ("energy", &["j", "joule", "焦"]),
    ("energy", &["kj", "kilojoule", "千焦"]),
    ("energy", &["wh"]),
    ("energy", &["kwh", "千瓦时", "度"]),
    ("size", &["kb", "kilobyte", "kib"]),
    ("size", &["mb", "megabyte", "mib"]),
    ("size", &["gb", "gigabyte", "gib"]),
];

/// A place in [`UNITS`].
pub(super) type Unit = usize;

/// The unit that a word names; letters alone only beside a number.
pub(super) fn unit(word: &str, beside: bool) -> Option<Unit> {
    let word = word.trim().to_lowercase();
    let word = word
        .strip_suffix('s')
        .filter(|rest| rest.len() > 2)
        .unwrap_or(&word);
    let known = UNITS.iter().position(|(_, names)| names.contains(&word));
    known.filter(|_| beside || word.len() > 1 || !word.bytes().all(|b| b.is_ascii_alphabetic()))
}

/// The unit right after a number, or right before it.
pub(super) fn beside(before: &str, after: &str) -> Option<Unit> {
    let sign = before.trim_end().chars().next_back();
    if let Some(found) = sign.and_then(|sign| unit(sign.encode_utf8(&mut [0; 4]), false)) {
        return Some(found);
    }
    let space = [' ', '\u{a0}', '-', '*', '(', '[', '"', '\''];
    let mut after = after.trim_start_matches(space);
    for scale in ["thousand", "million", "billion", "万", "亿"] {
        after = after
            .strip_prefix(scale)
            .unwrap_or(after)
            .trim_start_matches(space);
    }
    // Chinese has no spaces: the longest name that the text begins with.
    let chinese = UNITS
        .iter()
        .enumerate()
        .flat_map(|(at, (_, names))| names.iter().map(move |name| (at, name)));
    let chinese = chinese.filter(|(_, name)| !name.is_ascii() && after.starts_with(**name));
    if let Some((found, _)) = chinese.max_by_key(|(_, name)| name.len()) {
        return Some(found);
    }
    let word: String = after
        .chars()
        .take_while(|c| c.is_alphabetic() || matches!(c, '°' | '$' | '€' | '£' | '¥'))
        .collect();
    unit(&word, true).or_else(|| {
        let code = before
            .trim_end()
            .rsplit(|c: char| !c.is_alphabetic())
            .next()?;
        unit(code, false).filter(|_| code.len() == 3)
    })
}

/// The unit of a name such as `weight_g` or `distance (km)`.
pub(super) fn of_name(name: &str) -> Option<Unit> {
    let mut words = name.split(|c: char| !(c.is_alphabetic() || "°$€£¥".contains(c)));
    let many = name.contains(['_', '(', '[', ' ']);
    words
        .rfind(|word| !word.is_empty())
        .and_then(|word| unit(word, many))
}

/// Whether two units measure the same, and are not the same.
pub(super) fn differ(one: Unit, other: Unit) -> bool {
    one != other && UNITS[one].0 == UNITS[other].0
}

/// Whether two units measure the same.
pub(super) fn is_same_kind(one: Unit, other: Unit) -> bool {
    UNITS[one].0 == UNITS[other].0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_beside_numbers_and_in_names() {
        let euro = unit("EUR", false).unwrap();
        assert_eq!(beside("costs €", " in all"), Some(euro));
        assert_eq!(beside("costs ", " euros"), Some(euro));
        assert_eq!(beside("EUR ", ","), Some(euro));
        assert_eq!(beside("", " g"), of_name("weight_g"));
        assert_eq!(beside("", "公里"), of_name("distance_km"));
        assert!(differ(euro, unit("$", false).unwrap()));
        assert_eq!(of_name("g"), None);
        assert_eq!(beside("it is ", " of them"), None);
    }
}
