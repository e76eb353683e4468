//! Which configurations of sinks are accepted, and how the others are reported.

use shared::config::{ConfigError, ConfigFile, Settings};

use super::*;
use forms::{Encoding, LineEnd};

fn read(set: &[(&str, &str)]) -> Result<SinkConfig, ConfigError> {
    let lookup = |name: &str| {
        let mut set = set.iter().chain(&[("SINK", "log:")]);
        let found = set.find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let mut reader = Reader::new(&lookup);
    let config = SinkConfig::read(&mut reader);
    reader.finish(Some(config))
}

const COLUMNS: &str = r#"[{"name":"id","json":"id","width":3},{"name":"seq","field":"seq"}]"#;

fn problem(extra: &[(&str, &str)]) -> String {
    let error = read(extra).unwrap_err();
    assert_eq!(error.problems.len(), 1, "{error}");
    error.problems[0].clone()
}

/// Checks that each set of variables has one problem, which has these words and no password.
fn assert_problems(cases: &[(&[(&str, &str)], &str)]) {
    for (set, words) in cases {
        let problem = problem(set);
        assert!(problem.contains(words), "{words} in {problem}");
        assert!(!problem.contains("hunter2"), "{problem}");
    }
}

#[test]
fn columns_go_with_the_formats_that_have_them() {
    let csv = |header| {
        read(&[
            ("SINK_FORMAT", "csv"),
            ("SINK_COLUMNS", COLUMNS),
            ("SINK_HEADER", header),
        ])
    };
    for (header, expected) in [("", true), ("on", true), ("off", false)] {
        let Format::Csv { columns, header } = csv(header).unwrap().rendering.format else {
            panic!("no csv");
        };
        assert_eq!((columns.len(), header), (2, expected));
    }
    assert_problems(&[
        (
            &[("SINK_FORMAT", "csv")],
            "`SINK_COLUMNS`: not set: `SINK_FORMAT` needs it",
        ),
        (
            &[("SINK_COLUMNS", COLUMNS)],
            "`SINK_COLUMNS` is set, but only",
        ),
        (
            &[("SINK_FORMAT", "body"), ("SINK_COLUMNS", COLUMNS)],
            "`SINK_COLUMNS` is set, but only",
        ),
        (
            &[("SINK_FORMAT", "fixed-width"), ("SINK_COLUMNS", COLUMNS)],
            "column `seq` has no `width`",
        ),
        (
            &[("SINK_FORMAT", "csv"), ("SINK_COLUMNS", "[]")],
            "`SINK_COLUMNS`: wrong value: got `[]`: no columns",
        ),
    ]);
}

#[test]
fn an_endpoint_needs_a_reject_store_if_the_format_can_reject() {
    let url = ("SINK", "https://host/path");
    read(&[url]).unwrap();
    let file = ("SINK_REJECTS", "file:///rejects");
    let config = read(&[url, ("SINK_FORMAT", "body"), file]).unwrap();
    assert_eq!(config.rejects, Some("file:///rejects".parse().unwrap()));
    assert_problems(&[
        (
            &[url, ("SINK_FORMAT", "body")],
            "`SINK_REJECTS`: not set: `SINK_FORMAT` `body` needs it",
        ),
        (
            &[url, ("SINK_REJECTS", "https://host/rejects")],
            "`SINK_REJECTS`: wrong value: got `https://host/rejects`: expected `file:///directory`",
        ),
        (
            &[("SINK", "file:///parts"), file],
            "`SINK_REJECTS` is set, but only `SINK` `https:`",
        ),
    ]);
}

#[test]
fn a_secret_is_for_an_endpoint_and_in_no_error() {
    let url = ("SINK", "https://host/path");
    let name = ("SINK_SECRET", "secretsmanager:key");
    let secret = read(&[url, name]).unwrap().secret.unwrap();
    assert_eq!(secret.name, "secretsmanager:key".parse().unwrap());
    assert_eq!(
        (secret.header.as_str(), secret.port),
        ("authorization", 2_773)
    );
    let header = ("SINK_SECRET_HEADER", "x-api-key");
    let config = read(&[
        url,
        name,
        header,
        ("PARAMETERS_SECRETS_EXTENSION_HTTP_PORT", "80"),
    ])
    .unwrap();
    let secret = config.secret.unwrap();
    assert_eq!((secret.header.as_str(), secret.port), ("x-api-key", 80));
    assert_problems(&[
        (
            &[name],
            "`SINK_SECRET` is set, but only `SINK` `https:`, `postgres:` and `sftp:` read it",
        ),
        (
            &[url, header],
            "`SINK_SECRET_HEADER` is set, but `SINK_SECRET` is not",
        ),
        (
            &[url, name, ("SINK_SECRET_HEADER", "batch-id")],
            "`SINK_SECRET_HEADER`: wrong value: got `batch-id`: expected a header that the sink does not set itself",
        ),
        (
            &[url, name, ("PARAMETERS_SECRETS_EXTENSION_HTTP_PORT", "0")],
            "`PARAMETERS_SECRETS_EXTENSION_HTTP_PORT`: wrong value: got `0`, expected a port from 1 to 65535",
        ),
        (
            &[url, ("SINK_SECRET", "hunter2")],
            "`SINK_SECRET`: wrong value (not shown): expected `secretsmanager:<name or ARN>`",
        ),
    ]);
    let wrong = [
        url,
        ("SINK_SECRET", "hunter2"),
        ("SINK_SECRET_HEADER", "Host"),
        ("PARAMETERS_SECRETS_EXTENSION_HTTP_PORT", "x"),
    ];
    assert_eq!(read(&wrong).unwrap_err().problems.len(), 3);
}

#[test]
fn functions_and_state_machines_need_stores_for_rejects_and_compressed_parts() {
    let payloads = ("SINK_PAYLOADS", "s3://bucket/parts");
    let rejects = ("SINK_REJECTS", "s3://bucket/rejects");
    let zstd = ("SINK_COMPRESSION", "zstd");
    for arn in [
        "arn:aws:lambda:eu-west-1:123456789012:function:f",
        "arn:aws:states:eu-west-1:123456789012:stateMachine:m",
    ] {
        let sink = ("SINK", arn);
        read(&[sink]).unwrap();
        // A function may reject records even if the format rejects none.
        read(&[sink, rejects]).unwrap();
        let config = read(&[sink, zstd, payloads]).unwrap();
        assert_eq!(config.payloads, Some("s3://bucket/parts".parse().unwrap()));
        assert_problems(&[
            (
                &[sink, zstd],
                "`SINK_PAYLOADS`: not set: `SINK_COMPRESSION` `zstd` needs it",
            ),
            (
                &[sink, ("SINK_FORMAT", "body")],
                "`SINK_REJECTS`: not set: `SINK_FORMAT` `body` needs it",
            ),
            (
                &[sink, zstd, ("SINK_PAYLOADS", "file:///parts")],
                "`SINK_PAYLOADS`: wrong value: got `file:///parts`: expected `s3://bucket/prefix`",
            ),
            (
                &[sink, ("SINK_REJECTS", arn)],
                "`SINK_REJECTS`: wrong value: got `arn:",
            ),
        ]);
    }
    assert_problems(&[(&[payloads], "`SINK_PAYLOADS` is set, but only")]);
}

#[test]
fn a_database_has_its_password_from_one_place() {
    let url = ("SINK", "postgres://user@host/legacy");
    let secret = ("SINK_SECRET", "ssm:/legacy/password");
    let password = ("SINK_PASSWORD", "hunter2");
    let config = read(&[url, secret]).unwrap();
    let name = config.secret.map(|secret| secret.name.to_string());
    assert_eq!(name.as_deref(), Some("ssm:/legacy/password"));
    let config = read(&[url, password]).unwrap();
    assert_eq!(config.password.unwrap().expose(), "hunter2");
    assert_problems(&[
        (
            &[url, secret, password],
            "`SINK_PASSWORD` and `SINK_SECRET` are both set",
        ),
        (&[password], "`SINK_PASSWORD` is set, but only"),
    ]);
}

#[test]
fn a_server_needs_a_host_key_and_a_secret() {
    let url = ("SINK", "sftp://legacy@host:2222/in");
    let key = (
        "SINK_HOST_KEY",
        "SHA256:uNiVztksCsDhcc0u9e8BrYqMq6Tk4d1Dr3pTeVYq5mI",
    );
    let secret = ("SINK_SECRET", "ssm:/legacy/key");
    let password = ("SINK_PASSWORD", "hunter2");
    assert!(read(&[url, key, secret]).unwrap().secret.is_some());
    let config = read(&[url, key, password]).unwrap();
    assert_eq!(config.password.unwrap().expose(), "hunter2");
    assert_problems(&[
        (
            &[url, secret],
            "`SINK_HOST_KEY`: not set: `SINK` `sftp:` needs it",
        ),
        (
            &[url, key],
            "`SINK_SECRET`: not set: `SINK` `sftp:` needs it or `SINK_PASSWORD`",
        ),
        (&[key], "`SINK_HOST_KEY` is set, but only `SINK` `sftp:`"),
        (
            &[url, secret, ("SINK_HOST_KEY", "host")],
            "`SINK_HOST_KEY`: wrong value: got `host`: `host` is not a host key",
        ),
        (
            &[url, key, secret, password],
            "`SINK_PASSWORD` and `SINK_SECRET` are both set",
        ),
        (
            &[("SINK", "sftp://legacy@host"), ("SINK_TIMEOUT", "5")],
            "`SINK`: wrong value: got `sftp://…@host`: the path is missing",
        ),
    ]);
}

#[test]
fn the_fingerprint_of_a_server_has_the_user_the_host_and_the_path_and_no_key() {
    let fingerprint = |url, key, password| {
        let set = [
            ("SINK", url),
            ("SINK_HOST_KEY", key),
            ("SINK_PASSWORD", password),
        ];
        read(&set).unwrap().fingerprint
    };
    const ONE: &str = "SHA256:uNiVztksCsDhcc0u9e8BrYqMq6Tk4d1Dr3pTeVYq5mI";
    const OTHER: &str = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
    let first = fingerprint("sftp://legacy@host/in", ONE, "a");
    assert!(
        first.ends_with("envelope, none, sftp://legacy@host/in"),
        "{first}"
    );
    // The same place, whatever its key and password.
    assert_eq!(first, fingerprint("sftp://legacy@host:22/in/", OTHER, "b"));
    for other in [
        "sftp://other@host/in",
        "sftp://legacy@host:2222/in",
        "sftp://legacy@host/out",
    ] {
        assert_ne!(first, fingerprint(other, ONE, "a"));
    }
}

#[test]
fn the_limit_of_rejects_of_a_part_is_a_bounded_number() {
    let url = ("SINK", "postgres://user@host/legacy");
    for right in ["0", "1000000"] {
        read(&[url, ("SINK_REJECTS_MAX", right)]).unwrap();
    }
    for wrong in ["1000001", "-1", "all"] {
        assert_eq!(
            problem(&[url, ("SINK_REJECTS_MAX", wrong)]),
            format!(
                "`SINK_REJECTS_MAX`: wrong value: got `{wrong}`, expected a whole number of records from 0 to 1000000"
            )
        );
    }
}

#[test]
fn encodings_and_line_ends_go_with_formats_that_are_texts() {
    let body = ("SINK_FORMAT", "body");
    let ebcdic = ("SINK_ENCODING", "ebcdic-cp037");
    let config = read(&[body, ebcdic, ("SINK_LINE_END", "nel")]);
    let layout = config.unwrap().rendering.layout;
    assert_eq!(
        (layout.encoding, layout.line_end),
        (Encoding::EbcdicCp037, LineEnd::Nel)
    );
    let fixed = [
        ("SINK_FORMAT", "fixed-width"),
        (
            "SINK_COLUMNS",
            r#"[{"name":"é","json":"@","width":3,"pad":"€"}]"#,
        ),
    ];
    read(&[fixed[0], fixed[1], ("SINK_ENCODING", "windows-1252")]).unwrap();
    assert_problems(&[
        (
            &[ebcdic],
            "`SINK_ENCODING`: set with `SINK_FORMAT` `envelope`, expected it with `body`,",
        ),
        (
            &[body, ("SINK_ENCODING", "latin-1")],
            "`SINK_ENCODING`: wrong value: got `latin-1`, expected `utf-8`, `iso-8859-1`, ",
        ),
        (
            &[body, ("SINK_LINE_END", "nel")],
            "`SINK_LINE_END`: wrong line end: got `nel` with `SINK_ENCODING` `utf-8`",
        ),
        (
            &[body, ebcdic, ("SINK_LINE_END", "none")],
            "`SINK_LINE_END`: wrong line end: got `none` with `SINK_FORMAT` `body`",
        ),
        (
            &[fixed[0], fixed[1], ebcdic],
            "`SINK_COLUMNS`: got the character `€` (U+20AC), expected characters of `SINK_ENCODING` `ebcdic-cp037`",
        ),
    ]);
}

#[test]
fn a_fingerprint_changes_with_the_layout_and_is_the_former_one_without() {
    let fingerprint = |extra: &[(&str, &str)]| read(extra).unwrap().fingerprint;
    let body = ("SINK_FORMAT", "body");
    let plain = fingerprint(&[body]);
    // As version 0.2.0 wrote it with the variables of its template: parts that it froze must be deliverable.
    assert_eq!(plain, fingerprint(&[body, ("SINK_TABLE", "events")]));
    assert_eq!(plain, "c1494f9028ba, body, none, log:");
    let crlf = ("SINK_LINE_END", "crlf");
    let latin = ("SINK_ENCODING", "iso-8859-1");
    assert_eq!(
        plain,
        fingerprint(&[body, ("SINK_ENCODING", "utf-8"), ("SINK_TIME_ZONE", "UTC")])
    );
    let all = [
        plain.clone(),
        fingerprint(&[body, ("SINK_HEADER_RECORD", "H")]),
        fingerprint(&[body, ("SINK_TRAILER_RECORD", "H")]),
        fingerprint(&[
            body,
            ("SINK_TIME_ZONE", "UTC"),
            crlf,
            ("SINK_HEADER_RECORD", "H"),
        ]),
        fingerprint(&[body, crlf]),
        fingerprint(&[body, latin]),
        fingerprint(&[body, latin, crlf]),
    ];
    let different: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn headers_and_trailers_go_with_the_columns_and_the_line_end() {
    let fixed = ("SINK_FORMAT", "fixed-width");
    let columns = (
        "SINK_COLUMNS",
        r#"[{"name":"id","json":"id","width":3},{"name":"amount","json":"amount","width":6}]"#,
    );
    let trailer = ("SINK_TRAILER_RECORD", "T{sum:amount:08}");
    let header = ("SINK_HEADER_RECORD", "H{date:%Y%m%d}");
    let ebcdic = ("SINK_ENCODING", "ebcdic-cp500");
    let none = ("SINK_LINE_END", "none");
    let config = read(&[fixed, columns, header, trailer, ebcdic, none]).unwrap();
    assert!(config.rendering.layout.header.is_some());
    assert_problems(&[
        (
            &[trailer],
            "`SINK_TRAILER_RECORD`: wrong value: got `T{sum:amount:08}`: placeholder `{sum:amount:08}`: column: got `amount`",
        ),
        (
            &[header],
            "`SINK_HEADER_RECORD`: set with `SINK_FORMAT` `envelope`",
        ),
        (
            &[fixed, columns, ebcdic, none, ("SINK_HEADER_RECORD", "H")],
            "`SINK_HEADER_RECORD`: got `1` characters with `SINK_LINE_END` `none`, expected the `9` characters of each record",
        ),
        (
            &[
                fixed,
                columns,
                ebcdic,
                none,
                ("SINK_TRAILER_RECORD", "T{count}"),
            ],
            "`SINK_TRAILER_RECORD`: got the placeholder `{count}` without a width",
        ),
        (
            &[fixed, columns, ebcdic, ("SINK_HEADER_RECORD", "€")],
            "`SINK_HEADER_RECORD`: got the character `€` (U+20AC), expected characters of",
        ),
        (
            &[("SINK_TIME_ZONE", "Mars")],
            "`SINK_TIME_ZONE`: wrong value: got `Mars`: expected `UTC`",
        ),
    ]);
}

#[test]
fn a_path_goes_with_files_and_objects() {
    let path = ("SINK_PATH", "{key}/ORDERS_{sequence:06}.txt");
    let file = ("SINK", "file:///out");
    let layout = read(&[file, path]).unwrap().rendering.layout;
    assert!(layout.needs_sequence());
    let by_batch = ("SINK_PATH", "{batch}/{part}.dat");
    let layout = read(&[file, by_batch]).unwrap().rendering.layout;
    assert!(!layout.needs_sequence());
    assert_eq!(
        problem(&[path]),
        "`SINK_PATH` is set, but only `SINK` `file:`, `s3:` and `sftp:` read it"
    );
    let problem = problem(&[file, ("SINK_PATH", "orders.txt")]);
    assert!(
        problem.starts_with("`SINK_PATH`: wrong value: got `orders.txt`: path: got the same path"),
        "{problem}"
    );
}

#[test]
fn a_parquet_file_has_columns_and_is_compressed_inside() {
    let format = ("SINK_FORMAT", "parquet");
    let columns = ("SINK_COLUMNS", r#"[{"name":"a","json":"a"}]"#);
    let file = ("SINK", "file:///out");
    let of = |compression| {
        let compression = ("SINK_COMPRESSION", compression);
        read(&[file, format, columns, compression]).unwrap()
    };
    let (plain, zstd) = (of("none"), of("zstd"));
    for config in [&plain, &zstd] {
        assert_eq!(config.rendering.name(0), "0.parquet");
        assert_eq!(config.rendering.compression, Compression::None);
    }
    assert_ne!(plain.rendering, zstd.rendering);
    assert_ne!(plain.fingerprint, zstd.fingerprint);
    assert!(zstd.fingerprint.contains(", parquet, zstd, file:///out"));
    for (extra, words) in [
        (
            ("SINK_COMPRESSION", "gzip"),
            "`SINK_FORMAT`: wrong value: got `parquet`: `gzip` cannot compress inside the file, expected `none` or `zstd`",
        ),
        (
            ("SINK_ENCODING", "windows-1252"),
            "`SINK_ENCODING`: set with `SINK_FORMAT` `parquet`, expected it with `body`, `csv` or `fixed-width`",
        ),
        (
            ("SINK_LINE_END", "crlf"),
            "`SINK_LINE_END`: set with `SINK_FORMAT` `parquet`",
        ),
        (
            ("SINK_TRAILER_RECORD", "T{count}"),
            "`SINK_TRAILER_RECORD`: set with `SINK_FORMAT` `parquet`",
        ),
    ] {
        let problem = problem(&[file, format, columns, extra]);
        assert!(problem.contains(words), "{words} in {problem}");
    }
    let problem = problem(&[file, format]);
    assert!(problem.contains("`SINK_COLUMNS`: not set"), "{problem}");
}

#[test]
fn a_table_of_another_form_in_the_file_is_one_problem() {
    let text = "[sink]\nuri = \"postgres://user@host/database\"\ntable = 5\n";
    let file = ConfigFile::parse("service.toml", text.to_owned()).unwrap();
    let mut reader = Reader::of(Settings::new(&|_| None, Some(&file)));
    let config = SinkConfig::read(&mut reader);
    let problems = reader.finish(Some(config)).unwrap_err().problems;
    let of_the_table = problems.iter().filter(|each| each.contains("sink.table"));
    assert_eq!(of_the_table.count(), 1, "{problems:?}");
}

#[test]
fn proof_needs_a_sink_with_manifests() {
    for sink in ["file:///data/batches", "s3://bucket/prefix"] {
        assert!(read(&[("SINK", sink), ("PROOF", "on")]).unwrap().proof);
        assert!(!read(&[("SINK", sink)]).unwrap().proof);
    }
    let words = "`PROOF`: got `on` with `SINK` `log:`, which writes no manifests, expected `file:`, `s3:` or `sftp:`";
    assert_problems(&[(&[("PROOF", "on")], words)]);
    assert!(!read(&[("PROOF", "off")]).unwrap().proof);
}
