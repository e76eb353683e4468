//! Derives the template of a release from `infra/sam/template.yaml`: the code comes from a bucket, not from this machine.

use anyhow::ensure;

use crate::package::FUNCTIONS;

/// The parameters that only the template of a release has.
const PARAMETERS: &str = r#"
Parameters:
  CodeBucket:
    Type: String
    AllowedPattern: ^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$
    Description: Name of a bucket in the region of the stack that holds the zips of the release.
  CodeKeyPrefix:
    Type: String
    Default: ""
    AllowedPattern: ^([!-~]*/)?$
    MaxLength: 512
    Description: >-
      What the keys of the zips in CodeBucket begin with, such as v1.2.3/. Give each release its own: CloudFormation updates a
      function only if its key changes.
"#;

/// Where the template shows its parameters, and what a release adds there.
const SHOWN: [(&str, &str); 2] = [
    (
        "    ParameterGroups:\n",
        "      - Label: { default: Code }\n        Parameters: [CodeBucket, CodeKeyPrefix]\n",
    ),
    (
        "    ParameterLabels:\n",
        "      CodeBucket: { default: Bucket of the zips }\n      CodeKeyPrefix: { default: Prefix of the zips }\n",
    ),
];
/// How often the template names the zip of each function: the check of a deployment is the batch-processor's.
const CODE_COUNTS: [usize; 2] = [1, 2];
/// The list of what the check of a deployment is called again for.
const SETTINGS: &str = "      Settings:\n";

/// Returns the template of a release.
///
/// # Errors
/// The template does not name the zips as often as it should, or it has no parameters or no check of a deployment.
pub fn derive(template: &str) -> anyhow::Result<String> {
    let mut derived = replaced(template, "\nParameters:\n", PARAMETERS, 1)?;
    for (heading, added) in SHOWN {
        derived = replaced(&derived, heading, &format!("{heading}{added}"), 1)?;
    }
    for (function, count) in FUNCTIONS.into_iter().zip(CODE_COUNTS) {
        let from = format!("CodeUri: ../../target/lambda/{function}/bootstrap.zip\n");
        let to = format!(
            "CodeUri: {{ Bucket: !Ref CodeBucket, Key: !Sub \"${{CodeKeyPrefix}}{function}-${{Architecture}}.zip\" }}\n"
        );
        derived = replaced(&derived, &from, &to, count)?;
    }
    // Another release is checked, as another setting is.
    let settings = format!("{SETTINGS}        - !Ref CodeKeyPrefix\n");
    replaced(&derived, SETTINGS, &settings, 1)
}

fn replaced(text: &str, from: &str, to: &str, expected: usize) -> anyhow::Result<String> {
    let count = text.matches(from).count();
    ensure!(
        count == expected,
        "the template: got `{}` {count} times, expected {expected}",
        from.trim()
    );
    Ok(text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tools;

    #[test]
    fn the_template_of_a_release_takes_both_zips_from_the_bucket() {
        let path = tools::root().unwrap().join("infra/sam/template.yaml");
        let derived = derive(&fs::read_to_string(path).unwrap()).unwrap();
        assert!(!derived.contains("target/lambda"), "names a local zip");
        for (function, count) in FUNCTIONS.into_iter().zip(CODE_COUNTS) {
            let key = format!("!Sub \"${{CodeKeyPrefix}}{function}-${{Architecture}}.zip\"");
            assert_eq!(derived.matches(&key).count(), count, "{function}");
        }
    }

    #[test]
    fn a_template_without_a_zip_or_with_two_is_refused() {
        let code = |function: &str| {
            format!("      CodeUri: ../../target/lambda/{function}/bootstrap.zip\n")
        };
        let [one, other] = FUNCTIONS.map(code);
        let of = |functions: &[&str]| {
            let headings = SHOWN.map(|(heading, _)| heading).concat();
            let functions = functions.concat();
            derive(&format!("{headings}\nParameters:\n{functions}{SETTINGS}"))
        };
        assert!(of(&[&one, &other, &other]).is_ok());
        for (wrong, count) in [(of(&[&one]), 0), (of(&[&one, &other]), 1)] {
            let error = wrong.unwrap_err().to_string();
            let words = format!("{count} times, expected 2");
            assert!(error.contains(&words), "{error}");
        }
    }
}
