//! Shows the progress of a long command on standard error: in one line that changes on a terminal, otherwise in a line every two
//! seconds.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// The progress of one command.
pub struct Progress {
    /// `None` if standard error is no terminal.
    spinner: Option<ProgressBar>,
    next_line_at: Cell<Instant>,
}

impl Progress {
    /// Starts without a line.
    pub fn new() -> Progress {
        let spinner = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg}").expect("the template is well formed");
            ProgressBar::new_spinner().with_style(style)
        });
        Progress {
            spinner,
            next_line_at: Cell::new(Instant::now() + LINE_EVERY),
        }
    }

    /// Shows a text, if it is time for one.
    pub fn show(&self, text: impl FnOnce() -> String) {
        if let Some(spinner) = &self.spinner {
            spinner.set_message(text());
            spinner.tick();
            return;
        }
        let now = Instant::now();
        if now >= self.next_line_at.get() {
            self.next_line_at.set(now + LINE_EVERY);
            // The command goes on if standard error is closed.
            let _ = writeln!(std::io::stderr(), "{}", text());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}
