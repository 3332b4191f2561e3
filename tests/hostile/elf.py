#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Changes sections of a library: elf.py FROM TO SECTION=BYTES[:fdes]...

Each section is moved behind the end of the file and has so many bytes, a hole, or `fdes`: entries of an unwind table.
BYTES 0 takes the section away. What maps the library does not look at its sections.
"""
import struct
import sys

source, target, *changes = sys.argv[1:]
data = bytearray(open(source, "rb").read())
(at,) = struct.unpack_from("<Q", data, 0x28)
size, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
header = lambda number: at + number * size
names = struct.unpack_from("<Q", data, header(names_at) + 0x18)[0]


def name(number):
    start = names + struct.unpack_from("<I", data, header(number))[0]
    return data[start : data.index(0, start)].decode()


def entries(length):
    """A CIE, and FDEs of functions of 1 byte each."""
    cie = struct.pack("<IIB3sBBB", 20, 0, 1, b"zR\0", 1, 0x78, 16) + bytes([1, 0x03]) + bytes(8)
    cie = struct.pack("<I", len(cie) - 4) + cie[4:]
    made = bytearray(cie)
    fde = lambda place: struct.pack("<IIIIB3x", 16, place + 4, place & 0xFFFFFF, 1, 0)
    while len(made) < length:
        made += fde(len(made))
    return bytes(made)


end = (len(data) + 4095) // 4096 * 4096
parts = []
for change in changes:
    section, length = change.split("=")
    length, _, content = length.partition(":")
    length = int(length, 0)
    number = next(number for number in range(count) if name(number) == section)
    if length == 0:
        struct.pack_into("<I", data, header(number), 0)
        continue
    made = entries(length) if content else b""
    length = len(made) or length
    struct.pack_into("<QQ", data, header(number) + 0x18, end, length)
    parts.append((end, made))
    end += (length + 4095) // 4096 * 4096
with open(target, "wb") as out:
    out.write(data)
    for place, made in parts:
        out.seek(place)
        out.write(made)
    out.truncate(end)
