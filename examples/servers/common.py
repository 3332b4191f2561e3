# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What run and cost share: a server is started on CPU 0, loaded from CPU 1, measured and killed."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
COWLAB = os.environ.get("COWLAB", os.path.join(HERE, "../../target/release/cowlab"))
# The distribution's own programs.
os.environ["PATH"] = "/usr/bin:/bin:/usr/sbin:" + os.environ["PATH"]
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Server:
    """A server as Debian installs it. Its subclasses say what differs."""

    needs = {}
    """Programs and the packages that have them."""
    variants = {}
    """What `--with` takes, and what it changes."""
    stop = signal.SIGKILL
    """Ends it without another copy."""
    env = {}

    def __init__(self, folder, variants=()):
        for program, package in {"taskset": "util-linux", **self.needs}.items():
            if not shutil.which(program):
                raise SystemExit(f"{program} is not here: apt install {package}, or scripts/install footprints")
        self.folder = folder
        self.port = free_port()
        self.log = os.path.join(folder, "log")
        self.env = dict(self.env)
        for variant in variants:
            if variant not in self.variants:
                known = ", ".join(self.variants) or "none"
                raise SystemExit(f"there is no variant {variant} of this server; there are: {known}")
        self.variants = variants

    def prepare(self):
        """Once in a folder, before the first start."""

    def ready(self):
        """It answers."""
        with socket.create_connection(("127.0.0.1", self.port), 1):
            return True

    def fill(self):
        """Once after each start."""

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start(self, *before):
        """Starts it on CPU 0, as the command of another program or alone, and waits until it answers."""
        output = ["sh", "-c", 'exec "$@" >"$0" 2>&1', self.log]
        command = [*before, "taskset", "-c", "0", *output, *self.command()]
        self.process = subprocess.Popen(command, env={**os.environ, **self.env}, cwd=self.folder if not before else None)
        for _ in range(600):
            if self.process.poll() is not None:
                break
            try:
                if self.ready():
                    self.fill()
                    return
            except (OSError, subprocess.CalledProcessError):
                pass
            time.sleep(0.1)
        with open(self.log, encoding="utf-8", errors="replace") as log:
            sys.exit(f"the server does not answer: {log.read()[-2000:]}")

    def end(self):
        """Ends it and all that it started; the program before it goes on."""
        own = [self.process.pid] if self.process.args[0] == "taskset" else []
        for pid in own + descendants(self.process.pid):
            kill(pid, self.stop)
        return self.process.wait()

    def own_mib(self):
        """Private memory that a worker has written, the mean; the server's where it has no workers."""
        images = {}
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            try:
                with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
                    kib = next(int(line.split()[1]) for line in rollup if line.startswith("Private_Dirty"))
                images.setdefault(os.readlink(f"/proc/{pid}/exe"), []).append(kib / 1024)
            except OSError:
                continue
        main = next(of for exe, of in images.items() if not exe.endswith(("/cowlab", "/taskset")))
        workers = main[1:] or main
        return sum(workers) / len(workers)

    def loaded(self, seconds):
        row = self.load(seconds)
        if row.pop("errors", 0):
            raise SystemExit(f"the load had errors: {row}")
        return row | {"own_mib": self.own_mib()}


def loader(*command):
    """Runs a load's program on CPU 1; what it prints."""
    return subprocess.check_output(["taskset", "-c", "1", *command], text=True, stderr=subprocess.DEVNULL)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def descendants(pid):
    """Its children and theirs, the eldest first."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task") if os.path.exists(f"/proc/{pid}/task") else []:
        try:
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as children:
                for child in map(int, children.read().split()):
                    found += [child, *descendants(child)]
        except OSError:
            pass
    return found


def swept(folder):
    """Ends all descendants: by SIGQUIT, at which PostgreSQL gives its shared memory back, then by force."""
    for number, seconds in ((signal.SIGQUIT, 0.5), (signal.SIGKILL, 5)):
        until = time.monotonic() + seconds
        while time.monotonic() < until and (left := descendants(os.getpid())):
            for pid in left:
                kill(pid, number)
            time.sleep(0.05)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                break
    shutil.rmtree(folder, ignore_errors=True)


def guarded(main):
    """Runs main(folder) in a child. Whichever of the two is killed, the other ends all that was started, and
    removes the folder."""
    folder = tempfile.mkdtemp(prefix="cowlab-servers-")
    os.chmod(folder, 0o755)
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()

    def stopped(*_):
        raise SystemExit(130)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stopped)
    try:
        if child:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        else:
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            status = main(folder)
    finally:
        swept(folder)
    sys.exit(status)
