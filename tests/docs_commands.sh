#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# What the pages tell people to type: every `cowlab` command in them has a verb and flags that exist, and the
# ```console blocks of README.md, the tutorials and the how-to pages do what they show (tests/lib/console.py says how
# a block is written). A page with a line "<!-- with: NAME... -->" finds these servers, under load.
set -euo pipefail

# The pages name servers and their usual ports: both are this test's alone.
if [[ -z ${IN_NETWORK_OF_ITS_OWN:-} ]]; then
	[[ $(id -u) == 0 ]] || { echo "needs root: the pages' commands do"; exit 77; }
	IN_NETWORK_OF_ITS_OWN=yes exec unshare --net "$0" "$@"
fi
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"
ip link set lo up
only_here_are_servers
console=$REPOSITORY/tests/lib/console.py

mkdir bin
ln -s "$(readlink -f "$COWLAB")" bin/cowlab
printf '#!/bin/sh\nexec "$@"\n' >bin/sudo # The test is root.
chmod +x bin/sudo
# The distribution's own programs.
export PATH=$PWD/bin:/usr/bin:/bin:$PATH PYTHONDONTWRITEBYTECODE=1

# A page whose command does not exist, or prints something else, is found.
finds() {
	local pattern=$1 how=$2
	cat >page.md
	! python3 "$console" "$how" page.md >said 2>&1 || fail "expected '$pattern' of: $(cat page.md)"
	grep -q "$pattern" said || fail "expected '$pattern', saw: $(cat said)"
}
finds 'there is no cowlab spoon' check <<<'Type `cowlab spoon`.'
finds 'there is no cowlab bench spoon' check <<<'    cowlab bench spoon --rounds 1'
finds 'explain has no --forc' check <<<'    sudo cowlab explain 1 --forc'
finds 'exit status 2' run <<<$'```console\n$ cowlab spoon\n```'
finds 'not printed: .*Usage: cowlab spoon' run <<<$'```console\n$ cowlab --help\nUsage: cowlab spoon\n…\n```'

cd "$REPOSITORY"
python3 "$console" check README.md CONTRIBUTING.md docs/*.md docs/{tutorials,how-to,reference,explanation}/*.md \
	casper/README.md casper/docs/*.md || fail "a page names what does not exist: see above"
pages=(README.md docs/{tutorials,how-to}/*.md)
cd "$OLDPWD"

# Elsewhere Redis forbids itself huge pages, or nobody has any: the pages say so, and print something else.
grep -qsF '[madvise]' /sys/kernel/mm/transparent_hugepage/enabled ||
	skip "needs transparent_hugepage/enabled = madvise, by which the pages' output was made"
for server in redis-server gunicorn; do
	command -v $server >/dev/null || skip "needs $server: scripts/install docs"
	[[ -z $(pgrep -x -r S,R,D $server) ]] || skip "a $server runs on this machine, which the pages' commands would find"
done

# End whatever was started in this page's folder.
end() {
	local pids
	cd "$root"
	# Processes that end meanwhile make find fail.
	while pids=$(find /proc/[0-9]*/cwd -maxdepth 0 -lname "$folder" 2>/dev/null | cut -d/ -f3 || :) && [[ -n $pids ]]; do
		# shellcheck disable=SC2086 # Several.
		kill -9 $pids 2>/dev/null || :
		sleep 0.05
	done
}
root=$PWD folder=/nowhere
trap end EXIT

redis-server() {
	command redis-server --save '' --daemonize yes >/dev/null
	wait_for 10 redis-cli ping
	redis-benchmark -q -t set -d 1000 -r 50000 -n 100000 -P 16
	while :; do
		redis-cli bgsave
		redis-benchmark -q -t set -d 1000 -r 50000 -n 20000 -P 16
		sleep 0.5
	done >/dev/null 2>&1 &
	disown
}

gunicorn() {
	cat >app.py <<-'END'
		import random
		CATALOGUE = [[str(n)] for n in range(200000)]

		def app(environ, start):
		    start("200 OK", [])
		    return [item[0].encode() for item in random.sample(CATALOGUE, 20)]
	END
	command gunicorn --preload --workers 4 --daemon app:app
	wait_for 10 curl -fs http://127.0.0.1:8000
	while :; do
		curl -s 'http://127.0.0.1:8000/[1-20]'
		sleep 0.2
	done >/dev/null 2>&1 &
	disown
}

for page in "${pages[@]}"; do
	folder=$root/$(basename "$page" .md)
	mkdir "$folder"
	cd "$folder"
	began=$SECONDS
	for server in $(sed -n 's/^<!-- with: \(.*\) -->$/\1/p' "$REPOSITORY/$page"); do
		$server >log 2>&1
	done
	python3 "$console" run "$REPOSITORY/$page" || fail "$page does not do what it shows: see above"
	end
	echo "$page: $((SECONDS - began)) s"
done
