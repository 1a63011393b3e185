//! A request: its head as bytes, the checks of its origin, and its path and query.

use std::net::IpAddr;

use super::server::Access;

/// The most bytes of a request's head.
pub(super) const MOST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;

/// A request that may be answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) path: String,
    query: String,
    /// The answer has no body.
    pub(super) is_head: bool,
}

/// Why a request is not answered: a status and a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) u16, pub(super) &'static str);

impl Request {
    /// Reads the head of a request. Returns `None` if `bytes` is only the beginning of one. `access`
    /// says which requests the server answers.
    pub(super) fn parse(bytes: &[u8], access: &Access) -> Result<Option<Request>, Refusal> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        match head.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) if bytes.len() < MOST_BYTES => return Ok(None),
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Err(Refusal(431, "the head of the request is too large"));
            }
            Err(_) => return Err(Refusal(400, "this is no request of HTTP/1")),
        }
        check_origin(head.headers, &access.hosts)?;
        check_token(head.headers, access)?;
        Request::of(head.method.unwrap_or_default(), head.path.unwrap_or("/")).map(Some)
    }

    /// Returns the request for `target`, a path and a query.
    pub(super) fn of(method: &str, target: &str) -> Result<Request, Refusal> {
        let is_head = match method {
            "GET" => false,
            "HEAD" => true,
            _ => return Err(Refusal(405, "only GET and HEAD are served")),
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Ok(Request { path: path.into(), query: query.into(), is_head })
    }

    /// Returns the value of a parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }
}

/// Checks that no page of another site makes the request.
fn check_origin(headers: &[httparse::Header<'_>], hosts: &[String]) -> Result<(), Refusal> {
    let values = |name: &str| {
        let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| std::str::from_utf8(header.value).unwrap_or("?").trim()).collect::<Vec<_>>()
    };
    let &[host] = values("Host").as_slice() else {
        return Err(Refusal(400, "a request must have one header Host"));
    };
    if !is_ours(host, hosts) {
        return Err(Refusal(
            403,
            "the header Host names another host: ask by `localhost` or an IP address of this machine, or see Builder::allow_host",
        ));
    }
    let is_foreign = |origin: &&str| origin.strip_prefix("http://") != Some(host);
    let crosses = |site: &&str| !matches!(*site, "same-origin" | "none");
    if values("Origin").iter().any(is_foreign) || values("Sec-Fetch-Site").iter().any(crosses) {
        return Err(Refusal(403, "a page of another site has made this request"));
    }
    Ok(())
}

/// Checks that the request has the token, if one is asked for. One header, so that no other is overlooked.
fn check_token(headers: &[httparse::Header<'_>], access: &Access) -> Result<(), Refusal> {
    let Some(token) = &access.token else { return Ok(()) };
    let mut given = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("Authorization"));
    let header = given.next().and_then(|header| std::str::from_utf8(header.value).ok());
    match header.filter(|_| given.next().is_none()).is_some_and(|header| token.is_in(header)) {
        true => Ok(()),
        false => Err(Refusal(401, "the token is missing or wrong: it is the password, or a Bearer token")),
    }
}

/// Returns `true` if a page of another site cannot have such a `host`. A foreign name could lead to this
/// machine (DNS rebinding). So do the unspecified addresses in some browsers, which do not protect them as
/// addresses of the machine's own.
fn is_ours(host: &str, hosts: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| !address.to_canonical().is_unspecified())
        || hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(head: &str) -> Result<Option<Request>, u16> {
        Request::parse(head.as_bytes(), &Access { hosts: vec!["app.test".into()], token: None })
            .map_err(|refusal| refusal.0)
    }

    #[test]
    fn a_request_of_this_host_is_served() {
        for host in
            ["localhost", "LOCALHOST:6060", "127.0.0.1:6060", "[::1]:6060", "192.168.0.7", "app.test:80"]
        {
            let request = parsed(&format!("GET /dump?format=json&x=1 HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            let request = request.unwrap().unwrap();
            assert_eq!(
                (request.path.as_str(), request.parameter("format")),
                ("/dump", Some("json")),
                "{host}"
            );
        }
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        for host in [
            "evil.example",
            "localhost.evil.example:6060",
            "127.0.0.1.evil.example",
            "",
            "localhost:",
            "0.0.0.0:6060",
            "[::]:6060",
            "[::ffff:0.0.0.0]",
        ] {
            assert_eq!(parsed(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")), Err(403), "{host}");
        }
        let with = |header: &str| parsed(&format!("GET / HTTP/1.1\r\nHost: localhost:1\r\n{header}\r\n\r\n"));
        for header in [
            "Origin: http://evil.example",
            "Origin: null",
            "Origin: https://localhost:1",
            "Origin: http://localhost:2",
            "Sec-Fetch-Site: cross-site",
            "sec-fetch-site: same-site",
        ] {
            assert_eq!(with(header), Err(403), "{header}");
        }
        for header in ["Origin: http://localhost:1", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"] {
            assert!(with(header).is_ok(), "{header}");
        }
        assert_eq!(with("Host: localhost:1"), Err(400), "two hosts");
        assert_eq!(parsed("GET / HTTP/1.1\r\n\r\n"), Err(400), "no host");
    }

    #[test]
    fn requests_are_bounded() {
        assert_eq!(parsed("GET / HTTP/1.1\r\nHost: loc"), Ok(None));
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(MOST_BYTES));
        assert_eq!(parsed(&long), Err(431));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MOST_HEADERS + 1));
        assert_eq!(parsed(&many), Err(431));
        assert_eq!(parsed("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Err(405));
        assert_eq!(parsed("\u{1}\u{2}\r\n\r\n"), Err(400));
    }
}
