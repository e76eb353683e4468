//! Shows the progress of a long job: as a bar on a terminal, and otherwise as a line every two seconds.
//!
//! Everything goes to standard error, so that standard output stays one JSON object.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// How often the bar is redrawn. At this rate the redraws cost little.
const REDRAWS_PER_SECOND: u8 = 5;

/// The progress of one job towards a known total. Tasks and threads may share it.
pub struct Progress {
    label: &'static str,
    total: u64,
    started: Instant,
    display: Display,
}

enum Display {
    Bar(ProgressBar),
    Lines { next_line_ms: AtomicU64 },
}

impl Progress {
    /// Starts at 0 of `total`: a bar if standard error is a terminal, lines otherwise.
    pub fn new(label: &'static str, total: u64) -> Self {
        let display = match std::io::stderr().is_terminal() {
            true => Display::Bar(bar(label, total)),
            false => Display::lines(),
        };
        Self {
            label,
            total,
            started: Instant::now(),
            display,
        }
    }

    /// Sets how much is done. Not every call changes the display.
    pub fn set(&self, done: u64) {
        match &self.display {
            Display::Bar(bar) => bar.set_position(done),
            Display::Lines { next_line_ms } => {
                let elapsed = self.started.elapsed();
                let now_ms = millis(elapsed);
                let due_ms = next_line_ms.load(Ordering::Relaxed);
                let taken = now_ms >= due_ms
                    && next_line_ms
                        .compare_exchange(
                            due_ms,
                            now_ms + millis(LINE_EVERY),
                            Ordering::Relaxed,
                            Ordering::Relaxed,
                        )
                        .is_ok();
                if taken {
                    print(&line(self.label, done, self.total, elapsed));
                }
            }
        }
    }

    /// Ends the display and leaves its last state on the screen.
    pub fn finish(&self) {
        match &self.display {
            Display::Bar(bar) => bar.abandon(),
            Display::Lines { .. } => {
                let seconds = self.started.elapsed().as_secs_f64();
                print(&format!("{}: ended after {seconds:.1} s", self.label));
            }
        }
    }
}

impl Display {
    fn lines() -> Self {
        Self::Lines {
            next_line_ms: AtomicU64::new(millis(LINE_EVERY)),
        }
    }
}

fn bar(label: &'static str, total: u64) -> ProgressBar {
    let style = "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}";
    let style = ProgressStyle::with_template(style).expect("the template is well formed");
    ProgressBar::with_draw_target(
        Some(total),
        ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND),
    )
    .with_style(style)
    .with_message(label)
}

/// Prints a line. Ignores errors: the job goes on if standard error is closed.
fn print(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn line(label: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let percent = done as f64 * 100.0 / total.max(1) as f64;
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    format!("{label}: {done} of {total} ({percent:.0} %), {rate:.0}/s")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_count_the_percentage_and_the_rate() {
        let text = line("send", 250, 1_000, Duration::from_secs(2));
        assert_eq!(text, "send: 250 of 1000 (25 %), 125/s");
    }

    #[test]
    fn a_line_of_an_empty_job_divides_by_nothing() {
        assert_eq!(
            line("send", 0, 0, Duration::ZERO),
            "send: 0 of 0 (0 %), 0/s"
        );
    }

    #[test]
    fn the_bar_template_is_well_formed() {
        bar("send", 10).set_position(5);
    }
}
