//! Leaves passwords out of values that errors quote.

use std::borrow::Cow;

/// Schemes of URLs with which a password may stand although `//` was forgotten.
const SCHEMES: [&str; 5] = ["http", "https", "postgres", "postgresql", "sftp"];

/// Returns the text of a URL without its user, its password and its query, which may have a password or a token. Any other text is
/// returned as it is.
///
/// Where it is not certain what belongs to a password, only the scheme is left.
pub(super) fn without_password(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once(':') else {
        return Cow::Borrowed(text);
    };
    let is_known = SCHEMES.contains(&scheme.to_ascii_lowercase().as_str());
    if !is_known && !rest.starts_with("//") {
        return Cow::Borrowed(text);
    }
    let address = rest.trim_start_matches('/');
    let host = address.split('/').next().unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let is_plain = !address.contains(['@', '?', '=']);
    if is_plain && (host.starts_with('[') || port.bytes().all(|byte| byte.is_ascii_digit())) {
        return Cow::Borrowed(text);
    }
    let has_user = address.matches('@').count() == 1 && !address.contains(['?', '=']);
    match address.split_once('@').filter(|_| has_user) {
        Some((_, address)) => Cow::Owned(format!("{scheme}://…@{address}")),
        None => Cow::Owned(format!("{scheme}:…")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_left_out_whatever_it_contains() {
        for (text, shown) in [
            ("sftp://user:word@host/in", "sftp://…@host/in"),
            ("SFTP://user:word@host/in", "SFTP://…@host/in"),
            ("sftp:user:word@host/in", "sftp://…@host/in"),
            ("mysql://user:word@host/in", "mysql://…@host/in"),
            ("\"postgres://u:word@h/db\"", "\"postgres://…@h/db\""),
            ("https://token@host/path", "https://…@host/path"),
            ("sftp://user:w/o@r:d@host:22/in", "sftp:…"),
            ("sftp://user:w?rd@host/in", "sftp:…"),
            ("sftp://user:word/in", "sftp:…"),
            ("postgres://u:word@host/db?a=b", "postgres:…"),
            ("postgres://u@host/db?password=p@ss", "postgres:…"),
            ("postgres:host=h user=u password=word", "postgres:…"),
            ("http://host/p?token=word", "http:…"),
            ("http://host:8080/p", "http://host:8080/p"),
            ("http://[::1]:80/p", "http://[::1]:80/p"),
            ("s3://bucket/a", "s3://bucket/a"),
            ("json:a[?b=='c@d']", "json:a[?b=='c@d']"),
            ("word", "word"),
            ("http:", "http:"),
        ] {
            assert_eq!(without_password(text), shown);
        }
    }
}
