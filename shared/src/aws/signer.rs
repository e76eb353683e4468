//! The signatures of requests that differ in nothing but operation, time and body.
//!
//! The SDK's signer takes any request: it sorts and escapes whatever it finds, and derives the key of the day anew for each. Here
//! the form of a request is known beforehand, and the key is kept.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use aws_sdk_dynamodb::config::Credentials;
use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use aws_smithy_types::date_time::{DateTime, Format};
use sha2::{Digest, Sha256};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Signs requests of one service in one region.
///
/// Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html> (2026-11).
pub(super) struct Signer {
    service: &'static str,
    region: String,
    key: Mutex<Option<Key>>,
}

/// What signs the requests of a day.
struct Key {
    secret: String,
    day: String,
    key: Vec<u8>,
}

/// What is signed: `POST`s of `body` to `path` of `host`, with the headers of a call of an AWS JSON service.
///
/// The path is signed as it is: `/`, or names of letters, digits, `-`, `.`, `_` and `~` after slashes.
#[derive(Clone, Copy)]
pub(super) struct Post<'a> {
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    pub(super) content_type: &'a str,
    pub(super) target: &'a str,
    pub(super) body: &'a [u8],
}

/// The headers that make a request a signed one, beside `x-amz-security-token` for credentials that have one.
pub(super) struct Signed {
    /// `x-amz-date`.
    pub(super) date: String,
    /// `authorization`.
    pub(super) authorization: String,
}

impl Signer {
    pub(super) fn new(service: &'static str, region: String) -> Signer {
        Signer {
            service,
            region,
            key: Mutex::default(),
        }
    }

    /// Signs a request that leaves at `now`.
    pub(super) fn sign(
        &self,
        credentials: &Credentials,
        now: SystemTime,
        post: Post<'_>,
    ) -> Signed {
        let date = basic(now);
        let day = &date[..8];
        let Post {
            host,
            path,
            content_type,
            target,
            body,
        } = post;
        // Put together by `concat`, which is several times as fast as `format!`.
        let (token, names) = match credentials.session_token() {
            Some(token) => (
                ["x-amz-security-token:", token, "\n"].concat(),
                "content-type;host;x-amz-date;x-amz-security-token;x-amz-target",
            ),
            None => (String::new(), "content-type;host;x-amz-date;x-amz-target"),
        };
        let body = hex::encode(Sha256::digest(body));
        let request = [
            "POST\n",
            path,
            "\n\ncontent-type:",
            content_type,
            "\nhost:",
            host,
            "\nx-amz-date:",
            &date,
            "\n",
            &token,
            "x-amz-target:",
            target,
            "\n\n",
            names,
            "\n",
            &body,
        ]
        .concat();
        let request = hex::encode(Sha256::digest(request));
        let scope = [day, &self.region, self.service, "aws4_request"].join("/");
        let text = [ALGORITHM, &date, &scope, &request].join("\n");
        let signature = self.signature(credentials.secret_access_key(), now, day, &text);
        let authorization = [
            ALGORITHM,
            " Credential=",
            credentials.access_key_id(),
            "/",
            &scope,
            ", SignedHeaders=",
            names,
            ", Signature=",
            &signature,
        ]
        .concat();
        Signed {
            date,
            authorization,
        }
    }

    fn signature(&self, secret: &str, now: SystemTime, day: &str, text: &str) -> String {
        let mut kept = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        let key = match kept.take() {
            Some(key) if key.day == day && key.secret == secret => key,
            Some(_) | None => Key {
                secret: secret.to_owned(),
                day: day.to_owned(),
                key: generate_signing_key(secret, now, &self.region, self.service)
                    .as_ref()
                    .to_vec(),
            },
        };
        calculate_signature(&kept.insert(key).key, text.as_bytes())
    }
}

impl fmt::Debug for Signer {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("service", &self.service)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// A time in whole seconds, as signatures have it: `20261122T114824Z`.
fn basic(time: SystemTime) -> String {
    let seconds = DateTime::from_secs(DateTime::from(time).secs());
    let mut text = seconds
        .fmt(Format::DateTime)
        .expect("the clock shows a year of four digits");
    text.retain(|char| !matches!(char, '-' | ':'));
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
    use aws_sigv4::sign::v4::SigningParams;
    use proptest::prelude::*;

    use super::*;

    /// As the SDK's signer has it.
    fn expected(credentials: &Credentials, now: SystemTime, post: Post<'_>) -> Signed {
        let identity = credentials.clone().into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region("eu-west-1")
            .name("dynamodb")
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .unwrap();
        let headers = [
            ("content-type", post.content_type),
            ("x-amz-target", post.target),
            ("user-agent", "not signed"),
        ];
        let request = SignableRequest::new(
            "POST",
            format!("https://{}{}", post.host, post.path),
            headers.into_iter(),
            SignableBody::Bytes(post.body),
        );
        let (instructions, _) = sign(request.unwrap(), &params.into()).unwrap().into_parts();
        let header = |name| {
            let mut headers = instructions.headers();
            headers
                .find(|header| header.0 == name)
                .unwrap()
                .1
                .to_owned()
        };
        Signed {
            date: header("x-amz-date"),
            authorization: header("authorization"),
        }
    }

    proptest! {
        #[test]
        fn a_request_is_signed_as_the_sdk_signs_it(
            requests in prop::collection::vec(
                (
                    prop::sample::select(vec!["key", "another"]),
                    prop::option::of("[A-Za-z0-9/+=]{1,40}"),
                    0_u64..5_000_000_000_000,
                    prop::sample::select(vec!["localhost:4566", "dynamodb.eu-west-1.amazonaws.com"]),
                    prop::sample::select(vec!["/", "/a/b"]),
                    "[A-Za-z_0-9.]{1,40}",
                    prop::collection::vec(any::<u8>(), 0..200),
                ),
                1..8,
            )
        ) {
            // One signer for all of them, so that it meets other days and secrets than those it knows.
            let signer = Signer::new("dynamodb", "eu-west-1".to_owned());
            for (secret, token, millis, host, path, target, body) in requests {
                let credentials = Credentials::new("id", secret, token, None, "test");
                let now = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
                let post = Post {
                    host,
                    path,
                    content_type: "application/x-amz-json-1.0",
                    target: &target,
                    body: &body,
                };
                let ours = signer.sign(&credentials, now, post);
                let expected = expected(&credentials, now, post);
                prop_assert_eq!(ours.date, expected.date);
                prop_assert_eq!(ours.authorization, expected.authorization);
            }
        }
    }

    #[test]
    fn what_is_said_of_a_signer_is_not_its_key() {
        let signer = Signer::new("dynamodb", "eu-west-1".to_owned());
        let credentials = Credentials::new("id", "the secret", None, None, "test");
        let post = Post {
            host: "host",
            path: "/",
            content_type: "text",
            target: "x",
            body: b"",
        };
        signer.sign(&credentials, SystemTime::now(), post);
        let said = format!("{signer:?}");
        assert!(
            said.contains("eu-west-1") && !said.contains("key") && !said.contains("secret"),
            "{said}"
        );
    }
}
