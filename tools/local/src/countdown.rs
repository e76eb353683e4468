//! Counts down on a terminal while nothing but open windows is waited for.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on standard error, if that is a terminal.
#[derive(Default)]
pub struct Countdown(Option<ProgressBar>);

impl Countdown {
    /// Shows how long the last open window stays open; clears the line if no window is waited for.
    pub fn show(&mut self, left: Option<Duration>) {
        let Some(left) = left else {
            self.clear();
            return;
        };
        let line = self.0.get_or_insert_with(line);
        line.set_message(text(left));
        line.tick();
    }

    /// Clears the line.
    pub fn clear(&mut self) {
        if let Some(line) = self.0.take() {
            line.finish_and_clear();
        }
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg}").expect("the template is well formed");
    // This target shows nothing unless it is a terminal.
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
}

/// Returns the line, with the seconds that remain, rounded up.
fn text(left: Duration) -> String {
    let secs = left.as_millis().div_ceil(1_000);
    format!("the last batch waits for its window to close: {secs} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_seconds_that_remain() {
        let line = |ms| text(Duration::from_millis(ms));
        let words = "the last batch waits for its window to close:";
        assert_eq!(line(12_001), format!("{words} 13 s"));
        assert_eq!(line(12_000), format!("{words} 12 s"));
        assert_eq!(line(0), format!("{words} 0 s"));
        Countdown::default().show(Some(Duration::ZERO));
    }
}
