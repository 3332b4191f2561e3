#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The mistakes that people are most likely to make: each is refused with what to do instead.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# A verb, a flag, a figure, an argument.
refuses 2 "a similar subcommand exists: 'watch'" wach
refuses 2 "a similar argument exists: '--duration-s'" sharing 1 --duration 5
refuses 2 "'20' is not in 0..1" predict 10GiB --write-fraction 20
refuses 2 "'10 apples' is not a size: write bytes, or 64KiB" predict '10 apples'
refuses 2 'RUN\|SIZE' predict
refuses 2 'such as 127.0.0.1:9464' watch --listen 8080
refuses 2 'choose one of plain, upstream, patched' bench cow-faults --kernel foo
run bench
is_status 2
says err 'fork-sweep .*Smith and Maguire'

# The program that is meant.
refuses 1 'no process is named redis-srever: .*`cowlab` lists those that fork' watch redis-srever
# A process that is meant by a part of its name, by its program's file, as a verb, by a flag.
mkdir programs && cp "$(command -v sleep)" programs/mistaken
programs/mistaken 100 &
mistaken=$!
trap 'kill $mistaken 2>/dev/null || true' EXIT
becomes "$mistaken" mistaken
refuses 1 "no process is named mistake: did you mean mistaken \\($mistaken\\).*\\? \`cowlab\` lists" explain mistake
refuses 1 "did you mean mistaken \\($mistaken\\)" explain mistakne
refuses 1 "mistaken: not a control group, but a file: name the process that runs it, mistaken \\($mistaken\\)" \
	explain "$PWD/programs/mistaken"
refuses 2 '`cowlab explain mistaken`' mistaken
refuses 2 'mistaken is a process, .*`cowlab explain mistaken`' predict mistaken
refuses 2 '`cowlab explain mistaken --quick`' advise mistaken
refuses 2 '`cowlab explain mistaken --quick`' doctor mistaken
refuses 2 '`cowlab explain 4711`' explain --pid 4711
refuses 1 'no Redis answers at redis://127.0.0.1:1' watch redis://127.0.0.1:1
refuses 1 'there is no process 999999999: .*`cowlab` lists those that fork' blame 999999999
refuses 2 'name a running process .*`cowlab footprint -- ' footprint
refuses 1 'named ./program: to start a program write `--` before it' footprint ./program
refuses 1 'cannot start ./program \(give its path, or a name in PATH\): No such file' blame -- ./program
refuses 1 'no Redis answers at redis://127.0.0.1:1: give redis://\[:PASSWORD@\]HOST:PORT' explain redis://127.0.0.1:1

# What answers is no Redis; what is looked at ends meanwhile; Ctrl-C.
python3 -c 'import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    client = server.accept()[0]
    client.recv(99)
    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    client.close()' >port &
trap 'kill $mistaken $! 2>/dev/null || true' EXIT
wait_for 10 test -s port
refuses 1 'speaks another protocol' explain "redis://127.0.0.1:$(<port)"
kill $!
status=0
timeout --preserve-status --signal=INT 2 "$COWLAB" footprint "$mistaken" --forks 1 --method snapshot >out 2>err </dev/null || status=$?
called="footprint and Ctrl-C"
is_status 1
says err "interrupted after .* process $mistaken had not forked yet"

# A file or a folder.
refuses 1 'there is no nowhere: runs are below runs/' report nowhere
refuses 1 '/etc is not a run of cowlab \(a folder below runs/\)' report /etc
refuses 1 'profile nowhere: make one with `cowlab calibrate`' predict --profile nowhere 1GiB
refuses 1 'Not a directory|File exists' bench fork-table --output "$0"

# What the machine does not give: a size of pages, rights.
refuses 2 'this kernel has no pages of 3 MiB: it has 4 KiB|CONFIG_TRANSPARENT_HUGEPAGE' \
	bench cow-faults --page-size-bytes 3MiB
if [[ $(id -u) == 0 ]] && command -v setpriv >/dev/null; then
	as_nobody
	trap 'rm -rf "$place"; kill $mistaken 2>/dev/null || true' EXIT
	refuses 1 'needs root, or CAP_BPF' blame 1
	refuses 1 'needs CAP_SYS_PTRACE: run as root, or as a service' tend $$ --once
	refuses 1 'choose another folder with --output: Permission denied' bench fork-table --output /root/runs
fi
