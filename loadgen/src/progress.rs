//! Shows the progress of a long job: as a bar on a terminal, and otherwise as a line every two seconds.
//!
//! Everything goes to standard error, so that standard output stays one JSON object.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use protocol::text::counted;

/// The time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// How often the bar is redrawn. At this rate the redraws cost little.
const REDRAWS_PER_SECOND: u8 = 5;

/// The progress of one job towards a known total. Tasks and threads may share it.
pub struct Progress {
    label: &'static str,
    total: u64,
    /// How much was done before the job began.
    before: u64,
    started: Instant,
    display: Display,
}

enum Display {
    Bar(ProgressBar),
    /// When the next line is due, from the start.
    Lines(Mutex<Duration>),
}

impl Progress {
    /// Starts at 0 of `total`: a bar if standard error is a terminal, lines otherwise.
    pub fn new(label: &'static str, total: u64) -> Self {
        Self::after(label, total, 0)
    }

    /// As [`Progress::new`], for a job of which an earlier run did `before`.
    pub fn after(label: &'static str, total: u64, before: u64) -> Self {
        let display = match std::io::stderr().is_terminal() {
            true => Display::Bar(bar(label, total, before)),
            false => Display::Lines(Mutex::new(LINE_EVERY)),
        };
        Self {
            label,
            total,
            before,
            started: Instant::now(),
            display,
        }
    }

    /// Sets how much is done. Not every call changes the display.
    pub fn set(&self, done: u64) {
        self.set_with_retries(done, 0);
    }

    /// Sets how much is done, and how many requests were retries so far. Shows at most the total: a count may include the work
    /// of others.
    pub fn set_with_retries(&self, done: u64, retries: u64) {
        match &self.display {
            Display::Bar(bar) => {
                bar.set_position(done.min(self.total));
                if retries > 0 {
                    bar.set_message(format!("{}, {}", self.label, counted(retries, "retry")));
                }
            }
            Display::Lines(due) => {
                let elapsed = self.started.elapsed();
                let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
                if elapsed >= *due {
                    *due = elapsed + LINE_EVERY;
                    print(&self.line(done, retries, elapsed));
                }
            }
        }
    }

    fn line(&self, done: u64, retries: u64, elapsed: Duration) -> String {
        let Self { label, total, .. } = self;
        let done = done.min(*total);
        let percent = done as f64 * 100.0 / (*total).max(1) as f64;
        let here = done.saturating_sub(self.before) as f64;
        let rate = here / elapsed.as_secs_f64().max(0.001);
        let left = match rate > 0.0 {
            true => format!("{:.0} s left", total.saturating_sub(done) as f64 / rate),
            false => "no end in sight".to_owned(),
        };
        let retries = match retries {
            0 => String::new(),
            retries => format!(", {}", counted(retries, "retry")),
        };
        format!("{label}: {done} of {total} ({percent:.0} %), {rate:.0}/s, {left}{retries}")
    }

    /// Ends the display and leaves its last state on the screen.
    pub fn finish(&self) {
        match &self.display {
            Display::Bar(bar) => bar.abandon(),
            Display::Lines(_) => {
                let seconds = self.started.elapsed().as_secs_f64();
                print(&format!("{}: ended after {seconds:.1} s", self.label));
            }
        }
    }
}

fn bar(label: &'static str, total: u64, before: u64) -> ProgressBar {
    let style = "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}";
    let style = ProgressStyle::with_template(style).expect("the template is well formed");
    let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND);
    ProgressBar::with_draw_target(Some(total), target)
        .with_style(style)
        .with_message(label)
        .with_position(before)
}

/// Prints a line. Ignores errors: the job goes on if standard error is closed.
fn print(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(total: u64, before: u64, done: u64, retries: u64, elapsed: Duration) -> String {
        let display = Display::Lines(Mutex::default());
        let progress = Progress {
            label: "send",
            total,
            before,
            started: Instant::now(),
            display,
        };
        progress.line(done, retries, elapsed)
    }

    #[test]
    fn a_line_has_the_count_the_rate_the_time_left_and_the_retries() {
        let two_seconds = Duration::from_secs(2);
        let text = line(1_000, 0, 250, 0, two_seconds);
        assert_eq!(text, "send: 250 of 1000 (25 %), 125/s, 6 s left");
        let text = line(1_000, 0, 250, 3, two_seconds);
        assert_eq!(text, "send: 250 of 1000 (25 %), 125/s, 6 s left, 3 retries");
    }

    #[test]
    fn a_count_that_includes_the_work_of_others_is_never_beyond_the_total() {
        let text = line(900, 0, 1_840, 0, Duration::from_secs(2));
        assert_eq!(text, "send: 900 of 900 (100 %), 450/s, 0 s left");
    }

    #[test]
    fn the_rate_of_a_continued_job_is_that_of_this_run() {
        let text = line(1_000, 500, 600, 0, Duration::from_secs(2));
        assert_eq!(text, "send: 600 of 1000 (60 %), 50/s, 8 s left");
    }

    #[test]
    fn a_line_of_an_empty_job_divides_by_nothing() {
        let text = line(0, 0, 0, 0, Duration::ZERO);
        assert_eq!(text, "send: 0 of 0 (0 %), 0/s, no end in sight");
    }

    #[test]
    fn the_bar_template_is_well_formed() {
        bar("send", 10, 2).set_position(5);
    }
}
