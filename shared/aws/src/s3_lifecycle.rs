//! Reads the lifecycle of the bucket `OVERFLOW_BUCKET` once at a cold start, and logs whether it keeps bodies long
//! enough.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::types::{ExpirationStatus, LifecycleRule, LifecycleRuleFilter};
use protocol::limits::OVERFLOW_DAYS_MIN;
use protocol::retention::ExpirationRule;
use shared::ports::PortError;
use tracing::{error, info};

use crate::errors::{S3, port_error};
use crate::sdk::Sdk;

/// The lookup runs in the background, so this may be long.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Logs whether the bucket keeps bodies for long enough: an error for each rule that removes them too soon. Needs
/// `s3:GetLifecycleConfiguration`; without this permission, logs that the lifecycle could not be read.
pub async fn tell_overflow_retention(sdk: Sdk, bucket: impl AsRef<str>) {
    let bucket = bucket.as_ref();
    tell(bucket, rules(&sdk.s3(REQUEST_TIMEOUT), bucket).await);
}

fn tell(bucket: &str, rules: Result<Vec<ExpirationRule>, PortError>) {
    let rules = match rules {
        Ok(rules) => rules,
        Err(error) => {
            return info!(bucket, %error, days_min = OVERFLOW_DAYS_MIN, "lifecycle of the overflow bucket not read");
        }
    };
    let too_soon = || rules.iter().filter(|rule| rule.is_too_soon());
    for rule in too_soon() {
        let ExpirationRule { id, days, .. } = rule;
        error!(
            bucket,
            rule = id,
            days,
            days_min = OVERFLOW_DAYS_MIN,
            "overflow bucket removes bodies too soon"
        );
    }
    if too_soon().next().is_none() {
        let count = rules.len();
        info!(
            bucket,
            expiration_rules_count = count,
            days_min = OVERFLOW_DAYS_MIN,
            "overflow bucket keeps bodies long enough"
        );
    }
}

/// Returns the rules of a bucket that remove objects.
async fn rules(client: &Client, bucket: &str) -> Result<Vec<ExpirationRule>, PortError> {
    let request = client.get_bucket_lifecycle_configuration().bucket(bucket);
    match request.send().await {
        Ok(found) => Ok(found.rules().iter().filter_map(expiration).collect()),
        // A bucket without a lifecycle keeps everything.
        Err(error) if error.code() == Some("NoSuchLifecycleConfiguration") => Ok(Vec::new()),
        Err(error) => Err(port_error(S3, bucket, &error)),
    }
}

/// Returns a rule of the lifecycle, if it removes objects.
fn expiration(rule: &LifecycleRule) -> Option<ExpirationRule> {
    let expiration = rule.expiration()?;
    let days = match (expiration.days(), expiration.date()) {
        (Some(days), _) => u32::try_from(days).unwrap_or_default(),
        (None, Some(_)) => 0,
        // The rule removes only the markers of objects that were deleted before.
        (None, None) => return None,
    };
    let filter = rule.filter();
    let and = filter.and_then(LifecycleRuleFilter::and);
    // Rules from before filters have a prefix of their own.
    #[expect(deprecated, reason = "a rule has either this or a filter")]
    let old_prefix = rule.prefix();
    let prefix = filter
        .and_then(LifecycleRuleFilter::prefix)
        .or_else(|| and.and_then(|and| and.prefix()))
        .or(old_prefix);
    let tagged = filter.is_some_and(|filter| filter.tag().is_some())
        || and.is_some_and(|and| !and.tags().is_empty());
    let larger_than = filter
        .and_then(LifecycleRuleFilter::object_size_greater_than)
        .or_else(|| and.and_then(|and| and.object_size_greater_than()));
    Some(ExpirationRule {
        id: rule.id().unwrap_or_default().to_owned(),
        enabled: *rule.status() == ExpirationStatus::Enabled,
        prefix: prefix.unwrap_or_default().to_owned(),
        tagged,
        larger_than_bytes: larger_than.and_then(|bytes| u64::try_from(bytes).ok()),
        days,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use aws_sdk_s3::config::http::{HttpRequest, HttpResponse};
    use aws_sdk_s3::config::retry::RetryConfig;
    use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
    use aws_sdk_s3::primitives::SdkBody;
    use aws_smithy_runtime_api::client::http::{
        HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
    };
    use shared::config::{LogFormat, LogSettings, Settings};

    use super::*;
    use crate::logs::lines_of;

    /// Replies to every request with the same response, and keeps the URL of the last request.
    #[derive(Clone, Debug)]
    struct Canned {
        status: u16,
        body: String,
        uri: Arc<Mutex<String>>,
    }

    impl HttpConnector for Canned {
        fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
            request.uri().clone_into(&mut self.uri.lock().unwrap());
            let body = SdkBody::from(self.body.clone());
            let response = HttpResponse::new(self.status.try_into().unwrap(), body);
            HttpConnectorFuture::ready(Ok(response))
        }
    }

    async fn rules_in_reply(status: u16, body: &str) -> Result<Vec<ExpirationRule>, PortError> {
        let canned = Canned {
            status,
            body: body.to_owned(),
            uri: Arc::default(),
        };
        let connector = SharedHttpConnector::new(canned.clone());
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("local"))
            .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
            .endpoint_url("http://127.0.0.1")
            .force_path_style(true)
            .retry_config(RetryConfig::disabled())
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .build();
        let rules = rules(&Client::from_conf(config), "bodies").await;
        assert_eq!(
            *canned.uri.lock().unwrap(),
            "http://127.0.0.1/bodies/?lifecycle"
        );
        rules
    }

    fn rule(id: &str, prefix: &str, days: u32) -> ExpirationRule {
        ExpirationRule {
            id: id.to_owned(),
            enabled: true,
            prefix: prefix.to_owned(),
            tagged: false,
            larger_than_bytes: None,
            days,
        }
    }

    #[tokio::test]
    async fn a_rule_is_read_with_its_filters_and_days() {
        let rules = rules_in_reply(
            200,
            "<LifecycleConfiguration>\
             <Rule><ID>old</ID><Prefix>01</Prefix><Status>Enabled</Status><Expiration><Days>7</Days></Expiration></Rule>\
             <Rule><ID>new</ID><Filter><Prefix>logs/</Prefix></Filter><Status>Disabled</Status>\
             <Expiration><Days>31</Days></Expiration></Rule>\
             <Rule><ID>both</ID><Filter><And><Prefix>a</Prefix><Tag><Key>k</Key><Value>v</Value></Tag>\
             <ObjectSizeGreaterThan>500</ObjectSizeGreaterThan></And></Filter><Status>Enabled</Status>\
             <Expiration><Days>1</Days></Expiration></Rule>\
             <Rule><ID>tag</ID><Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter><Status>Enabled</Status>\
             <Expiration><Days>1</Days></Expiration></Rule>\
             <Rule><ID>date</ID><Filter><ObjectSizeGreaterThan>600</ObjectSizeGreaterThan></Filter><Status>Enabled</Status>\
             <Expiration><Date>2030-01-01T00:00:00.000Z</Date></Expiration></Rule>\
             <Rule><ID>uploads</ID><Filter/><Status>Enabled</Status>\
             <AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>\
             <Rule><ID>markers</ID><Filter/><Status>Enabled</Status>\
             <Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration></Rule>\
             </LifecycleConfiguration>",
        )
        .await
        .unwrap();
        let expected = [
            rule("old", "01", 7),
            ExpirationRule {
                enabled: false,
                ..rule("new", "logs/", 31)
            },
            ExpirationRule {
                tagged: true,
                larger_than_bytes: Some(500),
                ..rule("both", "a", 1)
            },
            ExpirationRule {
                tagged: true,
                ..rule("tag", "", 1)
            },
            ExpirationRule {
                larger_than_bytes: Some(600),
                ..rule("date", "", 0)
            },
        ];
        assert_eq!(rules, expected);
        let too_soon = rules.iter().filter(|rule| rule.is_too_soon());
        let too_soon: Vec<&str> = too_soon.map(|rule| rule.id.as_str()).collect();
        assert_eq!(too_soon, ["old", "date"]);
    }

    #[tokio::test]
    async fn a_bucket_without_a_lifecycle_has_no_rules_and_a_refusal_says_why() {
        let error =
            |code: &str| format!("<Error><Code>{code}</Code><Message>words</Message></Error>");
        let none = rules_in_reply(404, &error("NoSuchLifecycleConfiguration")).await;
        assert_eq!(none.unwrap(), []);
        let refused = rules_in_reply(403, &error("AccessDenied")).await;
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("bodies: AccessDenied: words"), "{words}");
    }

    fn log_of(rules: Result<Vec<ExpirationRule>, PortError>) -> String {
        let settings = LogSettings {
            format: LogFormat::Text,
            ..LogSettings::of(Settings::new(&|_| None, None))
        };
        lines_of(settings, || tell("bodies", rules)).join("\n")
    }

    #[test]
    fn the_log_names_bucket_rule_and_days_if_a_rule_removes_bodies_too_soon() {
        let log = log_of(Ok(vec![rule("weekly", "", 7), rule("yearly", "", 365)]));
        assert_eq!(log.lines().count(), 1, "{log}");
        for words in ["ERROR", "bucket=bodies", "rule=weekly", "days=7"] {
            assert!(log.contains(words), "{words} in {log}");
        }
        let unread = PortError::refused(S3, "why");
        for (rules, words) in [
            (Ok(vec![rule("year", "", 365)]), "keeps bodies long enough"),
            (Err(unread), "why"),
        ] {
            let log = log_of(rules);
            assert_eq!(log.lines().count(), 1, "{log}");
            for words in ["INFO", "bucket=bodies", words] {
                assert!(log.contains(words), "{words} in {log}");
            }
        }
    }
}
