/// Returns whether a text is an ARN of this service, right or wrong.
pub(crate) fn is_of_service(text: &str, service: &str) -> bool {
    text.starts_with("arn:") && text.split(':').nth(2) == Some(service)
}

/// Returns the region of a resource of this service and kind, whose name has only characters that fit. Its ARN is
/// `arn:<partition>:<service>:<region>:<account>:<kind>:<name>[:<qualifier>]`.
/// Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html> (2026-11).
///
/// # Errors
/// Says what is expected.
pub(crate) fn region<'t>(
    text: &'t str,
    service: &str,
    kind: &str,
    fits: fn(char) -> bool,
) -> Result<&'t str, String> {
    let is_lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fields: Vec<&str> = text.split(':').collect();
    match fields[..] {
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
            && !region.is_empty()
            && region.chars().all(is_lower)
            && account.len() == 12
            && account.chars().all(|c| c.is_ascii_digit())
            && !name.is_empty()
            && name.chars().all(fits)
            && rest.len() < 2
            && rest.iter().all(|qualifier| is_qualifier(qualifier)) =>
        {
            Ok(region)
        }
        _ => Err(format!(
            "expected `arn:<partition>:{service}:<region>:<account>:{kind}:<name>`, optionally followed by `:<version or alias>`"
        )),
    }
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
        let parsed = |text| region(text, "lambda", "function", |c| c != '/');
        for text in [
            "arn:aws:lambda:eu-west-1:123456789012:function:f",
            "arn:aws-cn:lambda:eu-west-1:123456789012:function:f:$LATEST",
        ] {
            assert_eq!(parsed(text), Ok("eu-west-1"), "{text}");
        }
        for wrong in [
            "arn:aws:lambda:eu-west-1:123456789012:function:",
            "arn:aws:lambda:eu-west-1:123456789012:function:f/g",
            "arn:aws:lambda:eu-west-1:123456789012:function:f:",
            "arn:aws:lambda:eu-west-1:123456789012:function:f:1:2",
            "arn:aws:lambda:eu-west-1:123456789012:layer:f",
            "arn:aws:lambda:eu-west-1:12345:function:f",
            "arn:aws:lambda::123456789012:function:f",
            "arn:aws:states:eu-west-1:123456789012:function:f",
            "arn:other:lambda:eu-west-1:123456789012:function:f",
            "arn:aws:lambda",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
