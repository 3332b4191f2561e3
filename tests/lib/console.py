# SPDX-License-Identifier: Apache-2.0 OR MIT
"""console.py check PAGE...: every `cowlab` command that a page names, in a block or in a sentence, exists: its
verb has a help, which has each of its flags.

console.py run PAGE: run the page's ```console blocks in this directory, in order. A line that begins with "$ " is a
command; the lines after it are what it prints, shortened where one begins with "…". Numbers and units may differ:
the first words of each line must be printed. A comment before a block says what else is to be known:

<!-- file: NAME -->            the block is no command but this file
<!-- not run: WHY -->          it takes too long, or needs what a test has not; its commands are still checked
<!-- until Ctrl-C -->          the command goes on for ever: it is interrupted after 3 s, and once it has printed that"""

import os
import re
import signal
import subprocess
import sys
import time
from functools import cache

LIMIT_S = 60
BLOCK = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
UNITS = "B|KiB|MiB|GiB|ns|µs|us|ms|s|min|h|days?"
NUMBER = re.compile(rf"(?<![\w.])[-+]?\d[\d.,:]*(?:e-?\d+)?(?: ?(?:{UNITS}|%)(?!\w))?")


def blocks(text):
    """Each block's comment, kind and text."""
    return [(note or "", kind, body) for note, kind, body in BLOCK.findall(text)]


def commands(body):
    """Each command of a block with the lines that are shown after it."""
    found = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def plain(text):
    """Words, with each number and its unit a #, whatever the width of lines and rules."""
    return " ".join(NUMBER.sub("#", re.sub("[`─]", "", text)).split())


def unprinted(shown, printed):
    """The lines that are shown and whose first four words are not printed."""
    printed = plain(printed)
    begins = [" ".join(plain(line.split("…")[0]).split()[:4]) for line in shown]
    return [begin for begin in begins if begin not in printed]


def done(command, shown, is_endless):
    """A command's exit status, and what it printed. One that is endless is interrupted once it printed what is shown."""
    with open("printed", "w", encoding="utf-8") as out:
        child = subprocess.Popen(["bash", "-c", command], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                 start_new_session=True)
    began = time.monotonic()
    printed = ""
    while child.poll() is None and time.monotonic() - began < LIMIT_S:
        time.sleep(0.1)
        printed = open("printed", encoding="utf-8").read()
        if is_endless and time.monotonic() - began > 3 and not unprinted(shown, printed):
            break
    if child.poll() is not None:
        return child.returncode, open("printed", encoding="utf-8").read()
    os.killpg(child.pid, signal.SIGINT)
    status = child.wait(10)
    printed = open("printed", encoding="utf-8").read()
    return (0 if is_endless and status in (0, 130) else f"{status} after {LIMIT_S} s"), printed


def run(page):
    for note, kind, body in blocks(open(page, encoding="utf-8").read()):
        if note.startswith("file: "):
            open(note.removeprefix("file: "), "w", encoding="utf-8").write(body)
        if kind != "console" or note.startswith("not run: "):
            continue
        for command, shown in commands(body):
            status, printed = done(command, shown, note == "until Ctrl-C")
            lacking = unprinted(shown, printed)
            if status != 0 or lacking:
                sys.exit(f"{page}: $ {command}\nexit status {status}; not printed: {lacking}; printed:\n{printed}")


@cache
def help_of(*words):
    asked = subprocess.run(["cowlab", *words, "--help"], capture_output=True, text=True)
    return asked.stdout if asked.returncode == 0 else None


def wrong(command):
    """What is wrong with a `cowlab` command: a verb or a flag that does not exist."""
    words = re.split(r" -- |[|;&>]", command)[0].split()[1:]
    verb = []
    for word in words:
        if not re.fullmatch(r"[a-z][a-z-]*", word) or f"\n  {word} " not in (help_of(*verb) or ""):
            break
        verb.append(word)
    text = help_of(*verb) or ""
    rest = words[len(verb):]
    if rest and re.search(r"^(Commands|Measurements):", text, re.M) and re.fullmatch("[a-z][a-z-]*", rest[0]):
        return f"there is no {' '.join(['cowlab', *verb, rest[0]])}"
    # `bench --help` has what each measurement takes as well.
    text = "".join(help_of(*verb[:length]) or "" for length in range(1, len(verb) + 1))
    for flag in re.findall(r"(?<=\s)--[a-z][a-z-]*", " " + " ".join(words)):
        if not re.search(rf"{flag}\b(?!-)", text):
            return f"{' '.join(verb)} has no {flag}"
    return None


def named(text):
    """Every `cowlab` command of a page: in a sentence or a table, or as a line of a block of either kind."""
    text = text.replace("\\\n", " ")
    lines = re.findall(r"^(?:    |\$ )(?:sudo )?(?:[A-Z_]+=\S+ )*(cowlab [^#\n]*)", text, re.M)
    return lines + [" ".join(span.split()) for span in re.findall(r"`(?:sudo )?(cowlab [a-z][^`]*)`", text)]


def check(pages):
    said = [f"{page}: {command.strip()}: {what}" for page in pages
            for command in named(open(page, encoding="utf-8").read()) if (what := wrong(command))]
    sys.exit("\n".join(said) or 0)


if __name__ == "__main__":
    {"run": lambda pages: run(*pages), "check": check}[sys.argv[1]](sys.argv[2:])
