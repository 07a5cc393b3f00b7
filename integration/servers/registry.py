"""What is running: one directory a server, locks, owners, and the reaper that stops what nobody owns any more.

A test process that is killed cannot clean up after itself. So a server may have owners, named by process id and start
time (ids are reused); once all of them are gone, a background process stops the server and removes its data.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from processes import Failure, process_start


def cache_dir():
    """Where roots, images' markers and servers live: outside the repository, kept between runs."""
    given = os.environ.get("CALVE_TEST_CACHE")
    if given:
        return pathlib.Path(given).absolute()
    if os.geteuid() == 0:
        return pathlib.Path("/var/cache/calve-test")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "calve-test"


def servers_dir():
    directory = cache_dir() / "servers"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextlib.contextmanager
def locked(name, blocking_s=None, shared=False):
    """Holds the lock `name` across processes, alone or `shared`. With `blocking_s`, gives up after that long and yields
    False."""
    path = cache_dir() / "locks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        if blocking_s is None:
            fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            yield True
            return
        deadline = time.monotonic() + blocking_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    yield False
                    return
                time.sleep(0.1)
        yield True


def write_json(path, value):
    """Replaces a file as a whole: a reader sees the old or the new one."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


class Entry:
    """One server's directory: `server.json` and the processes that own it."""

    def __init__(self, server_id):
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,40}", server_id):
            raise Failure(f'"{server_id}" cannot name a server: use up to 41 of a-z, 0-9, "." and "-"')
        self.id = server_id
        self.directory = servers_dir() / server_id
        self.file = self.directory / "server.json"

    def exists(self):
        return self.file.exists()

    def load(self):
        try:
            return json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise Failure(f'no server "{self.id}" here; `servers.py list` names those there are') from None

    def save(self, state):
        self.directory.mkdir(parents=True, exist_ok=True)
        write_json(self.file, state)

    def add_owner(self, pid):
        start = process_start(pid)
        if start is None:
            raise Failure(f"process {pid} cannot own a server: it is not running")
        owners = self.directory / "owners"
        owners.mkdir(parents=True, exist_ok=True)
        (owners / f"{pid}-{start}").touch()

    def owners(self):
        """(ever owned, owned by a living process)"""
        try:
            names = [path.name for path in (self.directory / "owners").iterdir()]
        except FileNotFoundError:
            return False, False
        pairs = [name.split("-") for name in names]
        return bool(pairs), any(process_start(int(pid)) == int(start) for pid, start in pairs)

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)


def entries():
    return [Entry(path.name) for path in sorted(servers_dir().iterdir()) if (path / "server.json").exists()]


# Below the range from which the kernel gives ports to outgoing connections, so that a port stays free while its server
# is down for a restart.
PORTS = range(15000, 30000)


def free_port():
    """A loopback port that no server of ours holds, running or not, and that nothing listens on."""
    taken = {entry.load().get("port") for entry in entries()}
    for port in random.sample(PORTS, 200):
        if port not in taken:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                with contextlib.suppress(OSError):
                    probe.bind(("127.0.0.1", port))
                    return port
    raise Failure(f"found no free port between {PORTS.start} and {PORTS.stop} on 127.0.0.1")


def ensure_reaper():
    """Starts the reaper, detached; where one runs already, the new one notices and leaves."""
    subprocess.Popen(
        [sys.executable, str(pathlib.Path(__file__).parent / "servers.py"), "reap"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={**os.environ, "CALVE_TEST_CACHE": str(cache_dir())},
    )


# How long the reaper outlives the last owned server, so that a run of short tests does not start one for each.
REAPER_IDLE_S = 30


def reap(take_down):
    """Takes down servers whose owners are gone, until nothing owned is left for a while.

    Whoever starts a server writes it down first and asks for a reaper second. A reaper about to leave may hold the lock
    while the next one asks for it; waiting longer than a round settles which of the two has seen the new server.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with locked("reaper", blocking_s=5) as ours:
        if not ours:
            return
        idle_since = time.monotonic()
        ownerless_since = {}
        while time.monotonic() - idle_since < REAPER_IDLE_S:
            for entry in entries():
                owned, alive = entry.owners()
                if owned:
                    idle_since = time.monotonic()
                if not owned or alive:
                    ownerless_since.pop(entry.id, None)
                    continue
                since = ownerless_since.setdefault(entry.id, time.monotonic())
                with contextlib.suppress(Failure, OSError, ValueError, subprocess.SubprocessError):
                    if time.monotonic() - since >= entry.load().get("linger_s", 0):
                        take_down(entry)
            time.sleep(1)
