//! Leaves passwords out of values that errors quote.

use std::borrow::Cow;

/// Returns the text of a URL without its password: the one before the host, and one in its query. Any other text is returned as it
/// is.
///
/// The part before the host is read up to the last `@`, because a password that is not encoded may have any character.
pub(super) fn without_password(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Cow::Borrowed(text);
    };
    let (user, host) = match rest.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, rest),
    };
    let user = user.map(|user| match user.split_once(':') {
        Some((name, _)) => format!("{name}:…@"),
        None => format!("{user}@"),
    });
    let host = match host.split_once("password=") {
        Some((before, after)) => {
            let others = after.split_once('&').map(|(_, others)| others);
            let others = others.map(|others| format!("&{others}")).unwrap_or_default();
            format!("{before}password=…{others}")
        }
        None => host.to_owned(),
    };
    Cow::Owned(format!("{scheme}://{}{host}", user.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_left_out_whatever_it_contains() {
        for (text, shown) in [
            ("sftp://user:word@host/in", "sftp://user:…@host/in"),
            ("sftp://user:w/o@r:d@host:22/in", "sftp://user:…@host:22/in"),
            ("postgres://u:word@host/db?a=b", "postgres://u:…@host/db?a=b"),
            (
                "postgres://u@host/db?password=word&a=b",
                "postgres://u@host/db?password=…&a=b",
            ),
            ("postgres://host?password=word", "postgres://host?password=…"),
            ("sftp://user@host/in", "sftp://user@host/in"),
            ("https://host/a:b?c", "https://host/a:b?c"),
            ("word", "word"),
            ("http:", "http:"),
        ] {
            assert_eq!(without_password(text), shown);
        }
    }
}
