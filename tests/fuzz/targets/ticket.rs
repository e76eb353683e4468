//! `cargo xtask fuzz ticket`; what is checked is [`fuzz::ticket`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::ticket(data));
