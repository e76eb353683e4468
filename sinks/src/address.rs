use std::fmt;
use std::str::FromStr;

/// The port of SSH, which an address does not show.
const SSH_PORT: u16 = 22;
/// The longest path. A path on Linux has at most 4,096 bytes; the sink appends fewer than 340 of them.
const PATH_BYTES_MAX: usize = 3_700;
const EXPECTED: &str = "expected `sftp://user@host/path` or `sftp://user@host:port/path`";

/// A directory on an SSH server, and the user who writes to it: `sftp://user@host[:port]/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The user.
    pub user: String,
    /// A name or an IP address, without brackets.
    pub host: String,
    /// The port of the server.
    pub port: u16,
    /// The absolute path of the directory, without a slash at its end. Empty for the root.
    pub path: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = |words: &str| format!("{words}, {EXPECTED}");
        let rest = text.strip_prefix("sftp://");
        let rest = rest.ok_or_else(|| wrong("not a URL of `sftp:`"))?;
        let (authority, path) = rest
            .split_once('/')
            .ok_or_else(|| wrong("the path is missing"))?;
        // A user of some servers contains an `@`.
        let (user, server) = authority
            .rsplit_once('@')
            .ok_or_else(|| wrong("the user is missing"))?;
        if user.contains(':') {
            return Err(wrong(
                "a URL with a password, which belongs in the secret named by `SINK_SECRET` or in `SINK_PASSWORD`",
            ));
        }
        if user.is_empty() || !user.chars().all(is_visible) {
            return Err(wrong("the user is missing, or has spaces"));
        }
        let (host, port) =
            host_and_port(server).ok_or_else(|| wrong("not a host with a port from 1 to 65535"))?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let steps = |step: &str| !step.is_empty() && step != "." && step != "..";
        if !(path.is_empty() && !rest.ends_with("//") || path.split('/').all(steps))
            || path.contains(char::is_control)
        {
            return Err(wrong("a path with empty steps, `.` or `..`"));
        }
        if path.len() > PATH_BYTES_MAX {
            return Err(wrong(&format!(
                "a path of more than {PATH_BYTES_MAX} bytes"
            )));
        }
        Ok(Address {
            user: user.to_owned(),
            host,
            port,
            path: match path {
                "" => String::new(),
                path => format!("/{path}"),
            },
        })
    }
}

/// Splits `host`, `host:port`, `[IPv6]` or `[IPv6]:port`.
fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            match port {
                "" => (host, None),
                port => (host, Some(port.strip_prefix(':')?)),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None => SSH_PORT,
    };
    let fits = !host.is_empty() && !host.contains(['[', ']', '@']) && host.chars().all(is_visible);
    fits.then(|| (host.to_owned(), port))
}

fn is_visible(letter: char) -> bool {
    !letter.is_whitespace() && !letter.is_control()
}

impl Address {
    /// Returns the server with its user, without the path.
    pub(crate) fn server(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port {
            SSH_PORT => format!("sftp://{}@{host}", self.user),
            port => format!("sftp://{}@{host}:{port}", self.user),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "{}/", self.server()),
            path => write!(f, "{}{path}", self.server()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address, String> {
        text.parse()
    }

    #[test]
    fn an_address_is_displayed_without_the_usual_port_and_the_last_slash() {
        for (text, shown) in [
            ("sftp://legacy@host/in", "sftp://legacy@host/in"),
            (
                "sftp://legacy@host:22/in/daily/",
                "sftp://legacy@host/in/daily",
            ),
            ("sftp://legacy@host:2222/", "sftp://legacy@host:2222/"),
            ("sftp://a@b.example@host/in", "sftp://a@b.example@host/in"),
            ("sftp://legacy@[::1]:2222/in", "sftp://legacy@[::1]:2222/in"),
            ("sftp://legacy@[::1]/in", "sftp://legacy@[::1]/in"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown);
            assert_eq!(parse(shown), parse(text));
        }
        let address = parse("sftp://legacy@host/").unwrap();
        assert_eq!((address.path.as_str(), address.port), ("", 22));
    }

    #[test]
    fn an_address_has_a_user_a_host_and_a_path_and_no_password() {
        for (text, words) in [
            ("sftp:user@host/in", "not a URL of `sftp:`"),
            ("sftp://user@host", "the path is missing"),
            ("sftp://host/in", "the user is missing"),
            ("sftp://@host/in", "the user is missing"),
            ("sftp://user:word@host/in", "a URL with a password"),
            ("sftp://user@/in", "not a host"),
            ("sftp://user@host:0/in", "not a host"),
            ("sftp://user@host:ssh/in", "not a host"),
            ("sftp://user@::1/in", "not a host"),
            ("sftp://user@[x]/in", "not a host"),
            ("sftp://user@host//in", "a path with empty steps"),
            ("sftp://user@host//", "a path with empty steps"),
            ("sftp://user@host/in/../out", "a path with empty steps"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {words} in {error}");
            assert!(error.contains("`sftp://user@host/path`"), "{error}");
        }
        let long = format!("sftp://user@host/{}", "x".repeat(PATH_BYTES_MAX + 1));
        assert!(parse(&long).unwrap_err().contains("more than 3700 bytes"));
    }
}
