//! One bit for each event.

/// A bit for each event, all unset at first.
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub fn new(count: u64) -> Self {
        let words = usize::try_from(count.div_ceil(64));
        Self(vec![
            0;
            words.expect("an event count fits the address space")
        ])
    }

    /// Sets a bit; returns whether it was set before.
    pub fn set(&mut self, number: u64) -> bool {
        let word = &mut self.0[(number / 64) as usize];
        let before = *word;
        *word |= 1 << (number % 64);
        before == *word
    }

    pub fn get(&self, number: u64) -> bool {
        self.0[(number / 64) as usize] >> (number % 64) & 1 == 1
    }
}
