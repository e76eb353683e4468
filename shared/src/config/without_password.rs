//! Leaves passwords out of values that errors quote.

use std::borrow::Cow;

/// The schemes of URLs that a variable may have.
const SCHEMES: [&str; 5] = ["http:", "https:", "postgres:", "postgresql:", "sftp:"];

/// Returns the text of a URL without its password and without its query, which may have a password or a token. Any other text is
/// returned as it is.
///
/// The password is what stands between the first colon after the scheme and the last `@`, because one that is not encoded may have
/// any character.
pub(super) fn without_password(text: &str) -> Cow<'_, str> {
    let Some(scheme) = SCHEMES.iter().find(|scheme| text.starts_with(**scheme)) else {
        return Cow::Borrowed(text);
    };
    let rest = &text[scheme.len()..];
    let slashes = rest.len() - rest.trim_start_matches('/').len();
    let (slashes, rest) = rest.split_at(slashes);
    let (address, query) = match rest.split_once('?') {
        Some((address, query)) => (address, Some(query)),
        None => (rest, None),
    };
    if query.is_some_and(|query| query.contains('@')) {
        // The question mark or the `@` may be part of a password.
        let name = address.split([':', '@', '/']).next().unwrap_or_default();
        return Cow::Owned(format!("{scheme}{slashes}{name}…"));
    }
    let user_and_host = address.rsplit_once('@');
    let user_and_host = user_and_host.map(|(user, host)| match user.split_once(':') {
        Some((name, _)) => format!("{name}:…@{host}"),
        None => address.to_owned(),
    });
    let address = user_and_host.unwrap_or_else(|| address.to_owned());
    let query = query.map_or("", |_| "?…");
    Cow::Owned(format!("{scheme}{slashes}{address}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_left_out_whatever_it_contains() {
        for (text, shown) in [
            ("sftp://user:word@host/in", "sftp://user:…@host/in"),
            ("sftp:user:word@host/in", "sftp:user:…@host/in"),
            ("sftp://user:w/o@r:d@host:22/in", "sftp://user:…@host:22/in"),
            ("sftp://user:w?rd@host/in", "sftp://user…"),
            ("postgres://u:word@host/db?a=b", "postgres://u:…@host/db?…"),
            (
                "postgres://u@host/db?password=word",
                "postgres://u@host/db?…",
            ),
            ("postgres://u@host/db?password=p@ss", "postgres://u…"),
            ("http://host/p?token=word", "http://host/p?…"),
            ("sftp://user@host/in", "sftp://user@host/in"),
            ("https://host/a:b", "https://host/a:b"),
            ("json:a[?b=='c@d']", "json:a[?b=='c@d']"),
            ("word", "word"),
            ("http:", "http:"),
        ] {
            assert_eq!(without_password(text), shown);
        }
    }
}
