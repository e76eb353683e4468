//! `COMPLETION`: where notices go.

use super::feature::in_full_build;
use super::variable::{Text, Unset, Variable};

pub const COMPLETION: Variable<Text> = Variable {
    name: "COMPLETION",
    key: Some("delivery.completion"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "the URL of a standard SQS queue, or the ARN of an event bus of EventBridge",
    },
    meaning: "Where a notice goes when a batch is complete, and when it goes into error. A notice is sent at least once, \
              always with the same id and content.",
};

/// The value of `COMPLETION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    Queue {
        url: String,
        /// The region of the queue, if the URL has the form of AWS.
        region: Option<String>,
    },
    EventBus {
        arn: String,
        /// The region of the bus.
        region: String,
    },
}

/// Parses the value of `COMPLETION`.
///
/// # Errors
/// The problem, in words.
pub fn completion(text: &str) -> Result<Completion, String> {
    let allowed = COMPLETION.value.allowed;
    if text.starts_with("https://") || text.starts_with("http://") {
        if text.ends_with(".fifo") {
            return Err(format!("a FIFO queue, expected {allowed}"));
        }
        return Ok(Completion::Queue {
            url: text.to_owned(),
            region: region_of_queue(text).map(str::to_owned),
        });
    }
    let fields: Vec<&str> = text.splitn(6, ':').collect();
    let &["arn", partition, "events", region, account, bus] = &fields[..] else {
        return Err(format!("expected {allowed}"));
    };
    let name = bus.strip_prefix("event-bus/").unwrap_or_default();
    // Source: <https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_CreateEventBus.html> (2026-11).
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let is_bus = partition.starts_with("aws")
        && !region.is_empty()
        && account.len() == 12
        && account.chars().all(|c| c.is_ascii_digit())
        && (1..=256).contains(&name.len())
        && name.chars().all(fits);
    if !is_bus {
        return Err(format!("expected {allowed}"));
    }
    in_full_build(Completion::EventBus {
        arn: text.to_owned(),
        region: region.to_owned(),
    })
}

/// Returns the region in `https://sqs.<region>.amazonaws.com…`. SQS takes requests for a queue in its own region only.
fn region_of_queue(url: &str) -> Option<&str> {
    let host = url.strip_prefix("https://sqs.")?;
    let (region, rest) = host.split_once('.')?;
    rest.starts_with("amazonaws.com").then_some(region)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_and_an_event_bus_are_distinguished() {
        let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/notices";
        let queue = |url: &str, region: Option<&str>| {
            Ok(Completion::Queue {
                url: url.to_owned(),
                region: region.map(str::to_owned),
            })
        };
        assert_eq!(completion(url), queue(url, Some("eu-west-1")));
        let url = "http://127.0.0.1:4100/000000000000/notices";
        assert_eq!(completion(url), queue(url, None));
        let arn = "arn:aws-cn:events:cn-north-1:123456789012:event-bus/default";
        let bus = Completion::EventBus {
            arn: arn.to_owned(),
            region: "cn-north-1".to_owned(),
        };
        assert_eq!(completion(arn), Ok(bus));
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        let fifo = completion("https://sqs.eu-west-1.amazonaws.com/1/n.fifo").unwrap_err();
        assert!(fifo.starts_with("a FIFO queue, expected the URL"), "{fifo}");
        for text in [
            "arn:aws:sqs:eu-west-1:123456789012:notices",
            "arn:aws:events:eu-west-1:123456789012:rule/r",
            "arn:aws:events:eu-west-1:123456789012:event-bus/",
            "arn:aws:events::123456789012:event-bus/b",
            "arn:aws:events:eu-west-1:12:event-bus/b",
            "default",
        ] {
            let error = completion(text).unwrap_err();
            let words = "expected the URL of a standard";
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }
}
