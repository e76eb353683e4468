//! `cargo xtask fuzz event_id`; what is checked is [`fuzz::event_id`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::event_id(data));
