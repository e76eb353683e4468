//! Shared set-up of the suites.
