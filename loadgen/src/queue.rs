//! What a queue URL says about where requests go.
//!
//! The SDK sends requests to its configured region or endpoint and passes the queue URL along as a
//! mere parameter. Someone who names a queue means that queue, so its URL fills in what the
//! environment leaves open.

/// Region and endpoint, as far as a queue URL tells them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueAddress {
    /// The region of a queue in AWS.
    pub region: Option<String>,
    /// Scheme, host and port of a queue that is not in AWS.
    pub endpoint_url: Option<String>,
}

impl QueueAddress {
    /// Reads `https://sqs.<region>.amazonaws.com/…` (also FIPS, China and dual-stack hosts) as a
    /// region, any other `http(s)://host[:port]/…` as an endpoint, and the rest as nothing.
    pub fn of(queue_url: &str) -> Self {
        let Some((scheme, rest)) = queue_url.split_once("://") else {
            return Self::default();
        };
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.is_empty() || !["http", "https"].contains(&scheme) {
            return Self::default();
        }
        let mut labels = authority.split('.');
        let (service, region) = (labels.next(), labels.next());
        let in_aws = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"]
            .iter()
            .any(|domain| authority.ends_with(domain));
        match (in_aws, service, region) {
            (true, Some("sqs" | "sqs-fips"), Some(region)) if region != "amazonaws" => Self {
                region: Some(region.to_owned()),
                endpoint_url: None,
            },
            // An AWS name of another shape: leave it to the environment.
            (true, ..) => Self::default(),
            (false, ..) => Self {
                region: None,
                endpoint_url: Some(format!("{scheme}://{authority}")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_in_aws_names_its_region() {
        for (url, region) in [
            (
                "https://sqs.eu-west-1.amazonaws.com/123456789012/input",
                "eu-west-1",
            ),
            (
                "https://sqs-fips.us-east-1.amazonaws.com/123456789012/input",
                "us-east-1",
            ),
            (
                "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/input",
                "cn-north-1",
            ),
            (
                "https://sqs.eu-west-1.api.aws/123456789012/input",
                "eu-west-1",
            ),
        ] {
            let address = QueueAddress::of(url);
            assert_eq!(
                address,
                QueueAddress {
                    region: Some(region.into()),
                    endpoint_url: None
                }
            );
        }
    }

    #[test]
    fn any_other_queue_names_its_endpoint() {
        let address = QueueAddress::of("http://127.0.0.1:9324/000000000000/input");
        assert_eq!(
            address.endpoint_url.as_deref(),
            Some("http://127.0.0.1:9324")
        );
        assert_eq!(address.region, None);
    }

    #[test]
    fn what_names_nothing_leaves_all_to_the_environment() {
        for url in [
            "input",
            "",
            "https://",
            "ftp://host/queue",
            "https://queue.amazonaws.com/1/q",
        ] {
            assert_eq!(QueueAddress::of(url), QueueAddress::default(), "{url}");
        }
    }
}
