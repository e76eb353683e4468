//! Reads the log pipes of an environment line by line, and passes each line to a sink.

use std::fmt;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::faults::EnvironmentFaults;

/// Maximum number of bytes of a line that is passed on whole. A longer line is passed on in pieces.
pub const LINE_BYTES_MAX: usize = 256 * 1024;

/// The pipe that a line was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One line that an execution environment logged. `Display` adds a prefix: `[<function>#<environment>] <text>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Name of the function.
    pub function: Arc<str>,
    /// Number of the environment within the function, from 1.
    pub environment: u32,
    /// Pipe that the line was read from.
    pub stream: LogStream,
    /// The line without its line break. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub text: String,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}#{}] {}", self.function, self.environment, self.text)
    }
}

/// Receives every line of every environment. It runs on the task that reads the pipe, so a slow sink can block the function.
pub type LogSink = Arc<dyn Fn(&LogLine) + Send + Sync>;

/// What the host calls while an environment runs: the log sink, and the faults.
pub(super) struct EnvironmentHooks {
    pub(super) logs: LogSink,
    pub(super) faults: Arc<dyn EnvironmentFaults>,
}

/// Returns a sink that prints each line with its prefix to standard error.
pub fn print_logs() -> LogSink {
    Arc::new(|line| eprintln!("{line}"))
}

/// Reads a pipe to its end, and calls `emit` with each line.
pub(super) async fn drain(pipe: impl AsyncRead + Unpin, mut emit: impl FnMut(String)) {
    let mut pipe = BufReader::new(pipe);
    let mut line: Vec<u8> = Vec::new();
    // Whether the last piece had the maximal length. A line break that follows it then ends that line, not an empty one.
    let mut cut = false;
    loop {
        let chunk = match pipe.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(chunk) => chunk,
        };
        let room = LINE_BYTES_MAX - line.len();
        let line_end = chunk.iter().take(room).position(|byte| *byte == b'\n');
        let taken = line_end.unwrap_or(chunk.len().min(room));
        line.extend_from_slice(&chunk[..taken]);
        let ended = line_end.is_some();
        pipe.consume(taken + usize::from(ended));
        if ended && cut && line.is_empty() {
            cut = false;
        } else if ended || line.len() == LINE_BYTES_MAX {
            cut = !ended;
            emit(text(&mut line));
        }
    }
    if !line.is_empty() {
        emit(text(&mut line));
    }
}

fn text(line: &mut Vec<u8>) -> String {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    let text = String::from_utf8_lossy(line).into_owned();
    line.clear();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_passed_on_without_line_breaks_and_the_last_needs_none() {
        let lines = drained(b"one\r\n\ntwo\nthree").await;
        assert_eq!(lines, ["one", "", "two", "three"]);
    }

    #[tokio::test]
    async fn a_long_line_comes_in_pieces_and_one_of_exactly_the_longest_length_is_one_line() {
        for (bytes, pieces) in [
            (LINE_BYTES_MAX + 5, &[LINE_BYTES_MAX, 5, 5][..]),
            (LINE_BYTES_MAX, &[LINE_BYTES_MAX, 5][..]),
        ] {
            let mut input = vec![b'x'; bytes];
            input.extend_from_slice(b"\nshort\n");
            let lines = drained(&input).await;
            assert_eq!(Vec::from_iter(lines.iter().map(String::len)), pieces);
        }
    }

    async fn drained(input: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        drain(input, |line| lines.push(line)).await;
        lines
    }
}
