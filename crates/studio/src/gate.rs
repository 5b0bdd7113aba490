//! Who is let in: whoever shows the token, at an address of this machine, and from no other site.
//!
//! The token keeps other users of the machine out. It does not keep out a page that the same browser shows, since cookies go along
//! with every request: such a page either has another origin, which `Origin` and `Sec-Fetch-Site` say, or it had its own name point
//! here (DNS rebinding), which `Host` says.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::{Method, StatusCode, Uri};

use crate::http::{Params, Refusal};

/// Bytes that a token is made of.
const TOKEN_BYTES: usize = 16;

/// The secret of one studio.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// A new one; nothing where the system gives no random bytes.
    pub(crate) fn random() -> Option<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Whether somebody shows it, in a time that does not tell how much of it was right.
    fn is(&self, shown: &str) -> bool {
        let differ = self.0.bytes().zip(shown.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
        self.0.len() == shown.len() && differ == 0
    }
}

/// What a request is let in with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// The cookie, or the header of a program.
    Known,
    /// The token in the address: it gets the cookie.
    FirstVisit,
}

/// The rules of one studio.
pub(crate) struct Gate {
    token: Token,
    /// Cookies of a machine are shared by all of its ports.
    cookie: String,
    /// Whether other machines can reach it.
    is_exposed: bool,
}

impl Gate {
    pub(crate) fn new(token: Token, port: u16, is_exposed: bool) -> Self {
        Self { token, cookie: format!("plaudit_studio_{port}"), is_exposed }
    }

    /// What the browser keeps.
    pub(crate) fn cookie(&self) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.token.text())
    }

    /// Whether a request is let in.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Pass, Refusal> {
        let host = header(headers, HOST.as_str())?.ok_or_else(|| Refusal::bad("it names no host"))?;
        if !self.is_own_name(host) {
            let status = StatusCode::MISDIRECTED_REQUEST;
            return Err(Refusal { status, why: "this address has another name".into() });
        }
        let bearer = header(headers, AUTHORIZATION.as_str())?.and_then(|text| text.strip_prefix("Bearer "));
        let is_program = bearer.is_some_and(|shown| self.token.is(shown));
        refuse_other_sites(method, host, headers, is_program)?;
        if is_program || self.has_cookie(headers) {
            return Ok(Pass::Known);
        }
        let shown = Params::parse(uri.query().unwrap_or(""));
        match shown.get("token").is_some_and(|shown| self.token.is(shown)) && method == Method::GET {
            true => Ok(Pass::FirstVisit),
            false => {
                let status = StatusCode::UNAUTHORIZED;
                Err(Refusal { status, why: "open the address that was printed: it holds the token".into() })
            }
        }
    }

    /// Whether a name cannot be another site's: only numbers and `localhost` cannot be pointed elsewhere.
    fn is_own_name(&self, host: &str) -> bool {
        let name = without_port(host);
        if name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let number = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        number.parse::<IpAddr>().is_ok_and(|number| self.is_exposed || number.is_loopback())
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && self.token.is(value))
    }
}

/// The host of `name:port` and of `[::1]:port`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Refusal::bad(format!("`{name}` is there twice")));
    }
    let text =
        |value: &'a HeaderValue| value.to_str().map_err(|_| Refusal::bad(format!("`{name}` is no text")));
    first.map(text).transpose()
}

/// Refuses what a page of another site causes. Browsers say where a request is from whenever it changes something.
fn refuse_other_sites(
    method: &Method,
    host: &str,
    headers: &HeaderMap,
    is_program: bool,
) -> Result<(), Refusal> {
    let foreign = || Err(Refusal::forbidden("another site asks for this"));
    if let Some(origin) = header(headers, ORIGIN.as_str())?
        && origin.strip_prefix("http://") != Some(host)
    {
        return foreign();
    }
    let site = header(headers, "sec-fetch-site")?;
    let is_navigation = header(headers, "sec-fetch-mode")? == Some("navigate") && method == Method::GET;
    match site {
        None | Some("same-origin" | "none") => {}
        Some(_) if is_navigation => {}
        Some(_) => return foreign(),
    }
    let says_origin = headers.contains_key(ORIGIN) || is_program;
    if method == Method::POST && !says_origin {
        return Err(Refusal::forbidden("it does not say which site asks for this"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        is_exposed: bool,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Pass, u16> {
        let gate = Gate::new(Token("0123456789abcdef".into()), 8123, is_exposed);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        gate.check(&method, &path.parse().unwrap(), &map).map_err(|refusal| refusal.status.as_u16())
    }

    const HOME: (&str, &str) = ("host", "127.0.0.1:8123");
    const COOKIE: (&str, &str) = ("cookie", "a=b; plaudit_studio_8123=0123456789abcdef");

    #[test]
    fn only_who_shows_the_token_is_let_in() {
        let get = |path: &str, headers: &[(&'static str, &str)]| check(false, Method::GET, path, headers);
        assert_eq!(get("/data", &[HOME]), Err(401));
        assert_eq!(get("/data", &[HOME, COOKIE]), Ok(Pass::Known));
        assert_eq!(get("/data?token=0123456789abcdef", &[HOME]), Ok(Pass::FirstVisit));
        for wrong in ["0123456789abcdee", "0123456789abcde", "0123456789abcdeff", ""] {
            assert_eq!(get(&format!("/data?token={wrong}"), &[HOME]), Err(401), "{wrong}");
            let cookie = format!("plaudit_studio_8123={wrong}");
            assert_eq!(get("/data", &[HOME, ("cookie", &cookie)]), Err(401), "{wrong}");
        }
        assert_eq!(
            get("/", &[HOME, ("cookie", "plaudit_studio_9=0123456789abcdef")]),
            Err(401),
            "another port's"
        );
        let program = ("authorization", "Bearer 0123456789abcdef");
        assert_eq!(get("/", &[HOME, program]), Ok(Pass::Known));
        assert_eq!(check(false, Method::POST, "/label", &[HOME, program]), Ok(Pass::Known));
        let posted = check(
            false,
            Method::POST,
            "/label?token=0123456789abcdef",
            &[HOME, ("origin", "http://127.0.0.1:8123")],
        );
        assert_eq!(posted, Err(401), "a token in an address changes nothing");
    }

    #[test]
    fn a_name_that_points_here_is_refused() {
        for (host, on_loopback, exposed) in [
            ("localhost:8123", true, true),
            ("LOCALHOST", true, true),
            ("127.0.0.1", true, true),
            ("[::1]:8123", true, true),
            ("192.168.1.7:8123", false, true),
            ("[fe80::1]:8123", false, true),
            ("evil.example:8123", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("localhost.evil.example:8123", false, false),
            ("127.0.0.1:8123@evil.example", false, false),
            ("", false, false),
        ] {
            for (is_exposed, expected) in [(false, on_loopback), (true, exposed)] {
                let found = check(is_exposed, Method::GET, "/", &[("host", host), COOKIE]).is_ok();
                assert_eq!(found, expected, "{host}, exposed {is_exposed}");
            }
        }
        assert_eq!(check(false, Method::GET, "/", &[COOKIE]), Err(400), "no host");
        assert_eq!(
            check(false, Method::GET, "/", &[HOME, ("host", "evil.example"), COOKIE]),
            Err(400),
            "two hosts"
        );
    }

    #[test]
    fn what_another_site_causes_is_refused() {
        let ask = |method: Method, headers: &[(&'static str, &str)]| {
            check(false, method, "/label", &[&[HOME, COOKIE], headers].concat())
        };
        let own = ("origin", "http://127.0.0.1:8123");
        assert_eq!(ask(Method::POST, &[own]), Ok(Pass::Known));
        assert_eq!(ask(Method::POST, &[]), Err(403), "browsers say it");
        for origin in [
            "http://evil.example",
            "https://127.0.0.1:8123",
            "http://127.0.0.1:9",
            "null",
            "http://localhost:8123",
        ] {
            assert_eq!(ask(Method::POST, &[("origin", origin)]), Err(403), "{origin}");
            assert_eq!(ask(Method::GET, &[("origin", origin)]), Err(403), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(ask(Method::GET, &[("sec-fetch-site", site)]), Err(403), "{site}");
            assert_eq!(ask(Method::POST, &[own, ("sec-fetch-site", site)]), Err(403), "{site}");
            let link = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate")];
            assert_eq!(ask(Method::GET, &link), Ok(Pass::Known), "a link to a page");
        }
        assert_eq!(ask(Method::GET, &[("sec-fetch-site", "same-origin")]), Ok(Pass::Known));
    }

    #[test]
    fn tokens_are_long_and_new() {
        let [one, other] = [(); 2].map(|()| Token::random().unwrap());
        assert!(one.text().len() == 2 * TOKEN_BYTES && one.text() != other.text());
    }
}
