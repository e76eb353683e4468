//! Shows the progress of a long command on standard error: in one line that changes on a terminal, otherwise in a line every two
//! seconds. If the output is kept, the line is kept with it instead.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::outcome::{Kept, Output};

/// The time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// The time between two lines that are kept.
const KEPT_EVERY: Duration = Duration::from_millis(200);

/// The progress of one command.
pub struct Progress<'a> {
    place: Place<'a>,
    next_line_at: Cell<Instant>,
}

/// Where the lines go.
enum Place<'a> {
    /// Standard error, which is a terminal.
    Terminal(ProgressBar),
    /// Standard error, which is no terminal.
    Lines,
    Kept(&'a Kept),
}

impl<'a> Progress<'a> {
    /// Starts without a line.
    pub fn new(output: Output<'a>) -> Progress<'a> {
        let place = Place::of(output);
        let first_after = match place {
            Place::Lines => LINE_EVERY,
            Place::Terminal(_) | Place::Kept(_) => Duration::ZERO,
        };
        Progress {
            place,
            next_line_at: Cell::new(Instant::now() + first_after),
        }
    }

    /// Shows a text, if it is time for one.
    pub fn show(&self, text: impl FnOnce() -> String) {
        match &self.place {
            Place::Terminal(spinner) => {
                spinner.set_message(text());
                spinner.tick();
            }
            Place::Lines if self.is_time(LINE_EVERY) => {
                // The command goes on if standard error is closed.
                let _ = writeln!(std::io::stderr(), "{}", text());
            }
            Place::Kept(kept) if self.is_time(KEPT_EVERY) => kept.set_progress(Some(text())),
            Place::Lines | Place::Kept(_) => {}
        }
    }

    /// Returns whether it is time for a line. The next one comes after `every` then.
    fn is_time(&self, every: Duration) -> bool {
        let now = Instant::now();
        let is_time = now >= self.next_line_at.get();
        if is_time {
            self.next_line_at.set(now + every);
        }
        is_time
    }
}

impl<'a> Place<'a> {
    fn of(output: Output<'a>) -> Place<'a> {
        if let Output::Kept(kept) = output {
            return Place::Kept(kept);
        }
        if !std::io::stderr().is_terminal() {
            return Place::Lines;
        }
        let style = ProgressStyle::with_template("{msg}").expect("the template is well formed");
        Place::Terminal(ProgressBar::new_spinner().with_style(style))
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        match &self.place {
            Place::Terminal(spinner) => spinner.finish_and_clear(),
            Place::Lines => {}
            Place::Kept(kept) => kept.set_progress(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_kept_until_the_next_one_is_due_or_the_command_ends() {
        let kept = Kept::default();
        let progress = Progress::new(Output::Kept(&kept));
        assert_eq!(kept.progress(), None);
        let show = |line: &str| progress.show(|| line.to_owned());
        show("one");
        show("two");
        assert_eq!(kept.progress().as_deref(), Some("one"), "too early");
        std::thread::sleep(KEPT_EVERY);
        show("three");
        assert_eq!(kept.progress().as_deref(), Some("three"));
        drop(progress);
        assert_eq!(kept.progress(), None);
    }
}
