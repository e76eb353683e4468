//! `cargo xtask fuzz event`; what is checked is [`fuzz::event`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::event(data));
