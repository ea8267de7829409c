//! Positions in code: clients count characters, sessions bytes.

/// The byte where this character begins; the end if there are fewer.
pub(crate) fn byte_at(code: &str, character: usize) -> usize {
    let mut places = code.char_indices().map(|(byte, _)| byte);
    places.nth(character).unwrap_or(code.len())
}

/// How many characters begin before this byte.
pub(crate) fn character_at(code: &str, byte: usize) -> usize {
    code.char_indices().take_while(|(at, _)| *at < byte).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn characters_are_not_bytes() {
        let code = "数据 = 1; 数";
        assert_eq!(byte_at(code, 0), 0);
        assert_eq!(byte_at(code, 2), 6);
        assert_eq!(byte_at(code, 9), code.len());
        assert_eq!(byte_at(code, 900), code.len());
        assert_eq!(character_at(code, 6), 2);
        assert_eq!(character_at(code, code.len()), 9);
    }

    proptest! {
        #[test]
        fn there_and_back(code in "\\PC*", character in 0..100_usize) {
            let byte = byte_at(&code, character);
            prop_assert!(code.is_char_boundary(byte));
            prop_assert_eq!(character_at(&code, byte), character.min(code.chars().count()));
        }
    }
}
