#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# scripts/install that is ended while it installs: services of later packages may start again. Nothing
# is installed here: apt-get is a stand-in, and /usr/sbin a folder of this test's own.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ $(id -u) == 0 ]] && unshare -m true 2>/dev/null || skip "a mount of its own needs root"

# A machine without redis-server, whose installing lasts.
mkdir bin sbin
for program in sh env id sed dirname tee chmod rm grep cat sort head setpriv; do
	ln -s "$(command -v $program)" bin/
done
cat >bin/apt-get <<END
#!/bin/sh
case " \$* " in *" install "*)
	cat /usr/sbin/policy-rc.d >$PWD/seen
	read -r _ <$PWD/held
esac
END
chmod +x bin/apt-get
mkfifo held

# installs SIGNAL [STATUS]: begin, and end it by SIGNAL when it installs; policy-rc.d says STATUS then.
installs() {
	rm -f seen
	# The signal goes to all of it, as that of Ctrl-C does; a background job of a shell would ignore it.
	env --default-signal=INT,QUIT unshare -m setsid --fork --wait bash -c 'mount --bind sbin /usr/sbin &&
		echo $$ >pid && PATH=$PWD/bin exec "$0" redis' "$REPOSITORY/scripts/install" >out 2>err </dev/null &
	wait_for 10 test -s seen
	grep -q "exit ${2:-101}" seen || fail "$1: expected that services are kept from starting, saw: $(cat out err)"
	kill -"$1" -- "-$(cat pid)"
	wait $! || true # ends by that signal
}

for signal in HUP INT TERM; do
	installs $signal
	[[ ! -e sbin/policy-rc.d ]] || fail "SIG$signal: policy-rc.d is left"
done

# Nothing can be done about SIGKILL but at the next start.
installs KILL
[[ -e sbin/policy-rc.d ]] || fail "SIGKILL: expected policy-rc.d"
installs TERM
[[ ! -e sbin/policy-rc.d ]] || fail "after a run that was killed: policy-rc.d is left"

# Another's stays.
echo 'exit 102' >sbin/policy-rc.d
installs TERM 102
[[ -e sbin/policy-rc.d ]] || fail "another's policy-rc.d is gone"
