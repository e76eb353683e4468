//! The terminal of `batchctl watch`: it is taken, drawn on, and given back.
//!
//! Whatever ends the command gives the terminal back: its end, an error, a panic, or the end of the process after a line of the log. So a
//! line of the log gives it back first, and the next drawing takes it again.

mod drawing;
mod keys;

use std::io;
use std::sync::Mutex;

use ratatui::crossterm::terminal::is_raw_mode_enabled;
use ratatui::{DefaultTerminal, Frame};
use shared::locked::locked;

use crate::failure::Failure;
use keys::Keys;

pub use drawing::{draw, draw_first};
pub use keys::Key;

/// The terminal while it is taken. Of the process, because the log gives it back.
static TAKEN: Mutex<Option<DefaultTerminal>> = Mutex::new(None);

/// A terminal that is drawn on. It is given back when this is dropped.
pub struct Screen {
    keys: Keys,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The terminal does not allow it.
    pub fn open() -> Result<Screen, Failure> {
        take(&mut locked(&TAKEN)).map_err(failure)?;
        Ok(Screen {
            keys: Keys::listen(),
        })
    }

    /// Draws everything anew. Only what changed is sent to the terminal.
    pub fn draw(&mut self, drawing: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        let mut taken = locked(&TAKEN);
        let terminal = take(&mut taken).map_err(failure)?;
        terminal.draw(drawing).map_err(failure)?;
        Ok(())
    }

    /// Waits for the next key.
    pub async fn key(&mut self) -> Key {
        self.keys.next().await
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Returns standard error for a line of the log. A screen is given back first.
pub fn log() -> io::Stderr {
    give_back();
    io::stderr()
}

fn take(taken: &mut Option<DefaultTerminal>) -> io::Result<&mut DefaultTerminal> {
    // A panic of another task gives it back by itself.
    if taken.is_none() || !is_raw_mode_enabled()? {
        // Also if only a part of it succeeded.
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        *taken = Some(terminal);
    }
    Ok(taken.as_mut().expect("it was taken"))
}

fn give_back() {
    if locked(&TAKEN).take().is_some() {
        // If the terminal is gone, nobody sees how it is left.
        let _ = ratatui::try_restore();
    }
}

fn failure(source: io::Error) -> Failure {
    Failure::File {
        path: "terminal".to_owned(),
        source,
    }
}
