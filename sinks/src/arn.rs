/// What an ARN says besides its service: `arn:<partition>:<service>:<region>:<account>:<kind>:<name>[:<qualifier>]`.
/// Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html> (2026-11).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arn<'t> {
    pub(crate) region: &'t str,
    pub(crate) name: &'t str,
    pub(crate) qualifier: Option<&'t str>,
}

/// The ARN of something of this kind, if it is one.
pub(crate) fn parse<'t>(text: &'t str, service: &str, kind: &str) -> Option<Arn<'t>> {
    let steps: Vec<&str> = text.split(':').collect();
    let (arn, account) = match steps[..] {
        [
            "arn",
            partition,
            of,
            region,
            account,
            what,
            name,
            ref rest @ ..,
        ] if partition.starts_with("aws") && of == service && what == kind && rest.len() < 2 => {
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

/// A version or an alias; Lambda has `$LATEST`, too.
fn is_qualifier(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.$".contains(c);
    !text.is_empty() && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_says_where_its_thing_is() {
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
