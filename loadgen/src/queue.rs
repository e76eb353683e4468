//! Derives the region or the endpoint of requests from a queue URL.
//!
//! The SDK sends requests to its configured region or endpoint; the queue URL is only a parameter of
//! the request. A user who names a queue wants requests to go to that queue, so its URL supplies the
//! region or endpoint if the environment does not.

/// The region or the endpoint that a queue URL contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueAddress {
    /// The region of a queue in AWS.
    pub region: Option<String>,
    /// Scheme, host and port of a queue that is not in AWS.
    pub endpoint_url: Option<String>,
}

impl QueueAddress {
    /// Reads `https://sqs.<region>.amazonaws.com/…` (also FIPS, China and dual-stack hosts) as a
    /// region, and any other `http(s)://host[:port]/…` as an endpoint. Other texts give neither.
    pub fn from_url(queue_url: &str) -> Self {
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
            // Other AWS hosts have no region at a known place, so the environment must name it.
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
    fn the_url_of_a_queue_in_aws_contains_its_region() {
        for (url, region) in [
            ("https://sqs.eu-west-1.amazonaws.com/1/q", "eu-west-1"),
            ("https://sqs-fips.us-east-1.amazonaws.com/1/q", "us-east-1"),
            ("https://sqs.cn-north-1.amazonaws.com.cn/1/q", "cn-north-1"),
            ("https://sqs.eu-west-1.api.aws/1/q", "eu-west-1"),
        ] {
            let address = QueueAddress::from_url(url);
            assert_eq!(address.region.as_deref(), Some(region));
            assert_eq!(address.endpoint_url, None);
        }
    }

    #[test]
    fn any_other_http_url_contains_an_endpoint() {
        let address = QueueAddress::from_url("http://127.0.0.1:9324/000000000000/input");
        let endpoint = address.endpoint_url.as_deref();
        assert_eq!(endpoint, Some("http://127.0.0.1:9324"));
        assert_eq!(address.region, None);
    }

    #[test]
    fn other_texts_give_neither_region_nor_endpoint() {
        for url in [
            "input",
            "",
            "https://",
            "ftp://host/queue",
            "https://queue.amazonaws.com/1/q",
        ] {
            let address = QueueAddress::from_url(url);
            assert_eq!(address, QueueAddress::default(), "{url}");
        }
    }
}
