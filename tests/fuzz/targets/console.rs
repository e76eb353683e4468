//! `cargo xtask fuzz console`; what is checked is [`fuzz::console`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::console(data));
