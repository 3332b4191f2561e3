# SPDX-License-Identifier: Apache-2.0 OR MIT
"""mutated.py SEED INPUTS FILE COMMAND...: FILE is changed in INPUTS ways, and COMMAND is run after each. It must
end with 0, 1 or 2 within 20 s and 1 GiB, and say no more than some lines, without a panic. Prints how many
were read and how many refused; what was wrong stays in FILE.SEED."""

import os
import random
import re
import resource
import subprocess
import sys

seed, inputs, name, *command = sys.argv[1:]
with open(name, "rb") as file:
    whole = file.read()
chance = random.Random(seed)
NUMBERS = [b"0", b"-1", b"1e308", b"18446744073709551615", b"9" * 40, b"null", b"0.1", b"nan", b'""', b"[]", b"{}"]


def changed():
    data = bytearray(whole)
    is_text = b"\0" not in whole
    for _ in range(chance.choice([1, 1, 1, 1, 2, 5, 20])):
        at = chance.randrange(len(data) or 1)
        match chance.randrange(7):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                data[at : at + 1] = bytes([data[at] ^ 1 << chance.randrange(8)]) if data else b"x"
            case 2:
                del data[at : at + chance.choice([1, 4, 100])]
            case 3:
                data[at:at] = data[at : at + chance.choice([1, 8, 1000])]
            case 4:
                del data[at:]
            case _ if is_text:
                # Another value where one stands.
                if found := list(re.finditer(rb'-?\d+(\.\d+)?(e-?\d+)?|"[^"]*"', data)):
                    one = chance.choice(found)
                    data[one.start() : one.end()] = chance.choice(NUMBERS)
            case _:
                # Lengths and counts of binary formats.
                data[at : at + 4] = chance.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x80", b"\0\0\0\0"])
    return bytes(data)


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


counts = {0: 0, 1: 0, 2: 0}
for number in range(int(inputs)):
    with open(name, "wb") as file:
        file.write(changed())
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, preexec_fn=limit, stdin=subprocess.DEVNULL)
        status, said = done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        status, said = "no end", b""
    if status not in counts or b"panicked" in said or said.count(b"\n") > 20 or (status != 0) != bool(said):
        os.replace(name, f"{name}.{seed}")
        sys.exit(f"input {number} of seed {seed}: {' '.join(command)} gave {status}: {said[:2000]!r}; see {name}.{seed}")
    counts[status] += 1
with open(name, "wb") as file:
    file.write(whole)
print(f"{name}: {counts[0]} read, {counts[1] + counts[2]} refused")
