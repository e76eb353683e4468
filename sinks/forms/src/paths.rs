//! Paths of parts below a sink: `SINK_PATH`.

use std::str::FromStr;

use crate::dates::Zone;
use crate::part::Part;
use crate::template::{Facts, Target, Template, TemplateUse, Value};
use crate::totals::Totals;

/// The longest path. It leaves as much room for the prefix in an object's name as the names do that the sinks make.
const PATH_BYTES_MAX: usize = 223;
/// The ends of names that the sinks make themselves.
const TAKEN: [&str; 2] = [".manifest.json", ".rejects"];

/// The path of a part's records below the sink's directory or prefix, which no other part has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTemplate(Template);

impl FromStr for PathTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<PathTemplate, String> {
        let template = Template::parse(text, TemplateUse::Path, &[])?;
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "!-_.=/".contains(letter);
        let literals = template.literals();
        if let Some(letter) = literals.chars().find(|letter| !is_allowed(*letter)) {
            return Err(format!(
                "path: got the character `{letter}`, expected letters, digits and `!-_.=/`"
            ));
        }
        let is_refused = |step: &str| step.is_empty() || step.starts_with('.');
        if text.split('/').any(is_refused) {
            return Err(
                "path: got an empty step or one that begins with a dot, expected steps such as `{key}/{batch}-{part}.txt`"
                    .to_owned(),
            );
        }
        if let Some(taken) = TAKEN.into_iter().find(|end| text.ends_with(end)) {
            return Err(format!(
                "path: got the end `{taken}`, expected another one: the sink has files of that name"
            ));
        }
        let has_batch = template.has(&Value::Batch);
        let is_unique = template.has_sequence() || has_batch && template.has(&Value::Part);
        if !has_batch && let Some((one, other, between)) = template.blurred() {
            return Err(format!(
                "path: got {one} and {other} with nothing that tells them apart, expected {between} between them, or a width: \
                 otherwise several parts may have the same path"
            ));
        }
        match is_unique {
            true => Ok(PathTemplate(template)),
            false => Err(
                "path: got the same path for several parts, expected one with `{sequence}`, or with `{batch}` and `{part}`: \
                 nothing is ever replaced"
                    .to_owned(),
            ),
        }
    }
}

impl PathTemplate {
    /// Returns whether a path has the number of a file.
    pub fn has_sequence(&self) -> bool {
        self.0.has_sequence()
    }

    /// Returns the path of a part, relative to the sink's directory or prefix.
    pub fn text(&self, part: &Part, zone: &Zone) -> Result<String, String> {
        if let Some(key) = &part.batch_key
            && !self.0.has(&Value::Key)
            && !self.0.has(&Value::Batch)
        {
            return Err(format!(
                "got the batch key «{}» and a path without it, expected `{{key}}` beside `{{sequence}}`: each key has its own numbers",
                key.as_str()
            ));
        }
        let path = self.0.text(&Facts {
            part,
            zone,
            totals: &Totals::of([].into_iter()),
            target: Target::Path,
        })?;
        match path.len() <= PATH_BYTES_MAX {
            true => Ok(path),
            false => Err(format!(
                "too long: got «{path}», expected at most {PATH_BYTES_MAX} bytes"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_support::{assert_has, part};

    fn written(template: &str, part: &Part) -> Result<String, String> {
        let template: PathTemplate = template.parse()?;
        template.text(part, &Zone::default())
    }

    fn keyed() -> Part {
        Part {
            batch_key: Some("Zoë & Co".parse().unwrap()),
            file_number: Some(7),
            link: None,
            ..part(2, &[])
        }
    }

    #[test]
    fn a_path_has_dates_numbers_and_escaped_keys() {
        assert_eq!(
            written("{key}/{date:%Y/%m/%d}/ORDERS_{sequence:06}.txt", &keyed()),
            Ok("Zo!C3!AB!20!26!20Co/2026/11/25/ORDERS_000007.txt".to_owned())
        );
        assert_eq!(
            written("{source}/{batch}-{part:03}.dat", &part(2, &[])),
            Ok("q/0190163d-8694-739b-aea5-966c26f8ad91-002.dat".to_owned())
        );
    }

    #[test]
    fn a_path_that_several_parts_may_have_is_refused() {
        for template in [
            "orders.txt",
            "{batch}.txt",
            "{part}.txt",
            "{date:%Y}/{part}/{key}",
        ] {
            let error = written(template, &keyed()).unwrap_err();
            let words = "expected one with `{sequence}`, or with `{batch}` and `{part}`";
            assert!(error.contains(words), "{template}: {error}");
        }
        let error = written("{sequence}", &keyed()).unwrap_err();
        assert_has(&error, &["expected `{key}` beside `{sequence}`"]);
        written("{sequence}/{batch}", &keyed()).unwrap();
        let error = written("{key}/{sequence}", &part(2, &[])).unwrap_err();
        assert!(error.contains("a batch without a batch key"), "{error}");
    }

    #[test]
    fn a_path_whose_values_run_into_each_other_is_refused() {
        for (template, words) in [
            ("{key}{sequence}", "a character that is no digit"),
            ("{key}1{sequence}", "a character that is no digit"),
            (
                "{key}{date:%Y%m%d}{sequence}",
                "a character that is no digit",
            ),
            ("{key}/{part}{sequence}", "a character that is no digit"),
            ("{source}/{sequence}{key}", "a character that is no digit"),
            ("{source}-{key}/{sequence}", "`/` or `=`"),
            ("{source}-{sequence}-{key}", "`/` or `=`"),
            ("{key}{sequence:06}{source}", "`/` or `=`"),
        ] {
            let error = written(template, &keyed()).unwrap_err();
            assert!(error.contains(words), "{template}: {error}");
        }
        for template in [
            "{key}{sequence:06}",
            "{key}-{sequence}",
            "{source}/{key}_{date:%Y%m%d}{sequence:04}",
            "source={source}/{date:%Y/%m}/{key}.{sequence}",
            "{key}{batch}{part}",
        ] {
            written(template, &keyed()).unwrap();
        }
    }

    #[test]
    fn a_path_stays_below_the_sink_and_off_its_own_files() {
        for (template, words) in [
            ("/{sequence}", "an empty step"),
            ("a//{sequence}", "an empty step"),
            ("../{sequence}", "begins with a dot"),
            (".{sequence}", "begins with a dot"),
            ("a b{sequence}", "the character ` `"),
            ("{date:%H:%M}{sequence}", "the character `:`"),
            ("{sequence}.rejects", "the end `.rejects`"),
            ("{sequence:>9}", "width: got spaces in a path"),
            ("{count}{sequence}", "placeholder `{count}`: unknown"),
        ] {
            let error = written(template, &keyed()).unwrap_err();
            assert!(error.contains(words), "{template}: {words} in {error}");
        }
        let error = written(&format!("{}/{{sequence}}", "x".repeat(223)), &part(0, &[]));
        assert!(error.is_err());
        let long = Part {
            batch_key: Some("x".repeat(200).parse().unwrap()),
            ..keyed()
        };
        let error = written(&format!("{{key}}/{}/{{sequence}}", "x".repeat(100)), &long);
        let error = error.unwrap_err();
        assert!(error.contains("expected at most 223 bytes"), "{error}");
    }
}
