//! `cargo xtask fuzz batch_key`; what is checked is [`fuzz::batch_key`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::batch_key(data));
