"""Reads records of fixed length as others do, and compares them with what was to be written.

Arguments: the copybook, the records, and a file with one JSON object a record, whose numbers are texts.

Each field is read by coboljsonifier, which knows the copybook only. It divides by floating point, so numbers with decimals are compared with
it up to 15 digits; and it does not know the clause SIGN, so two fields are texts in its copybook. So each record is also made here, from Python's own codec and
integers, and compared byte for byte.
"""

import json
import sys
from decimal import Decimal, getcontext

from coboljsonifier.config.parser_type_enum import ParseType
from coboljsonifier.copybookextractor import CopybookExtractor
from coboljsonifier.parser import Parser

# Python rounds to 28 digits otherwise.
getcontext().prec = 60

# How the fields of the copybook are stored, in its order: name, storage, digits, decimals.
FIELDS = [
    ("RECORD-ID", "text", 8, 0),
    ("PACKED-ODD", "packed", 9, 2),
    ("PACKED-EVEN", "packed", 8, 0),
    ("PACKED-PLAIN", "packed-unsigned", 15, 3),
    ("PACKED-LONG", "packed", 31, 0),
    ("BINARY-TWO", "binary", 4, 0),
    ("BINARY-FOUR", "binary", 9, 2),
    ("BINARY-EIGHT", "binary", 18, 0),
    ("ZONED-PLAIN", "zoned-unsigned", 5, 0),
    ("ZONED-LAST", "zoned", 7, 2),
    ("ZONED-BESIDE", "zoned-separate", 5, 1),
    ("ZONED-FIRST", "zoned-leading", 5, 0),
]
# What coboljsonifier does not read as numbers.
NOT_READ = {"ZONED-BESIDE", "ZONED-FIRST"}
# Digits that floating point keeps.
EXACT = 15


def stored(storage, digits, decimals, text):
    if storage == "text":
        return text.ljust(digits).encode("cp037")
    number = Decimal(text)
    unscaled = int(number.scaleb(decimals))
    if storage == "binary":
        size = 2 if digits <= 4 else 4 if digits <= 9 else 8
        return unscaled.to_bytes(size, "big", signed=True)
    figures = str(abs(unscaled)).zfill(digits)
    negative = unscaled < 0
    if storage.startswith("packed"):
        sign = "f" if storage == "packed-unsigned" else "d" if negative else "c"
        figures += sign
        return bytes.fromhex(figures if len(figures) % 2 == 0 else "0" + figures)
    if storage == "zoned-separate":
        return (figures + ("-" if negative else "+")).encode("cp037")
    record = bytearray(figures.encode("cp037"))
    over = {"zoned": -1, "zoned-leading": 0}.get(storage)
    if over is not None:
        record[over] = (0xD0 if negative else 0xC0) | (record[over] & 0x0F)
    return bytes(record)


def main(copybook, records, expected):
    with open(expected) as file:
        expected = [json.loads(line) for line in file]
    with open(records, "rb") as file:
        content = file.read()
    length = len(content) // len(expected)
    assert length * len(expected) == len(content), (length, len(content))
    parser = Parser(CopybookExtractor(copybook).dict_book_structure, ParseType.BINARY_EBCDIC).build()
    compared = 0
    for index, row in enumerate(expected):
        record = content[index * length : (index + 1) * length]
        made = b"".join(
            stored(storage, digits, decimals, row[name])
            for name, storage, digits, decimals in FIELDS
        )
        assert record == made, (index, row, record.hex(), made.hex())
        parser.parse(record)
        [found] = parser.value.values() if len(parser.value) == 1 else [parser.value]
        for name, storage, digits, decimals in FIELDS:
            if name in NOT_READ or (decimals and digits > EXACT):
                continue
            read = found[name]
            if storage == "text":
                same = read.strip() == row[name].strip()
            else:
                same = Decimal(read) == Decimal(row[name])
            assert same, (index, name, read, row[name])
            compared += 1
    print(f"{len(expected)} records of {length} bytes, {compared} fields")


main(*sys.argv[1:])
