//! The token that a request must have, if the server asks for one: as the password of HTTP's Basic
//! authentication, for browsers and pprof, or as a Bearer token.

use std::fmt;

/// A secret that each request must have. It is not shown by `Debug`.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Makes a token of a text; `None` if that is empty.
    pub fn new(text: String) -> Option<Token> {
        (!text.is_empty()).then_some(Token(text))
    }

    /// Returns `true` if `header`, the value of the header `Authorization`, has this token.
    pub(super) fn is_in(&self, header: &str) -> bool {
        let Some((scheme, given)) = header.split_once(' ') else { return false };
        let given = given.trim();
        if scheme.eq_ignore_ascii_case("Bearer") {
            return self.equals(given.as_bytes());
        }
        if !scheme.eq_ignore_ascii_case("Basic") {
            return false;
        }
        // Any name of a user, a colon, and the password.
        let decoded = from_base64(given.as_bytes()).unwrap_or_default();
        let colon = decoded.iter().position(|&byte| byte == b':');
        colon.is_some_and(|at| self.equals(&decoded[at + 1..]))
    }

    /// Compares in a time that depends on the lengths alone.
    fn equals(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differ = own.iter().zip(given).fold(0, |differ, (a, b)| differ | (a ^ b));
        own.len() == given.len() && std::hint::black_box(differ) == 0
    }
}

/// Returns the bytes of a text in base64; `None` if it is none.
fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for &byte in &text[..text.len() - padding] {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        // Of the bits before, at most six are still to be written.
        (bits, count) = ((bits << 6 | u32::from(six)) & 0xFFF, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_it_is_written() {
        // The examples of RFC 4648.
        let examples = [
            ("", ""),
            ("Zg==", "f"),
            ("YWI=", "ab"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmFy", "foobar"),
        ];
        for (text, bytes) in examples {
            assert_eq!(from_base64(text.as_bytes()).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!((from_base64(b"+/+/"), from_base64(b"Zg\n=")), (Some(vec![0xFB, 0xFF, 0xBF]), None));
    }

    #[test]
    fn only_the_token_itself_is_accepted() {
        let token = Token::new("foo:bar".into()).unwrap();
        // "x:foo:bar" and ":foo:bar".
        for header in ["Bearer foo:bar", "bearer  foo:bar ", "Basic eDpmb286YmFy", "basic OmZvbzpiYXI="] {
            assert!(token.is_in(header), "{header}");
        }
        // "foo:bar", of which the password is "bar", and "x:foo:baz".
        for header in [
            "",
            "foo:bar",
            "Bearer",
            "Bearer foo:ba",
            "Bearer foo:bar2",
            "Digest foo:bar",
            "Basic Zm9vOmJhcg==",
            "Basic eDpmb286YmF6",
            "Basic !",
        ] {
            assert!(!token.is_in(header), "{header}");
        }
        assert!(Token::new(String::new()).is_none());
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
