use std::env;
use std::io;

use tracing_subscriber::filter::LevelFilter;

/// Sets up logging to standard output by Lambda's variables: `AWS_LAMBDA_LOG_LEVEL` (default `INFO`) and
/// `AWS_LAMBDA_LOG_FORMAT`, which may be `JSON`.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-logs.html> (2026-08).
///
/// The runtime's own set-up does the same and filters by target, which would add two engines of regular expressions to
/// the executable.
pub fn init_logs() {
    let level = env::var("AWS_LAMBDA_LOG_LEVEL").unwrap_or_default();
    let lines = tracing_subscriber::fmt()
        .with_max_level(level_of(&level))
        .with_target(false)
        .without_time()
        .with_writer(io::stdout);
    let format = env::var("AWS_LAMBDA_LOG_FORMAT").unwrap_or_default();
    if format.eq_ignore_ascii_case("json") {
        lines.json().init();
    } else {
        lines.init();
    }
}

/// Returns the level, `INFO` for an unknown text. `FATAL` exists on Lambda only, and becomes `ERROR`.
fn level_of(text: &str) -> LevelFilter {
    match text {
        fatal if fatal.eq_ignore_ascii_case("FATAL") => LevelFilter::ERROR,
        "" => LevelFilter::INFO,
        other => other.parse().unwrap_or(LevelFilter::INFO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lambdas_log_levels_are_known() {
        for (text, level) in [
            ("", LevelFilter::INFO),
            ("TRACE", LevelFilter::TRACE),
            ("DEBUG", LevelFilter::DEBUG),
            ("INFO", LevelFilter::INFO),
            ("warn", LevelFilter::WARN),
            ("ERROR", LevelFilter::ERROR),
            ("FATAL", LevelFilter::ERROR),
            ("loud", LevelFilter::INFO),
        ] {
            assert_eq!(level_of(text), level, "{text}");
        }
    }
}
