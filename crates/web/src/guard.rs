// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may ask, and what a browser may do with the answers.
//!
//! - Every address begins with a token that only the person who started the server knows.
//! - The `Host` must be this server's own address or `localhost`: a foreign name that was made to mean this machine (DNS rebinding) is refused.
//! - A page of another site may only lead a person to the viewer's first page. Anything else is refused: browsers say in `Origin` and
//!   `Sec-Fetch-Site` who asks.
//! - The pages run no script and load nothing but the viewer's own files, also if a trace has markup in its names.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DESTINATION: HeaderName = HeaderName::from_static("sec-fetch-dest");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

const HTTP_PORT: u16 = 80;
const FOREIGN: &str = "requests from other sites are not allowed";

/// Knows what belongs to this server.
#[derive(Debug)]
pub(crate) struct Guard {
    token: String,
    address: SocketAddr,
}

impl Guard {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Arc<Guard> {
        Arc::new(Guard {
            token: token.to_owned(),
            address,
        })
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Whether a browser that says so means this server: by an address, which nobody can give another meaning.
    fn is_own(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(HTTP_PORT)),
        };
        let ip = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let own = self.address.ip();
        let is_name_own =
            name == "localhost" || ip.is_ok_and(|ip| ip.is_loopback() || ip == own || own.is_unspecified());
        port == Some(self.address.port()) && is_name_own
    }

    /// Why a request is refused.
    fn refusal(&self, path: &str, headers: &HeaderMap) -> Option<&'static str> {
        let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        if !text(&HOST).is_some_and(|host| self.is_own(host)) {
            return Some("the Host header does not name this server");
        }
        let origin = text(&ORIGIN);
        if origin.is_some_and(|origin| !origin.strip_prefix("http://").is_some_and(|host| self.is_own(host))) {
            return Some(FOREIGN);
        }
        // `none`: a person has typed or chosen the address.
        let is_foreign = text(&FETCH_SITE).is_some_and(|site| !["same-origin", "none"].contains(&site));
        // A link that a person follows.
        let is_link = text(&FETCH_MODE) == Some("navigate") && text(&FETCH_DESTINATION) == Some("document");
        let is_first_page = path.strip_prefix('/').and_then(|path| path.strip_suffix('/')) == Some(&*self.token);
        (is_foreign && !(is_link && is_first_page)).then_some(FOREIGN)
    }
}

/// Around all answers.
pub(crate) async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.refusal(request.uri().path(), request.headers()) {
        Some(why) => (StatusCode::FORBIDDEN, why).into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The viewer can hand a trace to a window that it has opened itself, Perfetto's; whoever opens the viewer gets no hold of it.
        (OPENER_POLICY, "same-origin-allow-popups"),
        (RESOURCE_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal_at(address: &str, path: &str, pairs: &[(HeaderName, &'static str)]) -> Option<&'static str> {
        let guard = Guard::new(address.parse().expect("an address"), "t");
        let headers = pairs
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        guard.refusal(path, &headers.collect())
    }

    fn refusal(pairs: &[(HeaderName, &'static str)]) -> Option<&'static str> {
        refusal_at("127.0.0.1:4000", "/t/api/recordings", pairs)
    }

    #[test]
    fn own_pages_may_ask() {
        assert_eq!(refusal(&[(HOST, "127.0.0.1:4000")]), None);
        assert_eq!(refusal(&[(HOST, "[::1]:4000")]), None);
        assert_eq!(refusal(&[(HOST, "localhost:4000"), (FETCH_SITE, "none")]), None);
        let own = [
            (HOST, "localhost:4000"),
            (ORIGIN, "http://localhost:4000"),
            (FETCH_SITE, "same-origin"),
        ];
        assert_eq!(refusal(&own), None);
        assert_eq!(refusal_at("127.0.0.1:80", "/t/", &[(HOST, "127.0.0.1")]), None);
    }

    #[test]
    fn others_may_not() {
        assert!(refusal(&[]).is_some());
        // DNS rebinding: a name of somebody else's that means this machine.
        assert!(refusal(&[(HOST, "evil.example:4000")]).is_some());
        assert!(refusal(&[(HOST, "127.0.0.1:4001")]).is_some());
        assert!(refusal(&[(HOST, "127.0.0.1")]).is_some());
        assert!(refusal(&[(HOST, "10.0.0.1:4000")]).is_some());
        for origin in [
            "http://evil.example",
            "null",
            "https://localhost:4000",
            "http://localhost:4001",
        ] {
            assert!(
                refusal(&[(HOST, "localhost:4000"), (ORIGIN, origin)]).is_some(),
                "{origin}"
            );
        }
        for site in ["cross-site", "same-site", "?"] {
            assert!(
                refusal(&[(HOST, "localhost:4000"), (FETCH_SITE, site)]).is_some(),
                "{site}"
            );
        }
    }

    #[test]
    fn a_link_leads_to_the_first_page_only() {
        let link = |destination: &'static str| {
            [
                (HOST, "localhost:4000"),
                (FETCH_SITE, "cross-site"),
                (FETCH_MODE, "navigate"),
                (FETCH_DESTINATION, destination),
            ]
        };
        assert_eq!(refusal_at("127.0.0.1:4000", "/t/", &link("document")), None);
        assert!(refusal_at("127.0.0.1:4000", "/t/", &link("iframe")).is_some());
        assert!(refusal(&link("document")).is_some());
    }

    #[test]
    fn a_server_for_other_machines_has_all_addresses_but_no_names() {
        let refusal = |host| refusal_at("0.0.0.0:4000", "/t/", &[(HOST, host)]);
        assert_eq!(refusal("192.168.1.5:4000"), None);
        assert!(refusal("evil.example:4000").is_some());
    }
}
