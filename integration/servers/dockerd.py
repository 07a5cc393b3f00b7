"""The Docker engine: whether one answers, and the one these scripts install and start where none does.

Ours has a socket and a data directory of its own below the cache, so that it meddles with no other; it has no bridge
and no firewall rules, so that it runs where those are not allowed, and its containers use the host's network.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from processes import Failure, process_start, run
from registry import cache_dir, locked, write_json

INSTALL_SH = pathlib.Path(__file__).resolve().parents[1] / "install.sh"

# On everything we make in an engine, found or started.
LABEL = "calve-test"


def own_dir():
    return cache_dir() / "docker"


def own_socket():
    return f"unix://{own_dir()}/docker.sock"


def engine_version(host):
    argv = ["docker", *(["--host", host] if host else []), "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(argv, text=True, capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 and done.stdout.strip() else None


def _install_docker():
    if shutil.which("dockerd") and shutil.which("docker"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Failure("Docker is not installed, and only root on a Debian-like system can install it")
    run([str(INSTALL_SH), "docker.io"], what="installing Docker", timeout=900)


def start_own_engine():
    """Starts dockerd on a socket and data directory of its own, and returns its version once it answers."""
    if os.geteuid() != 0:
        raise Failure("only root can start Docker")
    _install_docker()
    # On a machine with an init system the package has just started it.
    version = engine_version(None)
    if version:
        return None, version
    directory = own_dir()
    directory.mkdir(parents=True, exist_ok=True)
    argv = ["dockerd", "--host", own_socket(), "--data-root", str(directory / "data")]
    argv += ["--exec-root", str(directory / "run"), "--pidfile", str(directory / "dockerd.pid")]
    argv += ["--bridge=none", "--iptables=false", "--ip6tables=false"]
    (directory / "dockerd.pid").unlink(missing_ok=True)
    _forget_dead_containerd(directory / "run")
    # It outlives whoever starts it, and so the temporary directory of a test run or a benchmark.
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    with open(directory / "dockerd.log", "w", encoding="utf-8") as log:
        daemon = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/", env=environment
        )
    write_json(directory / "dockerd.json", {"pid": daemon.pid, "pid_start": process_start(daemon.pid)})
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        version = engine_version(own_socket())
        if version:
            _forget_lost_containers(own_socket())
            return own_socket(), version
        if daemon.poll() is not None:
            break
        time.sleep(0.2)
    if daemon.poll() is None:
        daemon.terminate()
    lines = (directory / "dockerd.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise Failure(f"dockerd does not come up: {lines[-1] if lines else 'it said nothing'}")


def _forget_dead_containerd(directory):
    """Removes the pid file of a containerd that is gone: dockerd would take any process of that number for it."""
    with contextlib.suppress(OSError, ValueError):
        pid_file = directory / "containerd" / "containerd.pid"
        pid = int(pid_file.read_text(encoding="utf-8"))
        name = pathlib.Path(f"/proc/{pid}/comm")
        if not name.exists() or name.read_text(encoding="utf-8").strip() != "containerd":
            pid_file.unlink()


def _forget_lost_containers(host):
    """Removes containers of servers that were taken down while their engine did not run."""
    listing = ["docker", "--host", host, "ps", "-a", "--filter", f"label={LABEL}"]
    shown = run([*listing, "--format", '{{.ID}} {{.Label "calve-test.id"}}'], what="listing containers")
    for line in shown.splitlines():
        container, _, server = line.partition(" ")
        if not (cache_dir() / "servers" / server / "server.json").is_file() or not server:
            run(["docker", "--host", host, "rm", "-f", "-v", container], what="removing a left-over container")


def stop_own_engine():
    """Stops the dockerd we started, if it runs."""
    with locked("engine"):
        file = own_dir() / "dockerd.json"
        if not file.exists():
            return
        daemon = json.loads(file.read_text(encoding="utf-8"))
        if process_start(daemon["pid"]) == daemon["pid_start"]:
            os.kill(daemon["pid"], signal.SIGTERM)
            deadline = time.monotonic() + 30
            while process_start(daemon["pid"]) == daemon["pid_start"] and time.monotonic() < deadline:
                time.sleep(0.1)
        file.unlink(missing_ok=True)
        (cache_dir() / "engine.json").unlink(missing_ok=True)
