//! The token that a request must have, if the server asks for one: as the password of HTTP's Basic
//! authentication, for browsers and pprof, or as a Bearer token.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

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
        let decoded = STANDARD.decode(given).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;

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
