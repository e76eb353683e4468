/// The parts of an ARN that sinks need. An ARN is `arn:<partition>:<service>:<region>:<account>:<kind>:<name>[:<qualifier>]`.
/// Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html> (2026-11).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arn<'t> {
    pub(crate) region: &'t str,
    pub(crate) name: &'t str,
    pub(crate) qualifier: Option<&'t str>,
}

/// Returns whether a text is an ARN of this service, right or wrong.
pub(crate) fn is_of_service(text: &str, service: &str) -> bool {
    text.starts_with("arn:") && text.split(':').nth(2) == Some(service)
}

/// Parses the ARN of a resource of this service and kind; returns `None` if `text` is something else.
pub(crate) fn parse<'t>(text: &'t str, service: &str, kind: &str) -> Option<Arn<'t>> {
    let fields: Vec<&str> = text.split(':').collect();
    let (arn, account) = match fields[..] {
        [
            "arn",
            partition,
            of_service,
            region,
            account,
            of_kind,
            name,
            ref rest @ ..,
        ] if partition.starts_with("aws")
            && of_service == service
            && of_kind == kind
            && rest.len() < 2 =>
        {
            let qualifier = rest.first().copied();
            let arn = Arn {
                region,
                name,
                qualifier,
            };
            (arn, account)
        }
        _ => return None,
    };
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fits = !arn.region.is_empty()
        && arn.region.chars().all(lower)
        && account.len() == 12
        && account.chars().all(|c| c.is_ascii_digit())
        && !arn.name.is_empty()
        && arn.qualifier.is_none_or(is_qualifier);
    fits.then_some(arn)
}

/// Returns whether `text` can be a version or an alias; `$LATEST` is a version of Lambda.
fn is_qualifier(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.$".contains(c);
    !text.is_empty() && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_has_a_region_a_name_and_maybe_a_qualifier() {
        let parsed = |text| parse(text, "lambda", "function");
        let arn = |qualifier| Arn {
            region: "eu-west-1",
            name: "f",
            qualifier,
        };
        for (text, qualifier) in [
            ("arn:aws:lambda:eu-west-1:123456789012:function:f", None),
            (
                "arn:aws-cn:lambda:eu-west-1:123456789012:function:f:$LATEST",
                Some("$LATEST"),
            ),
        ] {
            assert_eq!(parsed(text), Some(arn(qualifier)), "{text}");
        }
        for wrong in [
            "arn:aws:lambda:eu-west-1:123456789012:function:",
            "arn:aws:lambda:eu-west-1:123456789012:function:f:",
            "arn:aws:lambda:eu-west-1:123456789012:function:f:1:2",
            "arn:aws:lambda:eu-west-1:123456789012:layer:f",
            "arn:aws:lambda:eu-west-1:12345:function:f",
            "arn:aws:lambda::123456789012:function:f",
            "arn:aws:states:eu-west-1:123456789012:function:f",
            "arn:other:lambda:eu-west-1:123456789012:function:f",
            "arn:aws:lambda",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
