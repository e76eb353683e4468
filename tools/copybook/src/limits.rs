//! How large a record may be. What is larger is refused before any memory is taken for it.

/// The most columns of a record.
pub(crate) const COLUMNS_MAX: usize = 10_000;

/// The most bytes of a record, which is what a data set on a mainframe can have.
pub(crate) const RECORD_BYTES_MAX: usize = 32_760;

/// The most bytes of a column with text.
pub(crate) const TEXT_BYTES_MAX: usize = 10_000;

/// The most digits of a number in zoned or packed decimal.
pub(crate) const DECIMAL_DIGITS_MAX: usize = 31;

/// The most digits of a binary number, which has eight bytes at most.
pub(crate) const BINARY_DIGITS_MAX: usize = 18;

/// The most characters of a name, as COBOL 2014 has it; other versions allow fewer.
pub(crate) const NAME_CHARACTERS_MAX: usize = 63;
