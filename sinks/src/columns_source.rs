//! Where `SINK_COLUMNS` has its columns: in the variable, in a file, or in an object of S3.
//!
//! A function has 4 KB for all its variables together, which some forty columns fill. Columns that are elsewhere are read
//! once, at the cold start, before the configuration is read; what goes wrong is in its list of problems with all the rest.
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html> (2026-11).

use aws::read_document;
use shared::config::{ConfigError, Settings};

use crate::config::form::SINK_COLUMNS;
use forms::Columns;

/// The longest list of columns: some thousands.
const COLUMNS_BYTES_MAX: u64 = 256 * 1_024;
/// The allowed forms of the columns.
const EXPECTED: &str = "expected a JSON list of columns, or `file:///path` or `s3://bucket/key` with one of at most 262144 bytes";
/// Takes the place of columns that cannot be read, so that their absence is not a problem as well: any format has it.
const IN_THEIR_PLACE: &str = r#"[{"name":"seq","field":"seq","width":1}]"#;

/// Reads a configuration by `read`, with the columns from where `SINK_COLUMNS` says they are.
///
/// # Errors
/// [`ConfigError`] with every problem.
pub async fn with_columns<C>(
    settings: Settings<'_>,
    read: impl Fn(Settings<'_>) -> Result<C, ConfigError>,
) -> Result<C, ConfigError> {
    let uri = settings.value(&SINK_COLUMNS);
    let Some(uri) = uri.filter(|uri| uri.starts_with("file:") || uri.starts_with("s3:")) else {
        return read(settings);
    };
    let columns = read_document(&uri, COLUMNS_BYTES_MAX).await;
    in_place(settings, read, &uri, columns)
}

/// Reads the configuration with `columns`, which were read from `uri`.
fn in_place<C>(
    settings: Settings<'_>,
    read: impl Fn(Settings<'_>) -> Result<C, ConfigError>,
    uri: &str,
    columns: Result<String, String>,
) -> Result<C, ConfigError> {
    // Read here, where a problem can name the URI: the configuration would show all of the text.
    let columns = columns.and_then(|text| match text.parse::<Columns>() {
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string()),
    });
    let (text, problem) = match columns {
        Ok(text) => (text, None),
        Err(words) => {
            let named = settings.named(&SINK_COLUMNS);
            let problem = format!("{named}: wrong value: got `{uri}`: {words}, {EXPECTED}");
            (IN_THEIR_PLACE.to_owned(), Some(problem))
        }
    };
    let config = read(settings.with_variables(&|name| match name {
        name if name == SINK_COLUMNS.name => Some(text.clone()),
        _ => settings.variable(name),
    }));
    ConfigError::unless(config, problem)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use shared::config::Reader;

    use crate::kind::SinkConfig;
    use crate::tests_support::assert_has;
    use forms::Format;

    const COLUMNS: &str = r#"[{"name":"id","json":"id"},{"name":"seq","field":"seq"}]"#;

    fn lookup(columns: &str, timeout: &str) -> impl Fn(&str) -> Option<String> {
        let set = [
            ("SINK", "log:"),
            ("SINK_FORMAT", "csv"),
            ("SINK_COLUMNS", columns),
            ("SINK_TIMEOUT", timeout),
        ]
        .map(|(name, value)| (name, value.to_owned()));
        move |name| {
            let set = set.iter().find(|(key, _)| *key == name);
            set.map(|(_, value)| value.clone())
        }
    }

    fn parse(settings: Settings<'_>) -> Result<SinkConfig, ConfigError> {
        let mut reader = Reader::of(settings);
        let config = SinkConfig::read(&mut reader);
        reader.finish(Some(config))
    }

    async fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<SinkConfig, ConfigError> {
        with_columns(Settings::new(lookup, None), parse).await
    }

    fn names(config: Result<SinkConfig, ConfigError>) -> usize {
        match config.unwrap().rendering.format {
            Format::Csv { columns, .. } => columns.len(),
            other => panic!("{other:?}"),
        }
    }

    async fn problem(columns: &str) -> String {
        let error = read(&lookup(columns, "60")).await.unwrap_err();
        assert_eq!(error.problems.len(), 1, "{error}");
        error.problems[0].clone()
    }

    fn file(directory: &tempfile::TempDir, text: &[u8]) -> (PathBuf, String) {
        let path = directory.path().join("columns.json");
        std::fs::write(&path, text).unwrap();
        let uri = format!("file://{}", path.display());
        (path, uri)
    }

    #[tokio::test]
    async fn columns_are_in_the_variable_or_in_a_file() {
        assert_eq!(names(read(&lookup(COLUMNS, "60")).await), 2);
        let directory = tempfile::tempdir().unwrap();
        let (_, uri) = file(&directory, format!("{COLUMNS}\n").as_bytes());
        assert_eq!(names(read(&lookup(&uri, "60")).await), 2);
        assert_eq!(names(read(&lookup(&format!(" {uri} "), "60")).await), 2);
    }

    #[tokio::test]
    async fn columns_that_cannot_be_read_are_one_problem_with_place_and_what_is_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, uri) = file(&directory, b"");
        let missing = format!("{uri}.not");
        let below = format!("{uri}/x");
        for (uri, words) in [
            (&*missing, "No such file or directory"),
            (&below, "Not a directory"),
            (&uri, "no JSON list of columns: "),
            ("file:///", "no path of a file"),
            ("file://host/columns", "no path of a file"),
            ("file:columns", "no path of a file"),
            ("s3:", "no bucket and key of an object"),
            ("s3://bucket", "no bucket and key of an object"),
            ("s3://bucket/", "no bucket and key of an object"),
            ("s3://B/key", "no bucket and key of an object"),
            ("s3:bucket/key", "no bucket and key of an object"),
        ] {
            let problem = problem(uri).await;
            let begins = format!("`SINK_COLUMNS`: wrong value: got `{uri}`: {words}");
            assert!(problem.starts_with(&begins), "{begins} in {problem}");
            assert!(problem.ends_with(EXPECTED), "{problem}");
        }
        for (bytes, words) in [
            (
                &br#"[{"name":"a","json":"a["}]"#[..],
                "column `a`: `json`: wrong value: got `a[`",
            ),
            (b"[\xff]", "invalid utf-8"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let problem = problem(&uri).await;
            assert!(problem.contains(words), "{words} in {problem}");
        }
    }

    #[tokio::test]
    async fn a_file_has_at_most_256_kilobytes() {
        let directory = tempfile::tempdir().unwrap();
        let padded = |bytes: usize| {
            let mut text = COLUMNS.as_bytes().to_vec();
            text.resize(bytes, b' ');
            text
        };
        let (path, uri) = file(&directory, &padded(256 * 1_024));
        assert_eq!(names(read(&lookup(&uri, "60")).await), 2);
        std::fs::write(path, padded(256 * 1_024 + 1)).unwrap();
        let problem = problem(&uri).await;
        assert_has(&problem, &[": too large: expected at most"]);
        assert!(EXPECTED.contains(&COLUMNS_BYTES_MAX.to_string()));
    }

    #[tokio::test]
    async fn unreadable_columns_are_reported_with_every_other_problem() {
        let error = read(&lookup("file:///nonexistent/columns.json", "0")).await;
        let error = error.unwrap_err();
        assert_eq!(error.problems.len(), 2, "{error}");
        let text = error.to_string();
        for words in [
            "`SINK_TIMEOUT`: wrong value: got `0`",
            "`SINK_COLUMNS`: wrong value: got `file:///n",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }

    mod elsewhere {
        use std::time::Duration;

        use aws::read_with;

        use super::*;
        use crate::stand_in::StandIn;

        const PATH: &str = "/bucket/a/columns.json";
        const OBJECT: &str = "s3://bucket/a/columns.json";
        const PARAMETER: &str = "ssm:/service/config";
        const ATTEMPTS_MAX: usize = 3;
        const EVERY: Duration = Duration::from_millis(1);

        async fn fetched(stand_in: &StandIn, uri: &str) -> Result<String, String> {
            read_with(&stand_in.sdk(), uri, COLUMNS_BYTES_MAX, EVERY).await
        }

        #[tokio::test]
        async fn an_object_is_read_as_soon_as_s3_can() {
            let s3 = StandIn::start().await;
            s3.put(PATH, COLUMNS);
            let columns = fetched(&s3, OBJECT).await;
            let lookup = lookup(OBJECT, "60");
            let config = in_place(Settings::new(&lookup, None), parse, OBJECT, columns);
            assert_eq!(names(config), 2);
            for _ in 1..ATTEMPTS_MAX {
                s3.answer(503, "<Error><Code>SlowDown</Code></Error>");
            }
            fetched(&s3, OBJECT).await.unwrap();
            assert_eq!(s3.requests().len(), 1 + ATTEMPTS_MAX);
        }

        #[tokio::test]
        async fn an_object_that_is_missing_or_too_large_is_reported_without_a_retry() {
            let s3 = StandIn::start().await;
            let words = fetched(&s3, OBJECT).await.unwrap_err();
            assert_eq!(words, "there is no such object (attempt 1)");
            s3.put(PATH, " ".repeat(256 * 1_024 + 1).leak());
            let words = fetched(&s3, OBJECT).await.unwrap_err();
            assert!(words.contains("too large: got 262145 bytes"), "{words}");
            assert_eq!(s3.requests().len(), 2);
        }

        #[tokio::test]
        async fn a_parameter_is_asked_for_with_a_signature() {
            let ssm = StandIn::start().await;
            ssm.answer(
                200,
                r#"{"Parameter":{"Name":"/service/config","Value":"[sink]\n"}}"#,
            );
            assert_eq!(fetched(&ssm, PARAMETER).await.unwrap(), "[sink]\n");
            let request = &ssm.requests()[0];
            assert_eq!(request.method.as_str(), "POST");
            assert_eq!(request.headers["x-amz-target"], "AmazonSSM.GetParameter");
            let signature = &request.headers["authorization"];
            assert!(
                signature.starts_with("AWS4-HMAC-SHA256 Credential="),
                "{signature}"
            );
            assert_has(signature, &["/eu-west-1/ssm/aws4_request"]);
            let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            assert_eq!(body["Name"], "/service/config");
            assert_eq!(body["WithDecryption"], true);
        }

        #[tokio::test]
        async fn what_passes_is_tried_three_times_and_what_does_not_once() {
            let xml = |code: &str| format!("<Error><Code>{code}</Code></Error>");
            let json = |code: &str| format!(r#"{{"__type":"{code}","message":"words"}}"#);
            for (uri, status, code, asked) in [
                (PARAMETER, 400, "ThrottlingException", ATTEMPTS_MAX),
                (PARAMETER, 500, "InternalServerError", ATTEMPTS_MAX),
                (PARAMETER, 400, "com.amazonaws#ParameterNotFound", 1),
                (PARAMETER, 400, "AccessDeniedException", 1),
                (OBJECT, 503, "SlowDown", ATTEMPTS_MAX),
                (OBJECT, 403, "AccessDenied", 1),
                (OBJECT, 404, "NoSuchBucket", 1),
            ] {
                let answer = if uri == OBJECT { xml(code) } else { json(code) };
                let stand_in = StandIn::start().await;
                (0..ATTEMPTS_MAX).for_each(|_| stand_in.answer(status, &answer));
                let words = fetched(&stand_in, uri).await.unwrap_err();
                let code = code.rsplit('#').next().unwrap();
                assert!(words.contains(code), "{code} in {words}");
                let attempt = format!("(attempt {asked})");
                assert!(words.ends_with(&attempt), "{words}");
                assert_eq!(stand_in.requests().len(), asked, "{code}");
            }
        }
    }
}
