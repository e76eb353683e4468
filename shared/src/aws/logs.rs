use std::env;
use std::io;

use tracing_subscriber::filter::LevelFilter;

/// Writes what is logged to standard output, a line each, as Lambda's logging controls say: `AWS_LAMBDA_LOG_LEVEL`
/// (`INFO`), and `AWS_LAMBDA_LOG_FORMAT`, which may be `JSON`.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-logs.html> (2026-08).
///
/// It does what the runtime's own does, without filters by target: those bring two engines of regular expressions.
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

/// The level, and `INFO` for what is none; `FATAL` is Lambda's, and less than our least.
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
    fn levels_are_those_of_lambda() {
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
