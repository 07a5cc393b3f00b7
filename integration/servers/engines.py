"""Where a server's file system runs: in a container, or under chroot where no container engine can run.

Both give the same few operations on one server's home, a directory that the server sees as `/srv/<id>`.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

from dockerd import LABEL, engine_version, own_socket, start_own_engine
from processes import Failure, discard, process_start, process_tree, run, say
from registry import cache_dir, locked, write_json

# Held while the engine is used, or, alone, to stop it.
ENGINE_USE = "engine-use"

IMAGE_SH = pathlib.Path(__file__).resolve().parents[2] / "docker" / "image.sh"


def image_sh(kind, suite, host=None):
    """The root or image of a suite, built where missing. Its progress goes to our standard error."""
    env = dict(os.environ, CALVE_TEST_CACHE=str(cache_dir()))
    if host:
        env["CALVE_TEST_DOCKER_HOST"] = host
    done = subprocess.run([str(IMAGE_SH), kind, suite], stdout=subprocess.PIPE, text=True, env=env, check=False)
    if done.returncode != 0:
        raise Failure(f"building the {kind} of Debian {suite} failed; what went wrong stands above")
    return done.stdout.strip()


class Chroot:
    """A process tree of this machine whose root is a suite's file system."""

    kind = "chroot"
    listen = "127.0.0.1"

    def describe(self):
        return "chroot"

    def prepare(self, program):
        return {"root": image_sh("root", program.suite)}

    def home(self, state):
        return pathlib.Path(state["root"]) / "srv" / state["id"]

    def _argv(self, state, argv, user):
        spec = [f"--userspec={user}:{user}"] if user else []
        return ["chroot", *spec, state["root"], *argv]

    def _env(self, extra=None):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/", **(extra or {})}

    def setup(self, state, script, beside=None):
        """Runs a shell script inside, as root, before the server first starts; it sees the home of `beside` too."""
        run(self._argv(state, ["sh", "-ec", script], None), what=f"setting up {state['id']}", env=self._env())

    def command(self, state, argv, user, env):
        """(argv, environment) of a command run inside a running server's file system."""
        return self._argv(state, argv, user), self._env(env)

    def start(self, state, argv, user):
        with open(self.home(state) / "server.log", "a", encoding="utf-8") as log:
            process = subprocess.Popen(
                self._argv(state, argv, user),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env(),
                start_new_session=True,
                cwd="/",
            )
        state["pid"] = process.pid
        state["pid_start"] = process_start(process.pid)

    def alive(self, state):
        return state.get("pid_start") is not None and process_start(state["pid"]) == state["pid_start"]

    def signal(self, state, number):
        if self.alive(state):
            with contextlib.suppress(ProcessLookupError):
                os.kill(state["pid"], number)

    def kill(self, state):
        """Kills the server and everything it started, as a crash of the machine would."""
        if not self.alive(state):
            return
        # The first process is frozen so that it starts nobody while its children are counted.
        self.signal(state, signal.SIGSTOP)
        tree = [(pid, process_start(pid)) for pid in process_tree(state["pid"])]
        for pid, _ in tree:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while any(start is not None and process_start(pid) == start for pid, start in tree):
            if time.monotonic() > deadline:
                raise Failure(f"{state['id']}: processes {[pid for pid, _ in tree]} do not die")
            time.sleep(0.01)

    def log(self, state):
        return (self.home(state) / "server.log").read_text(encoding="utf-8", errors="replace")

    def remove(self, state):
        self.kill(state)
        discard(self.home(state))


class Docker:
    """A container for each server. The home is a directory of the host, so that data survives the container's end."""

    kind = "docker"

    def __init__(self, host, started_by_us, version):
        self.host = host
        self.started_by_us = started_by_us
        self.version = version
        # The engine we start has no bridge and no firewall rules, so that it runs where those are not allowed.
        self.host_network = started_by_us
        self.listen = "127.0.0.1" if self.host_network else "*"

    def describe(self):
        whose = "started by these scripts" if self.started_by_us else "found running"
        return f"Docker {self.version}, {whose}"

    def _docker(self, *argv):
        return ["docker", *(["--host", self.host] if self.host else []), *argv]

    def prepare(self, program):
        image = self._image(program)
        run(
            self._docker("run", "--rm", "--network", "none", "--label", LABEL, "--entrypoint", "true", image),
            what="running a first container",
            timeout=60,
        )
        return {"image": image}

    def _image(self, program):
        """The official image where it is here or can be pulled, else one made from Debian's packages."""
        present = run(
            self._docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}"), what="listing images"
        ).split()
        if program.image in present:
            return program.image
        if not any(tag.startswith(f"calve-test/{program.suite}:") for tag in present):
            try:
                run(self._docker("manifest", "inspect", program.image), what="looking the image up", timeout=15)
                say(f"pulling {program.image}")
                run(self._docker("pull", "-q", program.image), what="pulling the image", timeout=600)
                return program.image
            except Failure as failure:
                why = str(failure).splitlines()[0][:160]
                say(f"no official image {program.image} ({why}); making one from Debian's packages")
        return image_sh("image", program.suite, self.host)

    def home(self, state):
        return cache_dir() / "servers" / state["id"] / "home"

    def _name(self, state):
        return f"calve-test-{state['id']}"

    def _mount(self, state):
        return ["--volume", f"{self.home(state)}:/srv/{state['id']}"]

    def setup(self, state, script, beside=None):
        homes = [*self._mount(state), *(self._mount(beside) if beside else [])]
        argv = ["run", "--rm", "--network", "none", "--label", LABEL, *homes, "--user", "root"]
        argv += ["--entrypoint", "sh", state["image"], "-ec", script]
        run(self._docker(*argv), what=f"setting up {state['id']}")

    def command(self, state, argv, user, env):
        variables = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
        return self._docker("exec", "-i", "--user", user, *variables, self._name(state), *argv), None

    def start(self, state, argv, user):
        if self._gone():
            with locked("engine"):
                start_own_engine()
        name = self._name(state)
        exists = run(self._docker("ps", "-aq", "--filter", f"name=^{name}$"), what="looking for the container").strip()
        if not exists:
            port = state["port"]
            network = ["--network", "host"] if self.host_network else ["--publish", f"127.0.0.1:{port}:{port}"]
            create = ["create", "--name", name, "--label", LABEL, "--label", f"{LABEL}.id={state['id']}", *network]
            create += [*self._mount(state), "--shm-size", "256m", "--user", user, "--entrypoint", argv[0]]
            run(self._docker(*create, state["image"], *argv[1:]), what=f"creating the container of {state['id']}")
        run(self._docker("start", name), what=f"starting the container of {state['id']}")

    def _gone(self):
        """Whether this is the engine that we started, ended since: what ran in it runs no more."""
        return self.started_by_us and engine_version(self.host) is None

    def alive(self, state):
        if self._gone():
            return False
        listed = run(
            self._docker("ps", "-q", "--filter", f"name=^{self._name(state)}$"), what="looking for the container"
        )
        return bool(listed.strip())

    def signal(self, state, number):
        if self.alive(state):
            with contextlib.suppress(Failure):
                run(
                    self._docker("kill", "--signal", str(int(number)), self._name(state)),
                    what="signalling the container",
                )

    def kill(self, state):
        """Kills the container's first process, with which the kernel ends all others in it."""
        self.signal(state, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while self.alive(state):
            if time.monotonic() > deadline:
                raise Failure(f"{state['id']}: its container does not die")
            time.sleep(0.02)

    def log(self, state):
        done = subprocess.run(self._docker("logs", self._name(state)), text=True, capture_output=True, check=False)
        return done.stdout + done.stderr

    def remove(self, state):
        # A container of an engine that ended is forgotten when that starts again.
        if not self._gone():
            argv = self._docker("rm", "-f", "-v", self._name(state))
            gone = subprocess.run(argv, text=True, capture_output=True, check=False)
            if gone.returncode != 0 and "No such container" not in gone.stderr:
                raise Failure(f"{state['id']}: cannot remove its container: {gone.stderr.strip()}")
        home = self.home(state)
        if os.geteuid() != 0 and home.exists():
            # Its files belong to users of the container.
            self.setup(state, f"rm -rf /srv/{state['id']}/*")
        discard(home)


def from_state(state):
    """The engine that a server was made in."""
    if state["engine"] == "chroot":
        return Chroot()
    return Docker(state["docker_host"], state["docker_own"], "")


def _boot_id():
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    return ""


def choose(program):
    """The engine for new servers, and what it needs to know to start `program`.

    Docker where it runs or can be made to run, else chroot. What was found is kept until the next boot, so that only
    the first server pays for finding out. CALVE_TEST_ENGINE=docker or chroot decides instead. The caller holds the lock
    ENGINE_USE, shared, until what it starts is written down: so the engine is not stopped in between.
    """
    wanted = os.environ.get("CALVE_TEST_ENGINE", "")
    if wanted not in ("", "docker", "chroot"):
        raise Failure(f'CALVE_TEST_ENGINE is "{wanted}"; it can be "docker" or "chroot", or be left out')
    if wanted == "chroot":
        return Chroot(), Chroot().prepare(program)
    file = cache_dir() / "engine.json"
    with locked("engine"):
        known = {}
        with contextlib.suppress(OSError, ValueError):
            known = json.loads(file.read_text(encoding="utf-8"))
        if known.get("boot") != _boot_id():
            known = {}
        if known.get("kind") == "chroot" and not wanted:
            engine = Chroot()
        else:
            engine = _docker(known, wanted)
            write_json(
                file,
                {
                    "boot": _boot_id(),
                    "kind": engine.kind,
                    "host": getattr(engine, "host", None),
                    "own": getattr(engine, "started_by_us", False),
                },
            )
    try:
        return engine, engine.prepare(program)
    except Failure as failure:
        if engine.kind == "chroot" or wanted:
            raise
        say(f"Docker answers but does not serve ({failure}); using chroot")
        with locked("engine"):
            write_json(file, {"boot": _boot_id(), "kind": "chroot"})
        return Chroot(), Chroot().prepare(program)


def _docker(known, wanted):
    """The running engine, else one started now, else chroot (unless Docker is `wanted`)."""
    candidates = [(None, False), (own_socket(), True)]
    if known.get("kind") == "docker":
        candidates.insert(0, (known["host"], known["own"]))
    for host, own in candidates:
        version = engine_version(host)
        if version:
            return Docker(host, own, version)
    try:
        host, version = start_own_engine()
        engine = Docker(host, host is not None, version)
        say(f"using {engine.describe()}")
        return engine
    except Failure as failure:
        if wanted:
            raise
        if os.geteuid() != 0:
            raise Failure(
                f"no server can run here: {failure}. Start Docker, run this as root, or give an address "
                "(CALVE_TEST_POSTGRES_17=postgres://...)"
            ) from None
        say(f"using chroot, since {failure}")
        return Chroot()
