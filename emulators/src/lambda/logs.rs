//! The log pipes of an environment: both always drained, line by line, and handed to a sink.

use std::fmt;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::faults::EnvironmentFaults;

/// Longest line handed over in one piece; a longer one comes in several.
pub const LINE_BYTES_MAX: usize = 256 * 1024;

/// Which pipe a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One line written by an execution environment. `Display` is the prefixed form, `[aggregator#1] text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Name of the function.
    pub function: Arc<str>,
    /// Number of the environment within the function, from 1.
    pub environment: u32,
    /// Pipe the line came from.
    pub stream: LogStream,
    /// The line without its line break; bytes that are not UTF-8 are replaced.
    pub text: String,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}#{}] {}", self.function, self.environment, self.text)
    }
}

/// Takes every line of every environment. Called on the task that drains the pipe: a slow sink slows the function,
/// as a slow pipe would.
pub type LogSink = Arc<dyn Fn(&LogLine) + Send + Sync>;

/// Who watches the environments: each line is handed to the sink and may be the environment's last, and it may matter how
/// a process ends.
pub(super) struct Watch {
    pub(super) logs: LogSink,
    pub(super) faults: Arc<dyn EnvironmentFaults>,
}

/// The default sink: prefixed lines on standard error, so that standard output stays free for results.
pub fn print_logs() -> LogSink {
    Arc::new(|line| eprintln!("{line}"))
}

/// Drains one pipe to its end.
pub(super) async fn pump(pipe: impl AsyncRead + Unpin, mut emit: impl FnMut(String)) {
    let mut pipe = BufReader::new(pipe);
    let mut line: Vec<u8> = Vec::new();
    // True after a piece of exactly the longest length: the line break that may follow belongs to it.
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
    async fn lines_are_handed_over_without_their_breaks_and_the_last_needs_none() {
        assert_eq!(
            pumped(b"one\r\n\ntwo\nthree").await,
            ["one", "", "two", "three"]
        );
    }

    #[tokio::test]
    async fn a_long_line_comes_in_pieces_and_loses_nothing() {
        let mut input = vec![b'x'; LINE_BYTES_MAX + 5];
        input.extend_from_slice(b"\nshort\n");
        let lines = pumped(&input).await;
        assert_eq!(
            lines.iter().map(String::len).collect::<Vec<_>>(),
            [LINE_BYTES_MAX, 5, 5]
        );
    }

    #[tokio::test]
    async fn a_line_of_exactly_the_longest_length_is_one_line() {
        let mut input = vec![b'x'; LINE_BYTES_MAX];
        input.extend_from_slice(b"\nshort\n");
        let lines = pumped(&input).await;
        assert_eq!(
            lines.iter().map(String::len).collect::<Vec<_>>(),
            [LINE_BYTES_MAX, 5]
        );
    }

    async fn pumped(input: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        pump(input, |line| lines.push(line)).await;
        lines
    }
}
