//! Reads a recorded arrival file.
//!
//! A line has the time of one arrival, or a time and a number of arrivals:
//!
//! ```text
//! # one message, and 250 ms later another one
//! 0
//! 0.25
//! # 600 messages, spread evenly up to the time of the next line
//! 60,600
//! 120000ms,0
//! ```
//!
//! A time is in seconds, or in milliseconds if `ms` follows. It may be of any clock, for example Unix time: what counts is
//! the distance from the first line. Times never go back. The arrivals of a line are spread evenly up to the time of the
//! next line; those of the last line take as long as those of the line before. Empty lines and lines that begin with `#`
//! are skipped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::whole::whole;
use crate::workload::MESSAGES_MAX;

/// The longest record, in nanoseconds: 366 days.
const RECORD_NANOS_MAX: u128 = 366 * 24 * 3600 * NANOS_PER_SEC;
const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The arrivals of a file: 16 bytes for each line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// Nanoseconds since the first line, and the number of arrivals of the lines before, of every line. A line without arrivals
    /// only ends the line before.
    lines: Vec<(u64, u64)>,
    count: u64,
}

/// Why a file is not a record of arrivals.
#[derive(Debug, thiserror::Error)]
pub enum ArrivalsError {
    /// The file cannot be read.
    #[error("the arrivals: read `{file}`")]
    Read {
        file: String,
        source: std::io::Error,
    },
    /// A line is not an arrival.
    #[error("the arrivals: `{file}` line {line}: {what}")]
    Line {
        file: String,
        /// The number of the line, from 1.
        line: u64,
        what: LineError,
    },
    /// The file has no arrival.
    #[error(
        "the arrivals: `{file}` has none: expected at least one line such as `12.5` or `12500ms,40`"
    )]
    Empty { file: String },
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The text before the comma is not a time.
    #[error(
        "not a time: got `{0}`, expected seconds such as `12.5`, or milliseconds such as `12500ms`"
    )]
    Time(String),
    /// The text after the comma is not a count.
    #[error("not a count: got `{0}`, expected a whole number")]
    Count(String),
    /// The time is before that of the line before.
    #[error("the time goes back: got `{0}`, expected no time before that of the line before")]
    Back(String),
    /// The time is too far from the first one.
    #[error("wrong time: got `{0}`, expected at most 366 days after the first line")]
    Late(String),
    /// There are more arrivals than a burst may have messages.
    #[error("too many arrivals up to here: got `{0}`, expected at most {MESSAGES_MAX}")]
    Many(u64),
}

impl Arrivals {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, has no arrival, or has a line that is none; then the error names the line.
    pub fn read(path: &Path) -> Result<Self, ArrivalsError> {
        let file = || path.display().to_string();
        let read = |source| ArrivalsError::Read {
            file: file(),
            source,
        };
        let mut first = None;
        let mut arrivals = Self {
            lines: Vec::new(),
            count: 0,
        };
        let reader = BufReader::new(File::open(path).map_err(read)?);
        for (line, text) in (1..).zip(reader.lines()) {
            let added = arrivals.add(text.map_err(read)?.trim(), &mut first);
            added.map_err(|what| ArrivalsError::Line {
                file: file(),
                line,
                what,
            })?;
        }
        match arrivals.count {
            0 => Err(ArrivalsError::Empty { file: file() }),
            _ => Ok(arrivals),
        }
    }

    /// Returns the number of arrivals; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one arrival")]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Returns the time of an arrival, in nanoseconds after the first line.
    ///
    /// # Panics
    /// If `index` is not below [`Arrivals::len`].
    pub(crate) fn nanos(&self, index: u64) -> u64 {
        assert!(index < self.count, "arrival {index} of {}", self.count);
        let at = self.lines.partition_point(|(_, before)| *before <= index) - 1;
        let (start, before) = self.lines[at];
        let (end, next) = self.lines.get(at + 1).copied().unwrap_or_else(|| {
            // The last line takes as long as the one before.
            let (last_start, _) = self.lines[at.saturating_sub(1)];
            (2 * start - last_start, self.count)
        });
        let (length, of_all) = (u128::from(end - start), u128::from(next - before));
        start + (length * u128::from(index - before) / of_all) as u64
    }

    /// Adds a line. `first` is the time of the first one, in nanoseconds.
    fn add(&mut self, text: &str, first: &mut Option<u128>) -> Result<(), LineError> {
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let (time, count) = match text.split_once(',') {
            Some((time, count)) => (time.trim_end(), Some(count.trim_start())),
            None => (text, None),
        };
        let nanos = nanos(time).ok_or_else(|| LineError::Time(time.to_owned()))?;
        let count = match count {
            Some(text) => whole::<u64>(text).ok_or_else(|| LineError::Count(text.to_owned()))?,
            None => 1,
        };
        let since = nanos.checked_sub(*first.get_or_insert(nanos));
        let last = self.lines.last().map_or(0, |(start, _)| u128::from(*start));
        let since = since
            .filter(|since| *since >= last)
            .ok_or_else(|| LineError::Back(time.to_owned()))?;
        if since > RECORD_NANOS_MAX {
            return Err(LineError::Late(time.to_owned()));
        }
        self.lines.push((since as u64, self.count));
        self.count = self.count.saturating_add(count);
        match self.count > MESSAGES_MAX {
            true => Err(LineError::Many(self.count)),
            false => Ok(()),
        }
    }
}

/// Reads a time, as nanoseconds. Digits beyond nanoseconds are dropped.
fn nanos(text: &str) -> Option<u128> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number.trim_end(), NANOS_PER_SEC / 1_000),
        None => (text, NANOS_PER_SEC),
    };
    let (units, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = fraction
        .get(..fraction.len().min(9))
        .filter(|text| digits(text))?;
    let part = u128::from(whole::<u64>(fraction)?) * unit / 10u128.pow(fraction.len() as u32);
    Some(u128::from(whole::<u64>(units)?) * unit + part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Arrivals, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("arrivals.csv");
        std::fs::write(&path, text).unwrap();
        let path_text = path.display().to_string();
        Arrivals::read(&path).map_err(|error| error.to_string().replace(&path_text, "FILE"))
    }

    fn millis(text: &str) -> Vec<u64> {
        let arrivals = read(text).unwrap();
        (0..arrivals.len())
            .map(|index| arrivals.nanos(index) / 1_000_000)
            .collect()
    }

    #[test]
    fn times_are_seconds_or_milliseconds_from_the_first_line() {
        assert_eq!(
            millis("# recorded\n\n1764000000.5\n1764000000.75\n 1764000001 \n"),
            [0, 250, 500]
        );
        assert_eq!(
            millis("1500ms\n1750.5ms\n1750.5 ms\n2\n"),
            [0, 250, 250, 500]
        );
    }

    #[test]
    fn the_arrivals_of_a_line_are_spread_up_to_the_next_line() {
        assert_eq!(
            millis("0,4\n1,2\n3"),
            [0, 250, 500, 750, 1_000, 2_000, 3_000]
        );
        assert_eq!(
            millis("0,2\n1, 0\n3,2"),
            [0, 500, 3_000, 4_000],
            "the last line takes as long as the one before"
        );
        assert_eq!(millis("5,3"), [0, 0, 0], "a single line has no length");
    }

    #[test]
    fn nanoseconds_are_kept_and_longer_fractions_cut() {
        let arrivals = read("1764000000.000000001\n1764000000.0000000029").unwrap();
        assert_eq!(arrivals.nanos(1), 1);
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        for (text, error) in [
            (
                "0\nabc",
                "`FILE` line 2: not a time: got `abc`, expected seconds such as `12.5`",
            ),
            ("-1", "line 1: not a time: got `-1`"),
            ("1.", "line 1: not a time: got `1.`"),
            ("1e3", "line 1: not a time: got `1e3`"),
            ("1.5\u{e9}", "line 1: not a time"),
            (
                "# head\n1,x",
                "line 2: not a count: got `x`, expected a whole number",
            ),
            ("1,", "line 1: not a count: got ``"),
            ("2\n3\n2.5", "line 3: the time goes back: got `2.5`"),
            ("2\n1", "line 2: the time goes back: got `1`"),
            (
                "0\n31622401",
                "line 2: wrong time: got `31622401`, expected at most 366 days",
            ),
            (
                "0,999999999\n1,2",
                "line 2: too many arrivals up to here: got `1000000001`",
            ),
            ("", "`FILE` has none"),
            ("1,0\n2,0", "`FILE` has none"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(error), "{text:?}: {found}");
        }
        let missing = Arrivals::read(Path::new("/nonexistent/arrivals")).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "the arrivals: read `/nonexistent/arrivals`"
        );
    }
}
