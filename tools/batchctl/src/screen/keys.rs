//! The keys of a terminal, and changes of its size.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// How often the thread looks whether it must end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a person did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `q`, Esc or Ctrl-C; or the terminal is gone.
    End,
    /// The terminal has another size.
    Resized,
}

/// Reads keys in a thread of its own, because reading blocks.
pub(super) struct Keys {
    keys: UnboundedReceiver<Key>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    pub fn listen() -> Keys {
        let (sender, keys) = mpsc::unbounded_channel();
        Keys {
            keys,
            thread: Some(thread::spawn(move || read(&sender))),
        }
    }

    /// Waits for the next key.
    pub async fn next(&mut self) -> Key {
        self.keys.recv().await.unwrap_or(Key::End)
    }
}

impl Drop for Keys {
    /// Waits for the thread, so that it takes no key of what runs next.
    fn drop(&mut self) {
        self.keys.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn read(sender: &UnboundedSender<Key>) {
    while !sender.is_closed() {
        let key = match event::poll(LOOK_EVERY) {
            Ok(false) => continue,
            Ok(true) => event::read().ok(),
            Err(_) => None,
        };
        // Without events, the terminal is gone.
        let Some(event) = key else {
            let _ = sender.send(Key::End);
            return;
        };
        if let Some(key) = key_of(&event) {
            let _ = sender.send(key);
        }
    }
}

fn key_of(event: &Event) -> Option<Key> {
    match event {
        Event::Resize(..) => Some(Key::Resized),
        Event::Key(key) if key.kind == KeyEventKind::Press && ends(key) => Some(Key::End),
        _ => None,
    }
}

fn ends(key: &KeyEvent) -> bool {
    match key.code {
        KeyCode::Esc | KeyCode::Char('q') => true,
        KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_keys_end_and_others_do_nothing() {
        let press = |code, modifiers| key_of(&Event::Key(KeyEvent::new(code, modifiers)));
        let none = KeyModifiers::NONE;
        assert_eq!(press(KeyCode::Char('q'), none), Some(Key::End));
        assert_eq!(press(KeyCode::Esc, none), Some(Key::End));
        let control_c = press(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(control_c, Some(Key::End));
        assert_eq!(press(KeyCode::Char('c'), none), None);
        assert_eq!(key_of(&Event::Resize(80, 24)), Some(Key::Resized));
    }
}
