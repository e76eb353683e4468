//! Where `SINK_COLUMNS` has its columns: in the variable, in a file, or in an object of S3.
//!
//! A function has 4 KB for all its variables together, which some forty columns fill. Columns that are elsewhere are read
//! once, at the cold start, before the configuration is read; what goes wrong is in its list of problems with all the rest.
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html> (2026-11).

#[cfg(feature = "full")]
mod object;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use shared::config::ConfigError;

use crate::columns::Columns;
use crate::config::SINK_COLUMNS;
#[cfg(feature = "full")]
use object::in_s3;

/// The longest list of columns: some thousands.
const COLUMNS_BYTES_MAX: u64 = 256 * 1_024;
/// What columns may be that are elsewhere.
const EXPECTED: &str = "expected a JSON list of columns, or `file:///path` or `s3://bucket/key` with one of at most 262144 bytes";
/// Takes the place of columns that cannot be read, so that their absence is not a problem as well: any format has it.
const IN_THEIR_PLACE: &str = r#"[{"name":"seq","field":"seq","width":1}]"#;

/// How a variable is looked up.
pub type Lookup<'l> = &'l dyn Fn(&str) -> Option<String>;

/// Reads a configuration through `lookup` by `read`, with the columns from where `SINK_COLUMNS` says they are.
///
/// # Errors
/// [`ConfigError`] with every problem.
pub async fn with_columns<C>(
    lookup: Lookup<'_>,
    read: impl Fn(Lookup<'_>) -> Result<C, ConfigError>,
) -> Result<C, ConfigError> {
    let value = lookup(SINK_COLUMNS.name).unwrap_or_default();
    let value = value.trim();
    let columns = if let Some(path) = value.strip_prefix("file:") {
        in_file(path)
    } else if let Some(rest) = value.strip_prefix("s3:") {
        in_s3(rest).await
    } else {
        return read(lookup);
    };
    in_place(lookup, read, value, columns)
}

/// Reads the configuration with `columns`, which were read from `uri`.
fn in_place<C>(
    lookup: Lookup<'_>,
    read: impl Fn(Lookup<'_>) -> Result<C, ConfigError>,
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
            let problem =
                format!("`{SINK_COLUMNS}`: wrong value: got `{uri}`: {words}, {EXPECTED}");
            (IN_THEIR_PLACE.to_owned(), Some(problem))
        }
    };
    let config = read(&|name| match name {
        name if name == SINK_COLUMNS.name => Some(text.clone()),
        _ => lookup(name),
    });
    ConfigError::unless(config, problem)
}

/// The columns in the file of what follows `file:`.
fn in_file(rest: &str) -> Result<String, String> {
    let path = rest.strip_prefix("//").map(Path::new);
    let Some(path) = path.filter(|path| path.is_absolute() && path.file_name().is_some()) else {
        return Err("no path of a file".to_owned());
    };
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(path)?;
        file.take(COLUMNS_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    text(read().map_err(|error| error.to_string())?)
}

#[cfg(not(feature = "full"))]
async fn in_s3(_: &str) -> Result<String, String> {
    Err(shared::config::WITHOUT_FULL.to_owned())
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() as u64 > COLUMNS_BYTES_MAX {
        return Err("too large".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use shared::config::Reader;

    use crate::config::SinkConfig;
    use crate::format::Format;

    const COLUMNS: &str = r#"[{"name":"id","json":"id"},{"name":"seq","field":"seq"}]"#;

    fn lookup(columns: &str, timeout: &str) -> impl Fn(&str) -> Option<String> {
        let set = [
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

    fn parse(lookup: Lookup<'_>) -> Result<SinkConfig, ConfigError> {
        let mut reader = Reader::new(lookup);
        let config = SinkConfig::read(&mut reader);
        reader.finish(Some(config))
    }

    async fn read(lookup: Lookup<'_>) -> Result<SinkConfig, ConfigError> {
        with_columns(lookup, parse).await
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
        assert!(problem.contains(": too large, expected "), "{problem}");
        assert!(EXPECTED.contains(&COLUMNS_BYTES_MAX.to_string()));
    }

    #[tokio::test]
    async fn columns_that_cannot_be_read_are_told_with_every_other_problem() {
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

    #[tokio::test]
    async fn what_is_no_object_is_told_before_anything_is_asked() {
        for uri in [
            "s3:",
            "s3://bucket",
            "s3://bucket/",
            "s3://B/key",
            "s3:bucket/key",
        ] {
            let problem = problem(uri).await;
            let words =
                format!("`SINK_COLUMNS`: wrong value: got `{uri}`: no bucket and key of an object");
            assert!(problem.starts_with(&words), "{problem}");
        }
    }

    mod objects {
        use std::time::Duration;

        use super::*;
        use crate::columns_source::object::{ATTEMPTS_MAX, in_object};
        use crate::stand_in::StandIn;

        const PATH: &str = "/bucket/a/columns.json";
        const EVERY: Duration = Duration::from_millis(1);

        async fn fetched(s3: &StandIn) -> Result<String, String> {
            in_object(&s3.s3_client(), "bucket", "a/columns.json", EVERY).await
        }

        #[tokio::test]
        async fn an_object_is_read_as_soon_as_s3_can() {
            let s3 = StandIn::start().await;
            s3.put(PATH, COLUMNS);
            let config = in_place(&lookup("s3:", "60"), parse, "s3:", fetched(&s3).await);
            assert_eq!(names(config), 2);
            for _ in 1..ATTEMPTS_MAX {
                s3.answer(503, "<Error><Code>SlowDown</Code></Error>");
            }
            fetched(&s3).await.unwrap();
            assert_eq!(s3.requests().len() as u32, 1 + ATTEMPTS_MAX);
        }

        #[tokio::test]
        async fn what_passes_is_tried_five_times_and_what_does_not_once() {
            for (status, code, asked) in [
                (503, "SlowDown", ATTEMPTS_MAX),
                (403, "AccessDenied", 1),
                (404, "NoSuchBucket", 1),
            ] {
                let s3 = StandIn::start().await;
                let answer = format!("<Error><Code>{code}</Code></Error>");
                (0..ATTEMPTS_MAX).for_each(|_| s3.answer(status, &answer));
                let words = fetched(&s3).await.unwrap_err();
                assert!(words.contains(code), "{words}");
                let attempt = format!("(attempt {asked})");
                assert!(words.ends_with(&attempt), "{words}");
                assert_eq!(s3.requests().len() as u32, asked, "{code}");
            }
        }

        #[tokio::test]
        async fn an_object_that_is_not_there_or_too_large_is_told_at_once() {
            let s3 = StandIn::start().await;
            assert_eq!(fetched(&s3).await.unwrap_err(), "there is no such object");
            s3.put(PATH, " ".repeat(256 * 1_024 + 1).leak());
            let words = fetched(&s3).await.unwrap_err();
            assert!(words.contains("too large: got 262145 bytes"), "{words}");
            assert_eq!(s3.requests().len(), 2);
        }
    }
}
