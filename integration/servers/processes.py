"""Processes: running them, finding them again by number and start time, and the one kind of failure all of this has."""

import contextlib
import os
import pathlib
import subprocess
import sys
import time


class Failure(Exception):
    """A failure with a message for the person running the tests."""


def say(message):
    print(f"servers: {message}", file=sys.stderr, flush=True)


def run(argv, *, what, timeout=120, env=None, stdin=None):
    """Runs a command and returns its output; a failure names `what` and shows what the command said."""
    try:
        done = subprocess.run(argv, input=stdin, text=True, capture_output=True, timeout=timeout, env=env, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"{what}: no end after {timeout} s ({' '.join(map(str, argv[:4]))} ...)") from None
    except OSError as error:
        raise Failure(f"{what}: {error}") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing")[-2000:]
        raise Failure(f"{what} failed with exit code {done.returncode}: {said}")
    return done.stdout


def discard(directory):
    """Removes a directory at once for us; the disk, which may take seconds over it, does its part in the background."""
    if not directory.exists():
        return
    aside = directory.with_name(f".removed-{directory.name}-{os.getpid()}-{time.monotonic_ns()}")
    try:
        directory.rename(aside)
    except OSError as error:
        raise Failure(f"cannot remove {directory}: {error}") from None
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen(["rm", "-rf", str(aside)], start_new_session=True, cwd="/", **quiet)


def process_start(pid):
    """The start time of a living process, in clock ticks since boot; None when it is gone or a zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    # The name stands in parentheses and may hold anything; fields count from after the last one.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def process_tree(pid):
    """The process and all below it, parents first."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                stat = (entry / "stat").read_text(encoding="utf-8")
                parent = int(stat[stat.rindex(")") + 2 :].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for known in found:
        found.extend(children.get(known, []))
    return found
