"""What making, starting and stopping a server has in common, whatever database it runs."""

import contextlib
import shutil
import time

import engines
from certificates import tls_files
from processes import Failure, discard
from registry import free_port, locked


def address_variable(kind, version):
    """The variable that names a server to use instead of starting one: CALVE_TEST_MARIADB_10_11."""
    return f"CALVE_TEST_{kind}_{version}".upper().replace(".", "_").replace("-", "_")


def describe(entry, program, settings, linger_s):
    """(state, engine) of a server yet to be made."""
    engine, made_from = engines.choose(program)
    state = {
        "id": entry.id,
        "kind": program.kind,
        "version": program.version,
        "engine": engine.kind,
        "docker_host": getattr(engine, "host", None),
        "docker_own": getattr(engine, "started_by_us", False),
        "host": "127.0.0.1",
        "linger_s": linger_s,
        "settings": settings,
        "stopped": True,
        **made_from,
    }
    return state, engine


@contextlib.contextmanager
def being_made(entry, state, engine):
    """Gives the server an empty home with certificates in it, and a port; takes all of it away again on a failure."""
    tls = tls_files()
    home = engine.home(state)
    discard(home)
    home.mkdir(parents=True)
    for name in ("server.crt", "server.key", "ca.crt"):
        shutil.copy(tls / name, home / name)
    state["data"] = str(home / "data")
    state["ca"] = str(tls / "ca.crt")
    with locked("ports"):
        state["port"] = free_port()
        entry.save(state)
    try:
        yield home
    except BaseException:
        # A server half made serves nobody; its files go with its entry.
        with contextlib.suppress(Failure):
            engine.remove(state)
        entry.remove()
        raise


def await_ready(engine, state, accepts_connections, timeout_s):
    """Returns once the server takes connections."""
    deadline = time.monotonic() + timeout_s
    while True:
        if accepts_connections(state["host"], state["port"]):
            return
        if not engine.alive(state):
            raise Failure(f"{state['id']} ended while starting:\n{_log_end(engine, state)}")
        if time.monotonic() > deadline:
            late = f"{state['id']} takes no connections {timeout_s} s after its start"
            raise Failure(f"{late}:\n{_log_end(engine, state)}")
        time.sleep(0.02)


def await_end(engine, state, mode, timeout_s):
    """Returns once the server, which was told to, has ended."""
    deadline = time.monotonic() + timeout_s
    while engine.alive(state):
        if time.monotonic() > deadline:
            raise Failure(f"{state['id']} has not stopped {timeout_s} s after being told to ({mode})")
        time.sleep(0.02)


def _log_end(engine, state):
    return "\n".join(engine.log(state).strip().splitlines()[-15:])
