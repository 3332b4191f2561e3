# SPDX-License-Identifier: Apache-2.0 OR MIT
"""damaged_traces.py TRACE: copies of it, each damaged in another way."""

import sys

b = bytearray(open(sys.argv[1], "rb").read())
b[len(b) // 2] ^= 1
open("flipped.casper", "wb").write(b)
open("cut.casper", "wb").write(b[:len(b) // 2 + 100])
open("magic.casper", "wb").write(b"X" + b[1:])
open("header.casper", "wb").write(b[:300] + b"X" + b[301:])
open("newer.casper", "wb").write(b[:12] + b"\x09\0\0\0" + b[16:])
open("order.casper", "wb").write(b[:8] + b[8:12][::-1] + b[12:])
open("short.casper", "wb").write(b[:4000])
open("empty.casper", "wb")
