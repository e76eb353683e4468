//! Decides who may have a page: whoever has the address that was printed at the start, from this machine, by this name.
//!
//! A page of another site can send requests to loopback, and can give its own name the address of this machine. So a request
//! needs a cookie that only the first address gives, a `Host` that the console is known by, and, if it changes something,
//! an `Origin` of the console.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method};
use uuid::Uuid;

/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(12 * 3_600);
/// How long a session lasts without a request.
const IDLE: Duration = Duration::from_secs(2 * 3_600);
/// The most sessions; the oldest ends when another begins.
const SESSIONS_MAX: usize = 64;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the request is for another host: expected an address that was printed at the start")]
    Host,
    #[error("the request comes from a page of another site")]
    Origin,
    #[error("there is no session, or it has ended: open the address that was printed at the start")]
    Session,
}

struct Session {
    began: Instant,
    used: Instant,
}

/// The sessions, and what they begin with.
pub(crate) struct Guard {
    /// The name of the cookie.
    cookie: String,
    /// Names and ports by which the console is known, as in `Host`.
    hosts: Vec<String>,
    token: Secret,
    sessions: Mutex<HashMap<[u8; 32], Session>>,
}

/// What nobody can guess: 244 random bits.
struct Secret(String);

impl Secret {
    fn new() -> Secret {
        let random = || Uuid::new_v4().simple();
        Secret(format!("{}{}", random(), random()))
    }

    fn hash(text: &str) -> blake3::Hash {
        blake3::hash(text.as_bytes())
    }

    /// Compares hashes, so that the time says nothing about the secret.
    fn is(&self, text: &str) -> bool {
        Secret::hash(&self.0) == Secret::hash(text)
    }
}

impl Guard {
    pub(crate) fn new(cookie: String, hosts: Vec<String>) -> Guard {
        Guard {
            cookie,
            hosts,
            token: Secret::new(),
            sessions: Mutex::default(),
        }
    }

    /// Returns what the first address has in its field `token`.
    pub(crate) fn token(&self) -> &str {
        &self.token.0
    }

    /// Begins a session, if the token is right. Returns the value of `Set-Cookie`.
    pub(crate) fn begin(&self, token: &str, now: Instant) -> Option<String> {
        if !self.token.is(token) {
            return None;
        }
        let id = Secret::new();
        let mut sessions = self.sessions.lock().expect("no panic");
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            let oldest = oldest.map(|(id, _)| *id);
            oldest.and_then(|id| sessions.remove(&id));
        }
        let session = Session {
            began: now,
            used: now,
        };
        sessions.insert(*Secret::hash(&id.0).as_bytes(), session);
        let secs = SESSION.as_secs();
        Some(format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={secs}",
            self.cookie, id.0
        ))
    }

    /// Ends the session of a request.
    pub(crate) fn end(&self, headers: &HeaderMap) {
        let mut sessions = self.sessions.lock().expect("no panic");
        for id in self.ids(headers) {
            sessions.remove(&id);
        }
    }

    /// Checks the host of a request, and where it comes from if it changes something.
    pub(crate) fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let host = host.filter(|host| self.hosts.iter().any(|known| known == host));
        let host = host
            .filter(|_| hosts.next().is_none())
            .ok_or(Refused::Host)?;
        if matches!(*method, Method::GET | Method::HEAD) {
            // The address that begins a session may be a link on any page; what it leads to is not asked for by another site.
            return Ok(());
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        let is_own = origins.next().is_some_and(|origin| {
            let origin = origin.to_str().unwrap_or_default();
            origin.strip_prefix("http://") == Some(host)
        });
        match is_own && origins.next().is_none() {
            true => Ok(()),
            false => Err(Refused::Origin),
        }
    }

    /// Checks that a request belongs to a session.
    pub(crate) fn check_session(&self, headers: &HeaderMap, now: Instant) -> Result<(), Refused> {
        let mut sessions = self.sessions.lock().expect("no panic");
        sessions.retain(|_, session| {
            now.duration_since(session.began) < SESSION && now.duration_since(session.used) < IDLE
        });
        let mut ids = self.ids(headers).into_iter();
        let id = ids.find(|id| sessions.contains_key(id));
        let session = id.and_then(|id| sessions.get_mut(&id));
        session.ok_or(Refused::Session)?.used = now;
        Ok(())
    }
}

impl Guard {
    /// Returns the hashes of the session ids in the cookies of a request.
    fn ids(&self, headers: &HeaderMap) -> Vec<[u8; 32]> {
        let cookies = headers.get_all(COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let cookies = cookies.flat_map(|value| value.split(';'));
        let values = cookies
            .filter_map(|cookie| cookie.trim().strip_prefix(&self.cookie)?.strip_prefix('='));
        values.map(|id| *Secret::hash(id).as_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard::new(
            "console".to_owned(),
            vec!["127.0.0.1:80".to_owned(), "localhost:80".to_owned()],
        )
    }

    fn headers(of: &[(axum::http::HeaderName, &str)]) -> HeaderMap {
        let pairs = of.iter().cloned();
        pairs
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn only_the_token_begins_a_session() {
        let guard = guard();
        let now = Instant::now();
        assert_eq!(guard.begin("", now), None);
        assert_eq!(guard.begin(&guard.token()[1..], now), None);
        let cookie = guard.begin(guard.token(), now).unwrap();
        assert!(
            cookie.contains("; HttpOnly; SameSite=Strict; Path=/"),
            "{cookie}"
        );
        let pair = cookie.split(';').next().unwrap();
        let with = headers(&[(COOKIE, &format!("a=b; {pair}"))]);
        assert_eq!(guard.check_session(&with, now), Ok(()));
        assert_eq!(
            guard.check_session(&HeaderMap::new(), now),
            Err(Refused::Session)
        );
        let token = headers(&[(COOKIE, &format!("console={}", guard.token()))]);
        assert_eq!(guard.check_session(&token, now), Err(Refused::Session));
        guard.end(&with);
        assert_eq!(guard.check_session(&with, now), Err(Refused::Session));
    }

    #[test]
    fn a_session_ends_by_itself() {
        let guard = guard();
        let start = Instant::now();
        let session = |at| {
            let cookie = guard.begin(guard.token(), at).unwrap();
            headers(&[(COOKIE, cookie.split(';').next().unwrap())])
        };
        let idle = session(start);
        assert_eq!(guard.check_session(&idle, start + IDLE / 2), Ok(()));
        assert_eq!(
            guard.check_session(&idle, start + IDLE),
            Ok(()),
            "it was used"
        );
        assert_eq!(
            guard.check_session(&idle, start + IDLE * 2),
            Err(Refused::Session)
        );
        let used = session(start);
        let mut at = start;
        while at + IDLE / 2 < start + SESSION {
            at += IDLE / 2;
            assert_eq!(guard.check_session(&used, at), Ok(()));
        }
        assert_eq!(
            guard.check_session(&used, start + SESSION),
            Err(Refused::Session)
        );
    }

    #[test]
    fn sessions_are_bounded() {
        let guard = guard();
        let now = Instant::now();
        for _ in 0..SESSIONS_MAX * 2 {
            guard.begin(guard.token(), now).unwrap();
        }
        assert_eq!(guard.sessions.lock().unwrap().len(), SESSIONS_MAX);
    }

    #[test]
    fn a_request_names_the_console_and_comes_from_it() {
        let guard = guard();
        let check = |method: Method, of: &[(axum::http::HeaderName, &str)]| {
            guard.check_origin(&method, &headers(of))
        };
        let host = (HOST, "localhost:80");
        assert_eq!(check(Method::GET, std::slice::from_ref(&host)), Ok(()));
        for other in ["localhost", "evil.example:80", "localhost:81", ""] {
            assert_eq!(
                check(Method::GET, &[(HOST, other)]),
                Err(Refused::Host),
                "{other}"
            );
        }
        assert_eq!(check(Method::GET, &[]), Err(Refused::Host));
        assert_eq!(
            check(Method::POST, std::slice::from_ref(&host)),
            Err(Refused::Origin)
        );
        let own = (ORIGIN, "http://localhost:80");
        assert_eq!(check(Method::POST, &[host.clone(), own]), Ok(()));
        for other in [
            "http://127.0.0.1:80",
            "https://localhost:80",
            "null",
            "http://evil.example",
        ] {
            let from = [host.clone(), (ORIGIN, other)];
            assert_eq!(check(Method::POST, &from), Err(Refused::Origin), "{other}");
        }
    }
}
